package kube

import (
	"encoding/json"
	"slices"
	"testing"

	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/internal/settings"
)

// A profile is passed on with our plugins in it; a name without one has the default.
func TestProfilesArePassedOn(t *testing.T) {
	section := json.RawMessage(`{"percentageOfNodesToScore": 30, "profiles": [{"schedulerName": "packed",
		"plugins": {"multiPoint": {"disabled": [{"name": "ImageLocality"}]}, "postFilter": {"disabled": [{"name": "*"}]}},
		"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
			{"name": "PodTopologySpread", "args": {"defaultingType": "System"}}]}]}`)
	both := []string{"mesos", "packed"}
	config, faults := parseConfiguration(section, both)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	all, err := profiles(config, section, Config{SchedulerNames: both, Preemption: true})
	if err != nil || len(all) != 2 || *config.PercentageOfNodesToScore != 30 {
		t.Fatalf("got %d profiles, %v", len(all), err)
	}
	has := func(p schedulerapi.KubeSchedulerProfile, name string) bool {
		return slices.ContainsFunc(p.Plugins.MultiPoint.Enabled, func(one schedulerapi.Plugin) bool { return one.Name == name })
	}
	for i, p := range all {
		if p.SchedulerName != both[i] || !has(p, GateName) || !has(p, OffersName) || !has(p, LaunchName) || !has(p, PreemptionName) ||
			has(p, names.DefaultBinder) || has(p, names.DefaultPreemption) || p.Plugins.Filter.Enabled[0].Name != OffersName {
			t.Errorf("profile %s has plugins %+v", p.SchedulerName, p.Plugins)
		}
		given := i == 1
		if has(p, names.ImageLocality) == given {
			t.Errorf("profile %s: ImageLocality is %t", p.SchedulerName, !given)
		}
		for _, one := range p.PluginConfig {
			switch args := one.Args.(type) {
			case *schedulerapi.NodeResourcesFitArgs:
				if (args.ScoringStrategy.Type == schedulerapi.MostAllocated) != given {
					t.Errorf("profile %s scores by %s", p.SchedulerName, args.ScoringStrategy.Type)
				}
			case *schedulerapi.PodTopologySpreadArgs:
				if (args.DefaultingType == schedulerapi.SystemDefaulting) != given {
					t.Errorf("profile %s spreads by %s", p.SchedulerName, args.DefaultingType)
				}
			}
		}
	}
}

// What is wrong is told by its place, upstream's own checks included.
func TestCheckConfiguration(t *testing.T) {
	for text, want := range map[string][]string{
		``:   nil,
		`{}`: {"k.profiles[0].schedulerName"}, // upstream's default profile is for the stock scheduler
		`{"profiles": [{"schedulerName": "mesos"}], "parallelism": 4}`:                                                                  nil,
		`{"profiles": [{"schedulerName": "mesos"}], "leaderElection": {}}`:                                                              {"k.leaderElection"},
		`{"profiles": [{"schedulerName": "mesos", "pluginz": {}}]}`:                                                                     {"k.profiles[0].pluginz"},
		`{"profiles": [{"schedulerName": "other"}, {"schedulerName": "mesos"}]}`:                                                        {"k.profiles[0].schedulerName"},
		`{"profiles": [{"schedulerName": "mesos", "percentageOfNodesToScore": 101}]}`:                                                   {"k.profiles[0].percentageOfNodesToScore"},
		`{"profiles": [{"schedulerName": "mesos", "plugins": {"bind": {"enabled": [{"name": "DefaultBinder"}]}}}]}`:                     {"k.profiles[0].plugins.bind.enabled"},
		`{"profiles": [{"schedulerName": "mesos", "plugins": {"filter": {"disabled": [{"name": "NodePorts"}, {"name": "*"}]}}}]}`:       {"k.profiles[0].plugins.filter.disabled[1]"},
		`{"profiles": [{"schedulerName": "mesos", "plugins": {"multiPoint": {"disabled": [{"name": "*"}, {"name": "MesosLaunch"}]}}}]}`: {"k.profiles[0].plugins.multiPoint.disabled[1]"},
		`{"kind": "KubeletConfiguration"}`:                                                                                              {"k"},
		`[]`:                                                                                                                            {"k"},
	} {
		var got []string
		var faults []settings.Fault
		if text != "" {
			faults = CheckConfiguration("k", json.RawMessage(text), []string{"mesos"})
		} else {
			faults = CheckConfiguration("k", nil, []string{"mesos"})
		}
		for _, f := range faults {
			got = append(got, f.Key)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
			t.Errorf("%s: faults %v, difference of keys:\n%s", text, faults, diff)
		}
	}
}

package kube

import (
	"slices"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/events"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/google/go-cmp/cmp"
)

// Gates that are not known, locked, or need another one are faults; the check sets nothing.
func TestCheckFeatureGates(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                     nil,
		"GenericWorkload=true":                 nil,
		"GenericWorkload=true Nonsense=true":   {"k"},
		"GenericWorkload":                      {"k"},
		"GenericWorkload=perhaps":              {"k"},
		"DynamicResourceAllocation=false":      {"k"}, // locked
		"TopologyAwareWorkloadScheduling=true": {"k"}, // needs GenericWorkload
		"TopologyAwareWorkloadScheduling=true GenericWorkload=true": nil,
	} {
		var got []string
		for _, fault := range CheckFeatureGates("k", strings.Fields(text)) {
			got = append(got, fault.Key)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		t.Error("the check has set a gate")
	}
}

// With the gate of gangs kube-scheduler has its plugin for them, beside ours, with preemption as without it.
func TestGenericWorkload(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.GenericWorkload, true)
	for _, preempt := range []bool{false, true} {
		h := newHarness(t)
		h.cfg.Preemption = preempt
		for i := range h.profiles {
			p, err := newProfile(h.profiles[i].SchedulerName, preempt)
			if err != nil {
				t.Fatal(err)
			}
			h.profiles[i] = p
		}
		broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: h.client.EventsV1()})
		defer broadcaster.Shutdown()
		sched, err := h.build(t.Context(), profile.NewRecorderFactory(broadcaster))
		if err != nil {
			t.Fatal(err)
		}
		permit := sched.Profiles["mesos"].ListPlugins().Permit.Enabled
		if !slices.ContainsFunc(permit, func(p schedulerapi.Plugin) bool { return p.Name == names.GangScheduling }) {
			t.Errorf("preemption %t: plugins that permit are %v, want %s among them", preempt, permit, names.GangScheduling)
		}
	}
}

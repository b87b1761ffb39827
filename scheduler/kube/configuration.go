package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/mesopod/mesopod/internal/settings"
)

// passedOn are the fields of a KubeSchedulerConfiguration that are taken over. What kube-scheduler is as a program (its
// election, its client, its debugging) is not kube-scheduler's to say here.
var passedOn = []string{"apiVersion", "kind", "profiles", "extenders", "parallelism", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds"}

// CheckConfiguration tells all that is wrong with a KubeSchedulerConfiguration for these scheduler names. Keys of faults begin
// with key.
func CheckConfiguration(key string, section json.RawMessage, schedulerNames []string) (faults []settings.Fault) {
	_, errs := parseConfiguration(section, schedulerNames)
	for _, err := range errs {
		var at *field.Error
		if errors.As(err, &at) {
			faults = append(faults, settings.Fault{Key: key + "." + at.Field, Err: errors.New(at.ErrorBody())})
			continue
		}
		faults = append(faults, settings.Below(key, err))
	}
	return faults
}

// parseConfiguration reads the section strictly, with kube-scheduler's own defaults and checks; empty is the default.
func parseConfiguration(section json.RawMessage, schedulerNames []string) (*schedulerapi.KubeSchedulerConfiguration, []error) {
	if len(section) == 0 {
		config, err := latest.Default()
		if err != nil {
			return nil, []error{err}
		}
		return config, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(section, &fields); err != nil {
		return nil, []error{errors.New("it is no object")}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(passedOn, name) {
			errs = append(errs, fmt.Errorf("field %q is not to be set: want one of %v", name, passedOn[2:]))
		}
	}
	for name, text := range map[string]string{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"} {
		if fields[name] == nil {
			fields[name], _ = json.Marshal(text) // a text can be encoded
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, append(errs, err)
	}
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if strict, is := runtime.AsStrictDecodingError(err); is {
		return nil, append(errs, strict.Errors()...)
	}
	if err != nil {
		return nil, append(errs, err)
	}
	config, is := object.(*schedulerapi.KubeSchedulerConfiguration)
	if !is {
		return nil, append(errs, errors.New("it is no KubeSchedulerConfiguration"))
	}
	config.APIVersion = "kubescheduler.config.k8s.io/v1" // which its checks ask for
	if wrong := validation.ValidateKubeSchedulerConfiguration(config); wrong != nil {
		errs = append(errs, wrong.Errors()...)
	}
	for i := range config.Profiles {
		errs = append(errs, checkProfile(field.NewPath("profiles").Index(i), &config.Profiles[i], schedulerNames)...)
	}
	return config, errs
}

// checkProfile refuses what would take our plugins out of a profile.
func checkProfile(path *field.Path, p *schedulerapi.KubeSchedulerProfile, schedulerNames []string) (errs []error) {
	if !slices.Contains(schedulerNames, p.SchedulerName) {
		errs = append(errs, field.Invalid(path.Child("schedulerName"), p.SchedulerName, fmt.Sprintf("is none of schedulerNames, %v", schedulerNames)))
	}
	plugins := path.Child("plugins")
	if p.Plugins == nil {
		return errs
	}
	if len(p.Plugins.Bind.Enabled) > 0 {
		errs = append(errs, field.Forbidden(plugins.Child("bind", "enabled"), "pods are bound by way of Mesos"))
	}
	for name, set := range map[string]schedulerapi.PluginSet{
		"multiPoint": p.Plugins.MultiPoint, "preEnqueue": p.Plugins.PreEnqueue, "preFilter": p.Plugins.PreFilter, "filter": p.Plugins.Filter,
		"reserve": p.Plugins.Reserve, "bind": p.Plugins.Bind, "postFilter": p.Plugins.PostFilter,
	} {
		for i, plugin := range set.Disabled {
			ours := slices.Contains([]string{GateName, OffersName, LaunchName, PreemptionName}, plugin.Name)
			if ours || plugin.Name == "*" && name != "multiPoint" && name != "postFilter" {
				errs = append(errs, field.Forbidden(plugins.Child(name, "disabled").Index(i), "this would leave out what Mesos needs there: name plugins of kube-scheduler's"))
			}
		}
	}
	return errs
}

// profiles are those of the configuration, and the default one for each name without one, all with our plugins.
func profiles(config *schedulerapi.KubeSchedulerConfiguration, section json.RawMessage, cfg Config) ([]schedulerapi.KubeSchedulerProfile, error) {
	var all []schedulerapi.KubeSchedulerProfile
	for _, name := range cfg.SchedulerNames {
		i := slices.IndexFunc(config.Profiles, func(p schedulerapi.KubeSchedulerProfile) bool { return p.SchedulerName == name })
		if len(section) == 0 || i < 0 {
			p, err := newProfile(name, cfg.Preemption)
			if err != nil {
				return nil, fmt.Errorf("profile %s: %w", name, err)
			}
			all = append(all, p)
			continue
		}
		p := config.Profiles[i]
		ours(&p, cfg.Preemption, spreads(section, name))
		all = append(all, p)
	}
	return all, nil
}

// spreads tells that the profile says itself how PodTopologySpread is to work.
func spreads(section json.RawMessage, schedulerName string) bool {
	var given struct {
		Profiles []struct {
			SchedulerName string `json:"schedulerName"`
			PluginConfig  []struct {
				Name string `json:"name"`
			} `json:"pluginConfig"`
		} `json:"profiles"`
	}
	if json.Unmarshal(section, &given) != nil { // parseConfiguration has read it
		return false
	}
	for _, p := range given.Profiles {
		for _, args := range p.PluginConfig {
			if p.SchedulerName == schedulerName && args.Name == names.PodTopologySpread {
				return true
			}
		}
	}
	return false
}

package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// newProfile is kube-scheduler's default profile with our plugins: ours binds instead of DefaultBinder, and our Filter
// comes first, since only the first Filter that refuses a node speaks, and only pods that it refused are woken by our
// event. The soft default spread over hosts and zones is off: with it no pod can be signed, so equal pods would not be
// placed in one go. DefaultPreemption gives its place to ours, or to nobody.
func newProfile(schedulerName string, preempt bool) (schedulerapi.KubeSchedulerProfile, error) {
	cfg, err := latest.Default()
	if err != nil {
		return schedulerapi.KubeSchedulerProfile{}, err
	}
	profile := cfg.Profiles[0]
	profile.SchedulerName = schedulerName
	ours(&profile, preempt, false)
	return profile, nil
}

// ours puts our plugins into a profile. keepSpread leaves the default spread as the profile has it.
func ours(profile *schedulerapi.KubeSchedulerProfile, preempt, keepSpread bool) {
	multi := &profile.Plugins.MultiPoint
	multi.Enabled = slices.DeleteFunc(multi.Enabled, func(p schedulerapi.Plugin) bool { return p.Name == names.DefaultBinder })
	for _, set := range []*schedulerapi.PluginSet{multi, &profile.Plugins.PostFilter} {
		i := slices.IndexFunc(set.Enabled, func(p schedulerapi.Plugin) bool { return p.Name == names.DefaultPreemption })
		switch {
		case i < 0:
		case preempt:
			set.Enabled[i].Name = PreemptionName
		default:
			set.Enabled = slices.Delete(set.Enabled, i, i+1)
		}
	}
	multi.Enabled = append(multi.Enabled, schedulerapi.Plugin{Name: GateName}, schedulerapi.Plugin{Name: OffersName}, schedulerapi.Plugin{Name: LaunchName})
	profile.Plugins.Filter.Enabled = append([]schedulerapi.Plugin{{Name: OffersName}}, profile.Plugins.Filter.Enabled...)
	for _, config := range profile.PluginConfig {
		if args, ok := config.Args.(*schedulerapi.PodTopologySpreadArgs); ok && !keepSpread {
			args.DefaultingType, args.DefaultConstraints = schedulerapi.ListDefaulting, nil
		}
	}
}

// dropNotReady leaves the stock not-ready taints out of what kube-scheduler sees of a node: whether an agent can run a
// pod is judged by its offers, and an agent whose executor sleeps has no Ready kubelet. Users' taints, cordons and
// labels stay. The object comes fresh from the decoder, so it may be written to.
func dropNotReady(object any) (any, error) {
	object, err := stripManagedFields(object)
	if err != nil {
		return nil, err
	}
	if node, ok := object.(*corev1.Node); ok {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
		})
	}
	return object, nil
}

func stripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil { // what has no metadata has no managed fields
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/offers"
)

// Verdict is what a plan says of one node.
type Verdict struct {
	Node string
	// Why the pod cannot be placed there; empty if it can.
	Why string
}

// Plan is where a pod could be placed, and why not elsewhere.
type Plan struct {
	// Nodes by name.
	Nodes []Verdict
	// Sentence sums them up with counts, as the pod's condition would; empty if the pod fits somewhere.
	Sentence string
	// Held says why the pod would not even be tried now; empty if it would.
	Held string
}

// planner asks the filters of one profile without a scheduling cycle: it is a second framework of the same profile, so that it
// has plugins and a snapshot of its own, and nothing that it does is seen by kube-scheduler.
type planner struct {
	framework framework.Framework
	shared    *planned
}

// planned is what all planners share, for one plan at a time.
type planned struct {
	mu sync.Mutex
	fwk.SharedLister
	// expected are views of nodes that have no offer now.
	expected map[string]*offers.View
	cache    schedulercache.Cache
}

// newPlanners makes a planner of each profile. They live as long as ctx.
func (s *Scheduler) newPlanners(ctx context.Context, sched *scheduler.Scheduler, ours runtime.Registry) (map[string]*planner, error) {
	shared := &planned{SharedLister: schedulercache.NewEmptySnapshot(), cache: sched.Cache}
	registry := plugins.NewInTreeRegistry()
	if err := registry.Merge(ours); err != nil {
		return nil, err
	}
	registry[OffersName] = s.offersFactory(shared)
	planners := map[string]*planner{}
	for i := range s.profiles {
		name := s.profiles[i].SchedulerName
		real := sched.Profiles[name]
		// Under another name: plugins put indexes of that name onto informers, and series of kube-scheduler have it as a label.
		profile := s.profiles[i]
		profile.SchedulerName += "-plan"
		f, err := runtime.NewFramework(ctx, registry, &profile,
			runtime.WithClientSet(s.cfg.Client), runtime.WithInformerFactory(s.factory), runtime.WithSnapshotSharedLister(shared),
			runtime.WithSharedDRAManager(real.SharedDRAManager()), runtime.WithSharedCSIManager(real.SharedCSIManager()),
			// Nobody is evicted for a plan; but with gangs on, preemption cannot be built without.
			runtime.WithMutableSnapshotLister(schedulercache.NewEmptySnapshot()), runtime.WithPodGroupManager(sched.Cache),
			runtime.WithPodNominator(sched.SchedulingQueue), runtime.WithEventRecorder(real.EventRecorder()))
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", name, err)
		}
		planners[name] = &planner{framework: f, shared: shared}
	}
	return planners, nil
}

// Plan tells where the pod could be placed now. expected are what nodes without an offer would be offered. The pod is one that the
// API server has defaulted; it need not exist, and nothing is changed. The error is errdefs.ErrInvalid for a pod that no node
// can ever run, and errdefs.ErrUnavailable before Run is ready.
func (s *Scheduler) Plan(ctx context.Context, pod *corev1.Pod, expected map[string]*offers.View) (Plan, error) {
	if !slices.Contains(s.cfg.SchedulerNames, pod.Spec.SchedulerName) {
		return Plan{}, fmt.Errorf("spec.schedulerName is %s; this scheduler places pods of %s: %w", pod.Spec.SchedulerName, strings.Join(s.cfg.SchedulerNames, ", "), errdefs.ErrInvalid)
	}
	planners := s.planners.Load()
	if planners == nil {
		return Plan{}, fmt.Errorf("kube-scheduler is still starting: %w", errdefs.ErrUnavailable)
	}
	p := (*planners)[pod.Spec.SchedulerName]
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	p.shared.SharedLister, p.shared.expected = snapshotOf(p.shared.cache), expected
	defer func() { p.shared.SharedLister, p.shared.expected = schedulercache.NewEmptySnapshot(), nil }()
	plan, err := p.plan(ctx, pod)
	plan.Held = s.gate.why(pod)
	if gates := pod.Spec.SchedulingGates; len(gates) > 0 {
		plan.Held = "spec.schedulingGates holds it, the first is " + gates[0].Name
	}
	return plan, err
}

// snapshotOf is what kube-scheduler knows of nodes and pods. It is a copy: kube-scheduler's own snapshot follows the cache by what
// changed since, and a second one that did so too would take changes away from it.
func snapshotOf(cache schedulercache.Cache) fwk.SharedLister {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for _, info := range cache.Dump().Nodes {
		if info.Node() == nil {
			continue // it has gone, its pods have not
		}
		nodes = append(nodes, info.Node())
		for _, pod := range info.GetPods() {
			pods = append(pods, pod.GetPod())
		}
	}
	return schedulercache.NewSnapshot(pods, nodes)
}

func (p *planner) plan(ctx context.Context, pod *corev1.Pod) (Plan, error) {
	infos, err := p.shared.NodeInfos().List()
	if err != nil {
		return Plan{}, fmt.Errorf("list nodes: %w", err)
	}
	ctx = klog.NewContext(ctx, klog.Background())
	state := framework.NewCycleState()
	only, status, _ := p.framework.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() && !status.IsRejected() {
		return Plan{}, fmt.Errorf("plan pod: %w", status.AsError())
	}
	var plan Plan
	counts := map[string]int{}
	for _, info := range infos {
		v := Verdict{Node: info.Node().Name}
		switch {
		case pod.Spec.NodeName != "" && pod.Spec.NodeName != v.Node:
			v.Why = "spec.nodeName names another node"
		case !status.IsSuccess():
			v.Why = status.Message()
		case !only.AllNodes() && !only.NodeNames.Has(v.Node):
			v.Why = "node(s) didn't match Pod's node affinity/selector"
		default:
			result := p.framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
			if !result.IsSuccess() && !result.IsRejected() {
				return Plan{}, fmt.Errorf("plan pod on node %s: %w", v.Node, result.AsError())
			}
			if !result.IsSuccess() {
				v.Why = strings.Join(result.Reasons(), ", ")
			}
		}
		if v.Why != "" {
			counts[v.Why]++
			v.Why = named(pod, v.Why)
		}
		plan.Nodes = append(plan.Nodes, v)
	}
	slices.SortFunc(plan.Nodes, func(a, b Verdict) int { return strings.Compare(a.Node, b.Node) })
	if !slices.ContainsFunc(plan.Nodes, func(v Verdict) bool { return v.Why == "" }) {
		plan.Sentence = fmt.Sprintf("0/%d nodes are available: %s.", len(infos), sentence(pod, counts))
	}
	return plan, nil
}

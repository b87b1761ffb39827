package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// PreemptionName names the plugin that evicts pods for more important ones.
const PreemptionName = "MesosPreemption"

// preemptionPlugin is DefaultPreemption under our name: only pods that run as tasks of ours are victims. What others
// hold on an agent never comes back to us.
type preemptionPlugin struct {
	*defaultpreemption.DefaultPreemption
	s      *Scheduler
	handle fwk.Handle
	claims *claims
}

// offerPatience is how long what victims have left is kept for the pod that evicted them, until Mesos offers it. It may have
// gone to another framework, so this has an end.
const offerPatience = 30 * time.Second

// claims are pods that have evicted others, each with the node of these. A pod's own status may tell of it only after its next try.
type claims struct {
	mu   sync.Mutex
	pods map[types.UID]claim
}

// claim is on a node. The wait for its offer began at since, zero before that.
type claim struct {
	node        string
	since, seen time.Time
}

// make notes an eviction.
func (c *claims) make(uid types.UID, node string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.pods, func(_ types.UID, one claim) bool { return now.Sub(one.seen) > time.Hour })
	c.pods[uid] = claim{node: node, seen: now}
}

// waits is asked when the pod has been tried in vain, and nobody is left to evict: it names the node that it has a claim on, and
// tells that it waits for it no longer than offerPatience, counted from the first time that this was asked.
func (c *claims) waits(uid types.UID, now time.Time) (node string, holds bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, found := c.pods[uid]
	if !found {
		return "", false
	}
	if one.since.IsZero() {
		one.since = now
	}
	one.seen = now
	c.pods[uid] = one
	return one.node, now.Sub(one.since) <= offerPatience
}

// Name returns PreemptionName.
func (preemptionPlugin) Name() string { return PreemptionName }

// PostFilter looks for victims. A pod that evicts others is held until they are deleted, and let go by the news of it. That
// news may come while the same victims are chosen once more, since their offer can be here before it: so the pod is also
// let go after a pause.
//
// Victims are gone a moment before what they leave is offered. A pod that is tried in between finds nobody to evict, and would
// lose the node that it is nominated for: a less important one could take the offer, and be evicted in its turn.
func (p preemptionPlugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	result, status := p.DefaultPreemption.PostFilter(ctx, state, pod, nodes)
	switch {
	case status.IsSuccess():
		p.claims.make(pod.UID, result.NominatedNodeName, time.Now())
		p.s.wake.later(pod)
	case result != nil && result.NominatedNodeName == "" && p.awaitsOffer(state, pod):
		return nil, status // the nomination stays as it is
	}
	return result, status
}

// awaitsOffer tells that the node on which the pod has evicted others has room, and only Mesos has not offered it yet. A scheduler
// that was started meanwhile knows of no such node.
func (p preemptionPlugin) awaitsOffer(state fwk.CycleState, pod *corev1.Pod) bool {
	node, holds := p.claims.waits(pod.UID, time.Now())
	if !holds {
		return false
	}
	c, err := cycleOf(state)
	if err != nil {
		return false // it cannot be run at all
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node)
	return err == nil && !fullOfOurs(info, c.need)
}

func (s *Scheduler) newPreemption(ctx context.Context, handle fwk.Handle) (fwk.Plugin, error) {
	// The defaults of DefaultPreemptionArgs.
	args := &schedulerapi.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}
	p, err := defaultpreemption.New(ctx, args, handle, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, fmt.Errorf("preemption: %w: %w", errdefs.ErrInvalid, err)
	}
	p.IsEligiblePod = func(_ fwk.NodeInfo, victim preemption.Victim, _ *corev1.Pod) bool {
		return !slices.ContainsFunc(victim.Pods(), func(info fwk.PodInfo) bool { return !s.runsAsTask(info.GetPod()) })
	}
	return preemptionPlugin{p, s, handle, &claims{pods: map[types.UID]claim{}}}, nil
}

// runsAsTask tells that the pod's end frees resources of ours on its agent.
func (s *Scheduler) runsAsTask(pod *corev1.Pod) bool {
	return slices.Contains(s.cfg.SchedulerNames, pod.Spec.SchedulerName) && pod.Annotations[messages.AnnotationTaskID] != ""
}

// cycle is the plugin's state in one scheduling cycle: what the pod needs, and how kube-scheduler plays with other pods.
type cycle struct {
	need procure.Need
	// played is what-if: for each node the pods taken away (positive) and put there (negative).
	played map[string]map[types.UID]move
}

type move struct {
	need  procure.Need
	freed bool
}

// Clone copies all that AddPod and RemovePod write to.
func (c *cycle) Clone() fwk.StateData {
	copied := &cycle{need: c.need}
	for node, moves := range c.played {
		for uid, m := range moves {
			copied.move(node, uid, m)
		}
	}
	return copied
}

// move plays one pod. One that comes back to where it was is no move.
func (c *cycle) move(node string, uid types.UID, m move) {
	if c.played == nil {
		c.played = map[string]map[types.UID]move{}
	}
	if c.played[node] == nil {
		c.played[node] = map[types.UID]move{}
	}
	if old, moved := c.played[node][uid]; moved && old.freed != m.freed {
		delete(c.played[node], uid)
		return
	}
	c.played[node][uid] = m
}

// on is what would be on offer on the node. An agent that is full makes no offer; what its pods would leave becomes one.
func (c *cycle) on(node string, view *offers.View) *offers.View {
	moves := c.played[node]
	if len(moves) == 0 {
		return view
	}
	limits := view == nil || view.Limits
	var freed, taken []offers.Need
	for _, m := range moves {
		if m.freed {
			freed = append(freed, m.need.On(limits))
		} else {
			taken = append(taken, m.need.On(limits))
		}
	}
	if view == nil {
		if len(freed) == 0 {
			return nil
		}
		view = &offers.View{Node: node, Limits: limits}
	}
	return view.Freed(freed...).Taken(taken...)
}

// PreFilterExtensions let kube-scheduler ask what would be if pods came or went.
func (p offersPlugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod plays a pod onto the node: one that is nominated there, or a victim that is spared.
func (p offersPlugin) AddPod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, pod fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.play(state, pod.GetPod(), node, false)
}

// RemovePod plays a victim away.
func (p offersPlugin) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, pod fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.play(state, pod.GetPod(), node, true)
}

func (p offersPlugin) play(state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo, freed bool) *fwk.Status {
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	// Pods of others take nothing of what is offered to us, and pods with a node but without a task nothing yet.
	if !slices.Contains(p.s.cfg.SchedulerNames, pod.Spec.SchedulerName) || pod.Spec.NodeName != "" && !p.s.runsAsTask(pod) {
		return nil
	}
	need, err := p.s.need(pod)
	if err != nil {
		return nil // such a pod never runs
	}
	if role := pod.Annotations[messages.AnnotationRole]; role != "" {
		need.Roles = offers.NewRoles(role) // it runs, and what it leaves is of its role
	}
	c.move(node.Node().Name, pod.UID, move{need: need, freed: freed})
	return nil
}

// fullOfOurs tells that it is pods of the cluster which leave the node no room for the need, and not that an offer is
// missing: only then may evicting pods help.
func fullOfOurs(info fwk.NodeInfo, need procure.Need) bool {
	size, used := info.GetAllocatable(), info.GetRequested()
	// Pods without requests take the default here as there.
	if need.CPUs > size.GetMilliCPU()-info.GetNonZeroRequested().GetMilliCPU() || need.MemMB > (size.GetMemory()-used.GetMemory())>>20 {
		return true
	}
	return slices.ContainsFunc(info.GetPods(), func(other fwk.PodInfo) bool {
		has := procure.HostPorts(other.GetPod()).All()
		return slices.ContainsFunc(need.Ports.All(), func(port uint16) bool { return slices.Contains(has, port) })
	})
}

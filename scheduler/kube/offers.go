package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// OffersName names the plugin that filters by offers and reserves from them.
const OffersName = "MesosOffers"

// offersPlugin answers from the published views and asks the core to reserve. In a planner it also answers for what is to be
// expected of nodes without an offer.
type offersPlugin struct {
	s       *Scheduler
	planned *planned
}

func (s *Scheduler) offersFactory(p *planned) runtime.PluginFactory {
	return func(context.Context, kruntime.Object, fwk.Handle) (fwk.Plugin, error) { return offersPlugin{s, p}, nil }
}

var _ interface {
	fwk.PreFilterPlugin
	fwk.PreFilterExtensions
	fwk.FilterPlugin
	fwk.ReservePlugin
	fwk.EnqueueExtensions
	fwk.SignPlugin
} = offersPlugin{}

// Name returns OffersName.
func (offersPlugin) Name() string { return OffersName }

const cycleKey fwk.StateKey = OffersName

// cycleOf reads what PreFilter wrote.
func cycleOf(state fwk.CycleState) (*cycle, error) {
	data, err := state.Read(cycleKey)
	if err != nil {
		return nil, err
	}
	return data.(*cycle), nil
}

// PreFilter computes what the pod needs. A pod that cannot be run at all is told so here, once.
func (p offersPlugin) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	n, err := p.s.need(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	state.Write(cycleKey, &cycle{need: n})
	return nil, nil
}

// cordoned is why a pod does not go to a node that people have marked unschedulable.
const cordoned = "agent's node is cordoned"

// Filter tells whether the pod fits what is on offer on the node. A refusal is one that preemption could mend only if
// pods fill the node.
func (p offersPlugin) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if info.Node().Spec.Unschedulable && !core.ToleratesCordon(pod) { // whose offers went back for that
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, cordoned)
	}
	node := info.Node().Name
	why := procure.Fits(c.on(node, p.view(node)), c.need)
	switch {
	case why == "":
		return nil
	case p.s.cfg.Preemption && fullOfOurs(info, c.need):
		return fwk.NewStatus(fwk.Unschedulable, why)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
}

// need is what the pod takes, as its namespace is now.
func (s *Scheduler) need(pod *corev1.Pod) (procure.Need, error) {
	roles := ""
	if namespace, err := s.factory.Core().V1().Namespaces().Lister().Get(pod.Namespace); err == nil { // a lister knows one error: not found
		roles = namespace.Annotations[messages.AnnotationRoles]
	}
	return procure.NeedOf(pod, roles, s.cfg.Procure)
}

func (p offersPlugin) view(node string) *offers.View {
	if view, ok := p.s.views.Load(node); ok {
		return view.(*offers.View)
	}
	if p.planned != nil {
		return p.planned.expected[node]
	}
	return nil
}

// Reserve asks the core for the pod's resources. No event may come of a refusal by itself, so the pod is woken after a
// pause.
func (p offersPlugin) Reserve(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	a, err := p.s.ask(ctx, func(request uint64) core.Event {
		return core.Reserve{Request: request, Pod: pod, Node: node}
	})
	if err != nil {
		return fwk.AsStatus(err)
	}
	if a.refusal != "" {
		p.s.refused.Store(pod.UID, nil)
		p.s.wake.refused(pod.UID)
		return fwk.NewStatus(fwk.Unschedulable, a.refusal)
	}
	return nil
}

// Unreserve gives back what was reserved and not launched. While the scheduler stops nothing is given back: what is
// under way is found again by reconciliation.
func (p offersPlugin) Unreserve(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	if ctx.Err() == nil {
		p.s.post(core.Unreserve{UID: pod.UID})
	}
}

// SignPod tells which pods are equal to this plugin.
func (p offersPlugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	n, err := p.s.need(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	// The ports of a need are bytes, which the signature's JSON would not keep apart: the stock signer has them.
	ports := fwk.SignFragment{Key: fwk.HostPortsSignerName, Value: fwk.HostPortsSigner(pod)}
	n.Ports = ""
	return []fwk.SignFragment{{Key: OffersName, Value: n}, ports}, nil
}

// EventsToRegister names what may make room: our own event, pods that leave, and the end of a cordon.
func (p offersPlugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: poolEvent, QueueingHintFn: p.hint},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}, QueueingHintFn: hintUncordoned},
	}, nil
}

// hintUncordoned wakes a pod when a node is cordoned no more. Cordons are among the taints for kube-scheduler.
func hintUncordoned(_ klog.Logger, _ *corev1.Pod, before, after any) (fwk.QueueingHint, error) {
	was, isNode := before.(*corev1.Node)
	node, stillNode := after.(*corev1.Node)
	if isNode && stillNode && was.Spec.Unschedulable && !node.Spec.Unschedulable {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// hint wakes a pod if it fits one of the views that changed, or was refused a reservation.
func (p offersPlugin) hint(_ klog.Logger, pod *corev1.Pod, _, object any) (fwk.QueueingHint, error) {
	change, ok := object.(*poolChange)
	if !ok {
		return fwk.Queue, nil
	}
	if _, refused := change.refused[pod.UID]; refused || change.limits || change.namespaces[pod.Namespace] {
		return fwk.Queue, nil
	}
	n, err := p.s.need(pod)
	if err != nil {
		return fwk.QueueSkip, nil // no offer can help this pod
	}
	if change.helps(n) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

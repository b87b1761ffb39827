package kube

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// GateName names the plugin that holds pods back.
const GateName = "MesosGate"

// gatePlugin holds pods back until the core lets them go. It is a plugin of its own and registers no events: each event
// of a plugin that gates runs PreEnqueue for every pod that it holds. Pods are let go by Activate.
type gatePlugin struct{ g *gate }

var _ interface {
	fwk.PreEnqueuePlugin
	fwk.EnqueueExtensions
} = gatePlugin{}

// Name returns GateName.
func (gatePlugin) Name() string { return GateName }

// PreEnqueue refuses pods that are held.
func (p gatePlugin) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if why := p.g.stop(pod); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	return nil
}

// EventsToRegister names none; without this method the plugin would get all.
func (gatePlugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}

// gate is closed for all pods at first, then for single ones.
type gate struct {
	mu      sync.Mutex
	open    bool
	held    map[types.UID]string
	stopped map[types.UID]*corev1.Pod // refused since the last change that concerned them
}

func newGate() *gate {
	return &gate{held: map[types.UID]string{}, stopped: map[types.UID]*corev1.Pod{}}
}

// stop says why the pod has to wait, "" if it may go on.
func (g *gate) stop(pod *corev1.Pod) (why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if why = g.reason(pod); why != "" {
		g.stopped[pod.UID] = pod
	}
	return why
}

// why says it and notes nothing.
func (g *gate) why(pod *corev1.Pod) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason(pod)
}

func (g *gate) reason(pod *corev1.Pod) string {
	if why := g.held[pod.UID]; why != "" || g.open {
		return why
	}
	return "what runs in Mesos is not known yet"
}

// change takes what the core says and returns the pods that may go on now, as Activate wants them.
func (g *gate) change(open bool, held map[types.UID]string) map[string]*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, why := range held {
		if why == "" {
			delete(g.held, uid)
		} else {
			g.held[uid] = why
		}
	}
	released := map[string]*corev1.Pod{}
	let := func(uid types.UID) {
		if pod := g.stopped[uid]; pod != nil && g.open && g.held[uid] == "" {
			released[pod.Namespace+"/"+pod.Name] = pod
			delete(g.stopped, uid)
		}
	}
	opened := open && !g.open
	g.open = open
	if opened {
		for uid := range g.stopped {
			let(uid)
		}
	}
	for uid := range held {
		let(uid)
	}
	return released
}

package kube

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"

	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// poolEvent says that more is on offer. No informer stands behind its name: kube-scheduler takes it and waits for us to
// raise it.
var poolEvent = fwk.ClusterEvent{Resource: "offers.v1.k8s.mesosphere.io", ActionType: fwk.Add}

// poolChange is what poolEvent carries to the hints. kube-scheduler's log wants an object.
type poolChange struct {
	metav1.ObjectMeta
	views map[string]*offers.View
	// namespaces whose roles have changed: their pods are woken whatever is on offer.
	namespaces map[string]bool
	// limits have changed: every pod is woken, to be told anew why it waits.
	limits bool
	// refused are pods that were refused a reservation: they are woken whatever is on offer.
	refused map[types.UID]struct{}

	// helped are the answers of helps: pods that wait together are often equal, and each of them asks.
	helped sync.Map // procure.Need → bool
}

// helps tells whether a need fits one of the views that changed. What is on offer does not change once the event is raised.
func (c *poolChange) helps(n procure.Need) bool {
	if known, ok := c.helped.Load(n); ok {
		return known.(bool)
	}
	fits := false
	for _, view := range c.views {
		if procure.Fits(view, n) == "" {
			fits = true
			break
		}
	}
	c.helped.Store(n, fits)
	return fits
}

// waker gathers changes of the pool and raises one event per window for all of them: each event visits every pod that
// waits, so an event per change would not keep up.
type waker struct {
	window time.Duration
	// pause is how long a pod waits that was refused a reservation. kube-scheduler's own back-off does not hold it, and
	// the core may refuse it for a reason that Filter never sees, as while an earlier launch of it is not resolved.
	pause  time.Duration
	signal chan struct{} // buffer 1: something is pending

	mu      sync.Mutex
	pending *poolChange
	freed   map[string]*corev1.Pod // let through the gate
	paused  map[types.UID]struct{} // refused, and not yet pending
}

func newWaker(window, pause time.Duration) *waker {
	return &waker{window: window, pause: pause, signal: make(chan struct{}, 1), paused: map[types.UID]struct{}{}}
}

// changed notes what is on offer now. Nodes without offers wake nobody.
func (w *waker) changed(views map[string]*offers.View) {
	w.note(func(c *poolChange) {
		for node, view := range views {
			if view == nil {
				delete(c.views, node)
				continue
			}
			c.views[node] = view
		}
	})
}

// limits notes that quotas of roles have changed.
func (w *waker) limits() {
	w.note(func(c *poolChange) { c.limits = true })
}

// roles notes that the pods of a namespace may use other roles.
func (w *waker) roles(namespace string) {
	w.note(func(c *poolChange) { c.namespaces[namespace] = true })
}

// refused wakes a pod after the pause, together with all that were refused meanwhile.
func (w *waker) refused(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused[uid] = struct{}{}
	if len(w.paused) > 1 {
		return // the first one has set the clock
	}
	time.AfterFunc(w.pause, func() {
		w.note(func(c *poolChange) {
			maps.Copy(c.refused, w.paused)
			clear(w.paused)
		})
	})
}

func (w *waker) note(add func(*poolChange)) {
	w.mu.Lock()
	if w.pending == nil {
		w.pending = &poolChange{ObjectMeta: metav1.ObjectMeta{Name: "pool"}, views: map[string]*offers.View{}, namespaces: map[string]bool{}, refused: map[types.UID]struct{}{}}
	}
	add(w.pending)
	w.mu.Unlock()
	w.poke()
}

func (w *waker) poke() {
	select {
	case w.signal <- struct{}{}:
	default: // one is pending
	}
}

// release puts pods that the gate has let go into the queue. It does not wait for it.
func (w *waker) release(pods map[string]*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	w.mu.Lock()
	if w.freed == nil {
		w.freed = map[string]*corev1.Pod{}
	}
	maps.Copy(w.freed, pods)
	w.mu.Unlock()
	w.poke()
}

// later releases a pod after the pause.
func (w *waker) later(pod *corev1.Pod) {
	time.AfterFunc(w.pause, func() { w.release(map[string]*corev1.Pod{pod.Namespace + "/" + pod.Name: pod}) })
}

func (w *waker) take() (*poolChange, map[string]*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change, freed := w.pending, w.freed
	w.pending, w.freed = nil, nil
	return change, freed
}

// run raises the event until ctx ends: at once after a quiet time, else once per window.
func (w *waker) run(ctx context.Context, q queue.SchedulingQueue) {
	logger := klog.FromContext(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.signal:
		}
		change, freed := w.take()
		if len(freed) > 0 {
			q.Activate(logger, freed)
		}
		if change != nil && (change.limits || len(change.views)+len(change.refused)+len(change.namespaces) > 0) {
			q.MoveAllToActiveOrBackoffQueue(logger, poolEvent, nil, change, nil)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.window):
		}
	}
}

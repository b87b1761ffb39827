package scheduler

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/mesopod/mesopod/scheduler/core"
)

// podFeed turns the pod informer's calls into events: one PodsSynced with all that the first list brought, then one
// event per change. Pods that are not core.Ours are left out.
type podFeed struct {
	names []string
	post  func(core.Event)

	// mu keeps the order between the first list and what follows it, so it is held while posting. Nobody else takes it.
	mu     sync.Mutex
	synced bool
	first  map[types.UID]*corev1.Pod
}

func newPodFeed(names []string, post func(core.Event)) *podFeed {
	return &podFeed{names: names, post: post, first: map[types.UID]*corev1.Pod{}}
}

// handler is what the informer calls.
func (f *podFeed) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: f.changed,
		UpdateFunc: func(before, after any) {
			// A missed deletion shows as another UID under the same name.
			if old, ok := before.(*corev1.Pod); ok {
				if pod, ok := after.(*corev1.Pod); ok && pod.UID != old.UID {
					f.gone(old)
				}
			}
			f.changed(after)
		},
		DeleteFunc: f.gone,
	}
}

// run posts PodsSynced once the first list is through the handler.
func (f *podFeed) run(ctx context.Context, hasSynced func() bool) error {
	if !cache.WaitForCacheSync(ctx.Done(), hasSynced) {
		return nil // ctx ended
	}
	f.mu.Lock()
	pods := make([]*corev1.Pod, 0, len(f.first))
	for _, pod := range f.first {
		pods = append(pods, pod)
	}
	// In the order of creation, so that a start can be replayed.
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		if a.UID < b.UID {
			return -1
		}
		return 1
	})
	f.post(core.PodsSynced{Pods: pods})
	f.synced, f.first = true, nil
	f.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (f *podFeed) changed(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || !core.Ours(f.names, pod) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.synced {
		f.post(core.PodChanged{Pod: pod})
		return
	}
	f.first[pod.UID] = pod
}

func (f *podFeed) gone(object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok || !core.Ours(f.names, pod) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.synced {
		f.post(core.PodGone{Pod: pod})
		return
	}
	delete(f.first, pod.UID)
}

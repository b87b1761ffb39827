package kubelet

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// feeder hands snapshots to the kubelet's channel. Whoever feeds never waits (EX-41): a snapshot is whole, so a newer
// one replaces an older one that the kubelet has not taken yet.
type feeder struct {
	mu      sync.Mutex
	pending []*corev1.Pod
	full    bool
	wake    chan struct{}
}

func newFeeder() *feeder { return &feeder{wake: make(chan struct{}, 1)} }

// put makes the snapshot the next one. Nobody else writes to its pods either. The kubelet's storage of pods sets fields
// and annotations of what it gets, and gives only deep copies of it away; so what lies below is shared with the caller,
// and a snapshot costs little however many pods are in it. The result is never nil: the kubelet's sources count as ready
// only after a snapshot that is not.
func (f *feeder) put(pods []*corev1.Pod) {
	snapshot := make([]*corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		own := *pod
		own.Annotations = maps.Clone(pod.Annotations)
		snapshot = append(snapshot, &own)
	}
	f.mu.Lock()
	f.pending, f.full = snapshot, true
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *feeder) take() ([]*corev1.Pod, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	snapshot, full := f.pending, f.full
	f.pending, f.full = nil, false
	return snapshot, full
}

// run hands over what is put until the context ends. send may block.
func (f *feeder) run(ctx context.Context, send func(context.Context, []*corev1.Pod)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		if snapshot, full := f.take(); full {
			send(ctx, snapshot)
		}
	}
}

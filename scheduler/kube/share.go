package kube

import (
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shared lets two informers of pods hold one copy of each: kube-scheduler's own leaves out pods that ended, and the core must see them, so
// there are two, and a hundred thousand pods are most of a scheduler's memory. Objects in informers are never written to. It holds no pod
// by itself.
type shared struct {
	mu   sync.Mutex
	pods map[types.UID]weak.Pointer[corev1.Pod]
	// most is how many may be known before those are looked for that nobody holds any more.
	most int
}

const leastShared = 1024

func newShared() *shared {
	return &shared{pods: map[types.UID]weak.Pointer[corev1.Pod]{}, most: leastShared}
}

// transform is that of both informers: without managed fields, and the other one's copy where it has the same version.
func (s *shared) transform(object any) (any, error) {
	object, err := stripManagedFields(object)
	if err != nil {
		return nil, err
	}
	if pod, is := object.(*corev1.Pod); is && pod.UID != "" && pod.ResourceVersion != "" {
		return s.copyOf(pod), nil
	}
	return object, nil
}

func (s *shared) copyOf(pod *corev1.Pod) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.pods[pod.UID].Value(); have != nil && have.ResourceVersion == pod.ResourceVersion {
		return have
	}
	s.pods[pod.UID] = weak.Make(pod)
	if len(s.pods) > s.most {
		for uid, w := range s.pods {
			if w.Value() == nil {
				delete(s.pods, uid)
			}
		}
		s.most = max(leastShared, 2*len(s.pods))
	}
	return pod
}

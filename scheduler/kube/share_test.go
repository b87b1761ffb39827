package kube

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestShared: the same version of a pod is one object, another version is another, and pods that nobody holds are forgotten.
func TestShared(t *testing.T) {
	s := newShared()
	take := func(uid, version string) *corev1.Pod {
		object, err := s.transform(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(uid), ResourceVersion: version,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}})
		if err != nil {
			t.Fatal(err)
		}
		return object.(*corev1.Pod)
	}
	first := take("u1", "1")
	if first.ManagedFields != nil {
		t.Error("managed fields are kept")
	}
	if take("u1", "1") != first {
		t.Error("the same version is held twice")
	}
	second := take("u1", "2")
	if second == first || second.ResourceVersion != "2" || take("u1", "2") != second || take("u2", "2") == second {
		t.Error("versions or pods are mixed up")
	}
	for n := range 3 * leastShared {
		take(fmt.Sprint("gone-", n), "1")
		if n%leastShared == leastShared-1 {
			runtime.GC()
		}
	}
	if len(s.pods) > 2*leastShared {
		t.Errorf("%d pods are known that nobody holds", len(s.pods))
	}
	runtime.KeepAlive(first)
	runtime.KeepAlive(second)
}

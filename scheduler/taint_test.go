package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/scheduler/core"
)

// The taint comes and goes with the flag, on new nodes and on old ones, and leaves the taints of others alone.
func TestTaintNodes(t *testing.T) {
	own := corev1.Taint{Key: "example.test/own", Effect: corev1.TaintEffectNoExecute}
	for _, c := range []struct {
		name       string
		have, want []corev1.Taint
		exists, on bool
	}{
		{name: "new", on: true, want: []corev1.Taint{nodeTaint}},
		{name: "new without", want: nil},
		{name: "old", exists: true, have: []corev1.Taint{own}, on: true, want: []corev1.Taint{own, nodeTaint}},
		{name: "old with", exists: true, have: []corev1.Taint{own, nodeTaint}, on: true, want: []corev1.Taint{own, nodeTaint}},
		{name: "switched off", exists: true, have: []corev1.Taint{own, nodeTaint}, want: []corev1.Taint{own}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := newAPIServer("37")
			if c.exists {
				have := sized("a1", "1", nil)
				have.Spec.Taints = c.have
				if _, err := client.CoreV1().Nodes().Create(t.Context(), have, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			w := newWriter(client, nil)
			w.taintNodes = c.on
			want := sized("a1", "1", nil)
			if _, err := w.write(t.Context(), core.StoreNode{Node: want}); err != nil {
				t.Fatal(err)
			}
			if len(want.Spec.Taints) > 0 {
				t.Error("the core's own copy was written to")
			}
			got, err := client.CoreV1().Nodes().Get(t.Context(), "a1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Spec.Taints); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
}

package scheduler

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// nodeTaint keeps pods of other schedulers off our nodes. Ours get the toleration from an admission policy,
// contrib/manifests/other-scheduler.yaml.
var nodeTaint = corev1.Taint{Key: messages.TaintMesos, Effect: corev1.TaintEffectNoSchedule}

// storeTaint brings the taint onto an existing node, or takes it away. The list is one value for the API server, so all of
// it is written, on the condition that nobody has changed the node since: other taints stay.
func (w *writer) storeTaint(ctx context.Context, have *corev1.Node) error {
	for {
		taints, right := taintsOf(have.Spec.Taints, w.taintNodes)
		if right {
			return nil
		}
		err := w.patchNode(ctx, have.Name, map[string]any{
			"metadata": map[string]any{"resourceVersion": have.ResourceVersion},
			"spec":     map[string]any{"taints": taints},
		})
		if !errors.Is(err, errdefs.ErrConflict) {
			return err
		}
		if have, err = w.client.CoreV1().Nodes().Get(ctx, have.Name, metav1.GetOptions{}); err != nil {
			return withKind(err, "get node to taint it")
		}
	}
}

// taintsOf is the list with our taint or without it, and whether it was so already.
func taintsOf(have []corev1.Taint, want bool) (taints []corev1.Taint, right bool) {
	ours := func(t corev1.Taint) bool { return t.MatchTaint(&nodeTaint) }
	switch {
	case slices.ContainsFunc(have, ours) == want:
		return have, true
	case want:
		return append(slices.Clone(have), nodeTaint), false
	default:
		return slices.DeleteFunc(slices.Clone(have), ours), false
	}
}

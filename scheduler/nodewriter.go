package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

// reasonExecutorNotRunning stands in the conditions that the scheduler writes while no kubelet runs on a node.
const reasonExecutorNotRunning = "ExecutorNotRunning"

// storeNode creates the node, or brings an existing one up to date: labels and annotations of ours, and its size while no
// kubelet runs that would tell it.
func (w *writer) storeNode(ctx context.Context, want *corev1.Node) error {
	nodes := w.client.CoreV1().Nodes()
	if w.taintNodes {
		want = want.DeepCopy()
		want.Spec.Taints = append(want.Spec.Taints, nodeTaint)
	}
	_, err := nodes.Create(ctx, want, metav1.CreateOptions{})
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return withKind(err, "create node "+want.Name)
	}
	have, err := nodes.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return withKind(err, "get node "+want.Name)
	}
	labels := changedKeys(have.Labels, want.Labels, func(key string) bool {
		return strings.HasPrefix(key, messages.LabelAttributePrefix)
	})
	annotations := changedKeys(have.Annotations, want.Annotations, func(string) bool { return false })
	if len(labels)+len(annotations) > 0 {
		patch := map[string]any{"metadata": map[string]any{"labels": labels, "annotations": annotations}}
		if err := w.patchNode(ctx, want.Name, patch); err != nil {
			return err
		}
	}
	if err := w.storeTaint(ctx, have); err != nil {
		return err
	}
	if kubeletRuns(have) || sameSize(have.Status.Capacity, want.Status.Capacity) && sameSize(have.Status.Allocatable, want.Status.Allocatable) {
		return nil
	}
	return w.patchNode(ctx, want.Name, map[string]any{
		"status": map[string]any{"capacity": want.Status.Capacity, "allocatable": want.Status.Allocatable},
	}, "status")
}

func (w *writer) patchNode(ctx context.Context, name string, patch map[string]any, subresource ...string) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("patch of node %s: %w: %w", name, errdefs.ErrInvalid, err)
	}
	_, err = w.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresource...)
	return withKind(err, "patch node "+name)
}

// changedKeys are the entries of a merge patch that makes have agree with want: keys of ours as wanted, others only where
// they are missing (a person or a kubelet may have set them), and owned keys that are wanted no more set to null.
func changedKeys(have, want map[string]string, owned func(string) bool) map[string]any {
	patch := map[string]any{}
	for key, value := range want {
		if old, exists := have[key]; !exists || old != value && messages.IsOurs(key) {
			patch[key] = value
		}
	}
	for key := range have {
		if _, wanted := want[key]; !wanted && owned(key) {
			patch[key] = nil
		}
	}
	return patch
}

// kubeletRuns tells whether a kubelet writes the node's status.
func kubeletRuns(node *corev1.Node) bool {
	ready := condition(node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue && ready.Reason != reasonExecutorNotRunning
}

func condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// sameSize compares what want has; a kubelet adds resources of its own.
func sameSize(have, want corev1.ResourceList) bool {
	for name, amount := range want {
		if old, ok := have[name]; !ok || old.Cmp(amount) != 0 {
			return false
		}
	}
	return true
}

// taintNode puts a taint of ours on, or takes it off, and leaves all others alone. It keeps new pods away; eviction by time is
// left to the node lifecycle controller and its own keys.
func (w *writer) taintNode(ctx context.Context, e core.TaintNode) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := w.client.CoreV1().Nodes().Get(ctx, e.Node, metav1.GetOptions{})
		if err != nil {
			return withKind(err, "get node "+e.Node)
		}
		if hasTaint(node, e.Key) == e.On {
			return nil
		}
		if e.On {
			now := metav1.Now()
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: e.Key, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &now})
		} else {
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == e.Key })
		}
		_, err = w.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return withKind(err, "taint node "+e.Node)
	})
}

// deleteNode removes the node and its lease. That they are gone already is as good.
func (w *writer) deleteNode(ctx context.Context, name string) error {
	err := w.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return withKind(err, "delete node "+name)
	}
	err = w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return withKind(err, "delete lease of node "+name)
	}
	return nil
}

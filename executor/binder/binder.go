// Package binder makes the scheduler's choice visible on the API server: it binds a pod to this node, or patches our
// annotations onto a pod that has its node already, and it deletes pods.
//
// Each call is one attempt with its own deadline. Nothing is tried again here: errors come back as kinds of
// internal/errdefs, and the core decides. The package has no goroutines.
package binder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// callTimeout bounds one call to the API server.
const callTimeout = 10 * time.Second

// Binder talks to the API server about pods.
type Binder struct{ pods typedcorev1.PodsGetter }

// New makes a Binder from a client with the identity of the executor.
func New(pods typedcorev1.PodsGetter) *Binder { return &Binder{pods: pods} }

// Target is a pod and the node that it is to be on.
type Target struct {
	Namespace, Name string
	// UID tells this pod from another of the same name (EX-23, EX-32).
	UID  types.UID
	Node string
	// Annotations of the scheduler. A binding carries all of them, a patch only our keys (EX-13, EX-30).
	Annotations map[string]string
}

// Bind binds the pod to the node and returns it as the API server has it then (EX-12). A pod that is on this node
// already counts as bound, since the answer to an earlier attempt may have been lost (EX-19).
//
// Errors: ErrNotFound, the pod is gone or is another one by its UID; ErrConflict, it is on another node (EX-20);
// ErrRefused, it is being deleted, gated, or may not be bound (EX-21); ErrUnavailable, worth another try (EX-22).
func (b *Binder) Bind(ctx context.Context, t Target) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	binding := &corev1.Binding{
		// The server takes the UID for a precondition and copies the annotations onto the pod.
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name, UID: t.UID, Annotations: t.Annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: t.Node},
	}
	err := b.pods.Pods(t.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsConflict(err) {
		return nil, t.explain("bind", err)
	}
	return b.readBack(ctx, t, "bind", err)
}

// Patch writes our annotations onto the pod, leaving all others alone, and returns it as the API server has it then
// (EX-25 to EX-32). Without annotations of ours no patch is sent (EX-29). The errors are those of Bind.
func (b *Binder) Patch(ctx context.Context, t Target) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ours := messages.OurAnnotations(t.Annotations)
	if len(ours) == 0 {
		return b.readBack(ctx, t, "patch", nil)
	}
	var patch struct {
		Metadata struct {
			UID         types.UID         `json:"uid"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	patch.Metadata.UID, patch.Metadata.Annotations = t.UID, ours
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("patch pod %s/%s: %w: %w", t.Namespace, t.Name, errdefs.ErrInvalid, err)
	}
	pod, err := b.pods.Pods(t.Namespace).Patch(ctx, t.Name, types.MergePatchType, body, metav1.PatchOptions{})
	switch {
	case apierrors.IsConflict(err):
		return b.readBack(ctx, t, "patch", err)
	case err != nil:
		return nil, t.explain("patch", err)
	}
	return t.judge("patch", pod, nil)
}

// Evict asks for the pod's deletion as far as the disruption budgets that select it allow. It is Delete otherwise; a budget
// without room is ErrUnavailable.
func (b *Binder) Evict(ctx context.Context, namespace, name string, uid types.UID, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := b.pods.Pods(namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: name},
		DeleteOptions: deleteOptions(uid, grace),
	})
	return Target{Namespace: namespace, Name: name, UID: uid}.deleted("evict", err)
}

// Delete deletes the pod unless another one has taken its name. A negative grace leaves the period to the pod.
// Errors: ErrNotFound for a pod that is gone, ErrRefused, ErrUnavailable.
func (b *Binder) Delete(ctx context.Context, namespace, name string, uid types.UID, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := b.pods.Pods(namespace).Delete(ctx, name, *deleteOptions(uid, grace))
	return Target{Namespace: namespace, Name: name, UID: uid}.deleted("delete", err)
}

func deleteOptions(uid types.UID, grace time.Duration) *metav1.DeleteOptions {
	options := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))}
	if grace >= 0 {
		// Rounded up: 0 means "at once, without asking the kubelet", which a grace below a second does not ask for.
		seconds := int64((grace + time.Second - 1) / time.Second)
		options.GracePeriodSeconds = &seconds
	}
	return options
}

// deleted is the outcome of a deletion.
func (t Target) deleted(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err):
		// The UID precondition is the only one that is sent: the pod that was meant is gone.
		return t.fail(verb, errdefs.ErrNotFound, err)
	}
	return t.explain(verb, err)
}

// readBack asks what became of the pod after a write that succeeded (cause is nil) or conflicted.
func (b *Binder) readBack(ctx context.Context, t Target, verb string, cause error) (*corev1.Pod, error) {
	pod, err := b.pods.Pods(t.Namespace).Get(ctx, t.Name, metav1.GetOptions{})
	if err != nil {
		return nil, t.explain(verb, err)
	}
	return t.judge(verb, pod, cause)
}

// judge tells success from failure by the pod itself: the text of a conflict is no ground to decide on.
func (t Target) judge(verb string, pod *corev1.Pod, cause error) (*corev1.Pod, error) {
	switch {
	case pod.UID != t.UID:
		return nil, t.fail(verb, errdefs.ErrNotFound, fmt.Errorf("the pod of this name has the UID %s, not %s", pod.UID, t.UID))
	case pod.Spec.NodeName == t.Node:
		return pod, nil
	case pod.Spec.NodeName != "":
		return nil, t.fail(verb, errdefs.ErrConflict, fmt.Errorf("it is on node %s, not on %s", pod.Spec.NodeName, t.Node))
	case cause != nil:
		return nil, t.fail(verb, errdefs.ErrRefused, cause)
	}
	return nil, t.fail(verb, errdefs.ErrUnavailable, errors.New("the API server does not show the node yet"))
}

// explain gives an error of the API server its kind.
func (t Target) explain(verb string, err error) error {
	var status apierrors.APIStatus
	kind := errdefs.ErrRefused
	switch {
	case !errors.As(err, &status):
		kind = errdefs.ErrUnavailable // never reached the server, or no answer came back
	case apierrors.IsNotFound(err):
		kind = errdefs.ErrNotFound
	case apierrors.IsTooManyRequests(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), status.Status().Code >= 500:
		kind = errdefs.ErrUnavailable
	}
	return t.fail(verb, kind, err)
}

func (t Target) fail(verb string, kind, cause error) error {
	what := fmt.Sprintf("%s pod %s/%s", verb, t.Namespace, t.Name)
	if t.Node != "" {
		what += " to node " + t.Node
	}
	return fmt.Errorf("%s: %w: %w", what, kind, cause)
}

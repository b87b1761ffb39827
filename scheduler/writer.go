package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/golang/glog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

const (
	// writers is how many writes to the API server are under way at once. Writes of one object keep their order.
	writers = 4
	// writeTimeout bounds one write.
	writeTimeout = 10 * time.Second
)

// writer carries out the effects that write to the API server.
type writer struct {
	client kubernetes.Interface
	post   func(core.Event)
	queues [writers]*queue[core.Effect]
	// taintNodes keeps other schedulers' pods off our nodes.
	taintNodes bool
}

func newWriter(client kubernetes.Interface, post func(core.Event)) *writer {
	w := &writer{client: client, post: post}
	for i := range w.queues {
		w.queues[i] = newQueue[core.Effect]()
	}
	return w
}

// push queues an effect on the object with this key.
func (w *writer) push(key string, effect core.Effect) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // a hash never fails
	w.queues[h.Sum32()%writers].push(effect)
}

// run is the i-th writer.
func (w *writer) run(ctx context.Context, i int) error {
	return w.queues[i].drain(ctx, func(ctx context.Context, effects []core.Effect) {
		for _, effect := range effects {
			answer, err := w.write(ctx, effect)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				glog.Warningf("fail write effect=%T reason=%q", effect, err)
				w.post(core.CallFailed{Effect: effect, Err: err})
			case answer != nil:
				w.post(answer)
			}
		}
	})
}

// write carries out one effect and returns the event that answers it, or nil.
func (w *writer) write(ctx context.Context, effect core.Effect) (core.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	switch e := effect.(type) {
	case core.StoreFrameworkID:
		return core.FrameworkIDStored{FrameworkID: e.FrameworkID}, storeFrameworkID(ctx, w.client, e.FrameworkID)
	case core.StoreNode:
		return core.NodeStored{Node: e.Node.Name, AgentID: e.Node.Annotations[messages.AnnotationAgentID]}, w.storeNode(ctx, e.Node)
	case core.DeleteNode:
		return nil, w.deleteNode(ctx, e.Node)
	case core.TaintNode:
		return nil, w.taintNode(ctx, e)
	case core.FailPod:
		return nil, w.failPod(ctx, e)
	case core.DeletePod:
		return nil, w.deletePod(ctx, e.Pod)
	}
	return nil, fmt.Errorf("%T is no write: %w", effect, errdefs.ErrInvalid)
}

// failPod writes the pod's last status, and why in a condition of ours too: a kubelet that still reports on the pod writes over
// reason and message, and leaves conditions that it does not know alone. The UID in the patch is a precondition: a pod of the same name that came later
// is not touched.
func (w *writer) failPod(ctx context.Context, e core.FailPod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": e.Pod.UID},
		"status": map[string]any{"phase": corev1.PodFailed, "reason": e.Reason, "message": e.Message, "conditions": []corev1.PodCondition{{
			Type: messages.ConditionTask, Status: corev1.ConditionFalse, Reason: e.Reason, Message: e.Message, LastTransitionTime: metav1.Now(),
		}}},
	})
	if err != nil {
		return fmt.Errorf("patch of pod %s: %w: %w", podKey(e.Pod), errdefs.ErrInvalid, err)
	}
	_, err = w.client.CoreV1().Pods(e.Pod.Namespace).Patch(ctx, e.Pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return withKind(err, "fail pod "+podKey(e.Pod))
}

// deletePod ends a deletion without a kubelet. The UID is a precondition: a pod of the same name that came later is not
// touched. That it is gone already is as good.
func (w *writer) deletePod(ctx context.Context, pod *corev1.Pod) error {
	options := *metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return withKind(err, "delete pod "+podKey(pod))
}

// withKind wraps an error of the API server, if it is one, with its kind and what was tried.
func withKind(err error, what string) error {
	if err == nil {
		return nil
	}
	var kind error
	switch {
	case apierrors.IsNotFound(err):
		kind = errdefs.ErrNotFound
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		kind = errdefs.ErrConflict
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		kind = errdefs.ErrRefused
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), errors.Is(err, errdefs.ErrInvalid):
		kind = errdefs.ErrInvalid
	default:
		// All our writes may be made twice, so an unknown outcome is the same as none.
		kind = errdefs.ErrUnavailable
	}
	return fmt.Errorf("%s: %w: %w", what, kind, err)
}

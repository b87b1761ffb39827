package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/binder"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/mesossim/core"
	"github.com/mesopod/mesopod/messages"
)

// launch binds the pod, or writes the task's annotations onto one that has its node.
func (a *Actor) launch(ctx context.Context, step core.Act) (core.Outcome, error) {
	envelope, err := messages.DecodeLaunch(step.Data)
	if err != nil {
		return core.Outcome{Failed: mesos.TASK_ERROR, Message: messages.ReasonBadData.Detail(err.Error())}, nil
	}
	p := envelope.Pod
	script := a.cfg.Script
	for _, key := range []string{core.LabelStartDelay, core.LabelRunTime, core.LabelExitCode} {
		if value, set := p.Annotations[key]; set && !script.Set(key, value) {
			return core.Outcome{Failed: mesos.TASK_ERROR, Message: messages.ReasonBadData.Detail(
				fmt.Sprintf("annotation %s: %q is no duration such as 2s, or no exit code of 0 to 255", key, value))}, nil
		}
	}
	target := binder.Target{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Node: envelope.Node, Annotations: p.Annotations}
	write, reason := a.binder.Bind, messages.ReasonBindingFailed
	if p.Spec.NodeName != "" {
		write, reason = a.binder.Patch, messages.ReasonPatchFailed
	} else {
		target.Annotations = messages.OurAnnotations(p.Annotations)
	}
	if _, err = write(ctx, target); err != nil {
		if away(err) {
			return core.Outcome{}, err
		}
		return core.Outcome{Failed: mesos.TASK_FAILED, Message: string(reason)}, nil
	}
	one := &pod{namespace: p.Namespace, name: p.Name, uid: p.UID, node: envelope.Node,
		always: p.Spec.RestartPolicy == corev1.RestartPolicyAlways || p.Spec.RestartPolicy == "", onError: p.Spec.RestartPolicy == corev1.RestartPolicyOnFailure}
	for i := range p.Spec.Containers {
		one.containers = append(one.containers, container{p.Spec.Containers[i].Name, p.Spec.Containers[i].Image})
	}
	a.mu.Lock()
	known := a.nodes[one.node]
	a.addr++
	one.ip = address(a.addr)
	a.pods[step.Task] = one
	a.mu.Unlock()
	if !known && !a.cfg.BindOnly {
		if err := a.adopt(ctx, one.node); err != nil {
			return core.Outcome{}, fmt.Errorf("adopt node %s: %w", one.node, err)
		}
		a.mu.Lock()
		a.nodes[one.node] = true
		a.mu.Unlock()
	}
	return core.Outcome{Message: string(messages.ReasonBound), Script: &script}, nil
}

// address is one of a range that is set aside for benchmarks, RFC 2544: nothing answers there.
func address(n uint32) string {
	n %= 1 << 17
	return netip.AddrFrom4([4]byte{198, 18 + byte(n>>16), byte(n >> 8), byte(n)}).String()
}

func (a *Actor) start(ctx context.Context, p *pod) (core.Outcome, error) {
	p.started = time.Now()
	o := core.Outcome{Message: messages.Running(p.namespace, p.name), IP: p.ip}
	return a.told(ctx, p, p.running(), o)
}

// exit ends the containers, or starts them anew where the restart policy says so.
func (a *Actor) exit(ctx context.Context, p *pod, code int) (core.Outcome, error) {
	if p.always || p.onError && code != 0 {
		p.restarts++
		p.started = time.Now()
		return a.told(ctx, p, p.running(), core.Outcome{Again: true})
	}
	o := core.Outcome{Message: string(messages.ReasonFinished)}
	if code != 0 {
		o.Message = messages.ReasonFailed.Detail(fmt.Sprintf("container %s: Error, exit code %d", p.containers[0].name, code))
	}
	return a.told(ctx, p, p.ended(code), o)
}

func (a *Actor) kill(ctx context.Context, p *pod) (core.Outcome, error) {
	err := a.binder.Delete(ctx, p.namespace, p.name, p.uid, 0)
	if away(err) {
		return core.Outcome{}, err
	}
	return core.Outcome{Message: string(messages.ReasonDeleted)}, nil
}

// told writes a status and gives the outcome; a pod that is gone is TASK_LOST. One that has ended while its deletion waits for
// that is deleted, as a kubelet does: its task is over, so no kill will come.
func (a *Actor) told(ctx context.Context, p *pod, status corev1.PodStatus, o core.Outcome) (core.Outcome, error) {
	if a.cfg.BindOnly {
		return o, nil
	}
	now, err := a.write(ctx, p, status)
	switch {
	case away(err):
		return core.Outcome{}, err
	case err != nil:
		return core.Outcome{Failed: mesos.TASK_LOST, Message: messages.ReasonDisappeared.Detail(err.Error())}, nil
	case status.Phase != corev1.PodRunning && now.DeletionTimestamp != nil:
		if err := a.binder.Delete(ctx, p.namespace, p.name, p.uid, 0); away(err) {
			return core.Outcome{}, err
		}
	}
	return o, nil
}

// write patches the status of this pod, and of no other that has its name. It returns the pod as it is then.
func (a *Actor) write(ctx context.Context, p *pod, status corev1.PodStatus) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.uid}, "status": status})
	if err != nil {
		return nil, err
	}
	now, err := a.client.CoreV1().Pods(p.namespace).Patch(ctx, p.name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	var answered apierrors.APIStatus
	if err != nil && (!errors.As(err, &answered) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || answered.Status().Code >= 500) {
		return nil, fmt.Errorf("%w: %w", errdefs.ErrUnavailable, err)
	}
	return now, err
}

package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/mesopod/mesopod/scheduler/core"
)

// LaunchName names the plugin that binds by launching.
const LaunchName = "MesosLaunch"

type launchPlugin struct{ s *Scheduler }

var _ fwk.BindPlugin = launchPlugin{}

// Name returns LaunchName.
func (launchPlugin) Name() string { return LaunchName }

// Bind waits until the pod is seen bound, or its launch has surely ended. The executor writes the binding.
func (p launchPlugin) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	// kube-scheduler's copy is the assumed pod, which has its node. To the executor a pod with a node is one that
	// somebody bound before; this one it has to bind.
	unbound := pod.DeepCopy()
	unbound.Spec.NodeName = ""
	a, err := p.s.ask(ctx, func(request uint64) core.Event {
		return core.Bind{Request: request, Pod: unbound, Node: node}
	})
	if err == nil {
		err = a.err
	}
	if err == nil || p.bound(ctx, pod) {
		return nil
	}
	return fwk.AsStatus(err)
}

// bound looks whether the pod is bound by now: in the informer, and in the API server, which alone knows. It is asked
// only after a failed launch.
func (p launchPlugin) bound(ctx context.Context, pod *corev1.Pod) bool {
	if object, found, err := p.s.pods.GetStore().GetByKey(pod.Namespace + "/" + pod.Name); err == nil && found {
		if seen, ok := object.(*corev1.Pod); ok && seen.UID == pod.UID && seen.Spec.NodeName != "" {
			return true
		}
	}
	if ctx.Err() != nil {
		return false
	}
	// An error here changes nothing: the launch has failed, and that is what is told.
	seen, err := p.s.cfg.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && seen.UID == pod.UID && seen.Spec.NodeName != ""
}

package pods

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// running is the status of a pod whose containers all run.
func (p *pod) running() corev1.PodStatus {
	status := p.status(corev1.PodRunning, corev1.ConditionTrue, "")
	for i := range status.ContainerStatuses {
		one := &status.ContainerStatuses[i]
		one.Ready, one.Started = true, &one.Ready
		one.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(p.started)}
	}
	return status
}

// ended is the status of a pod whose containers all exited.
func (p *pod) ended(code int) corev1.PodStatus {
	phase, reason, ready := corev1.PodSucceeded, "Completed", "PodCompleted"
	if code != 0 {
		phase, reason, ready = corev1.PodFailed, "Error", "PodFailed"
	}
	status := p.status(phase, corev1.ConditionFalse, ready)
	for i := range status.ContainerStatuses {
		no := false
		one := &status.ContainerStatuses[i]
		one.Started = &no
		one.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: reason,
			StartedAt: metav1.NewTime(p.started), FinishedAt: metav1.NewTime(time.Now())}
	}
	return status
}

func (p *pod) status(phase corev1.PodPhase, ready corev1.ConditionStatus, reason string) corev1.PodStatus {
	started := metav1.NewTime(p.started)
	status := corev1.PodStatus{Phase: phase, StartTime: &started, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}}, QOSClass: ""}
	condition := func(kind corev1.PodConditionType, value corev1.ConditionStatus, reason string) {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: value, Reason: reason, LastTransitionTime: metav1.Now()})
	}
	condition(corev1.PodReadyToStartContainers, ready, reason)
	condition(corev1.PodInitialized, corev1.ConditionTrue, "")
	condition(corev1.ContainersReady, ready, reason)
	condition(corev1.PodReady, ready, reason)
	for _, c := range p.containers {
		// No image was pulled and no container made: both ids say so.
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.name, Image: c.image, ImageID: "simulated", ContainerID: "simulated://" + string(p.uid) + "/" + c.name, RestartCount: p.restarts})
	}
	return status
}

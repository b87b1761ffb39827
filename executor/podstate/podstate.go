// Package podstate turns the kubelet's own view of a pod into what Mesos is told about its task.
//
// It is one pure function and its tables: nothing here remembers an earlier state, and nothing decides what is done
// about it. The core calls Of for each pod that the kubelet shows. There are no goroutines.
package podstate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/messages"
)

// Stage is how far a pod is.
type Stage int

// The stages.
const (
	// Waiting: nothing to tell Mesos yet (EX-50).
	Waiting Stage = iota
	// Up: TASK_RUNNING (EX-51).
	Up
	// Ended: a terminal state (EX-57, EX-58, EX-66).
	Ended
)

// String is the stage's name.
func (s Stage) String() string { return [...]string{"waiting", "up", "ended"}[s] }

// Status is what Mesos is told.
type Status struct {
	Stage Stage
	// State is meaningful unless Stage is Waiting.
	State mesos.TaskState
	// Reason is Mesos' own reason, nil for none.
	Reason *mesos.TaskStatus_Reason
	// Message begins with a messages.Reason, except that of TASK_RUNNING, which is messages.Running.
	Message string
	// Healthy is the Ready condition of a pod that is up, nil when it has none. An ended pod is neither well nor ill.
	Healthy *bool
	// PodIPs are the pod's addresses, the primary one first.
	PodIPs []string
	// Labels tell of restarts (messages.StatusLabelRestarts), nil while there were none.
	Labels map[string]string
	// Gone: surely no container of the pod runs or will run again (EX-76). It is true for each ended pod, since the
	// kubelet publishes a terminal phase only after the last container stopped.
	Gone bool
}

// SameToMesos tells whether two statuses would make the same update, payload aside.
func (s Status) SameToMesos(o Status) bool {
	sameHealth := (s.Healthy == nil) == (o.Healthy == nil) && (s.Healthy == nil || *s.Healthy == *o.Healthy)
	return s.Stage == o.Stage && s.State == o.State && s.Message == o.Message && sameHealth && slices.Equal(s.PodIPs, o.PodIPs) &&
		maps.Equal(s.Labels, o.Labels)
}

// Of reads the kubelet's view of a pod. A phase that it does not know is Waiting.
func Of(pod *corev1.Pod) Status {
	s := Status{PodIPs: podIPs(&pod.Status), Labels: restarts(&pod.Status), Gone: containersGone(pod)}
	switch pod.Status.Phase {
	case corev1.PodRunning:
		s.Stage, s.State = Up, mesos.TASK_RUNNING
		s.Message = messages.Running(pod.Namespace, pod.Name)
		s.Healthy = ready(&pod.Status)
	case corev1.PodSucceeded:
		s.Stage, s.State = Ended, mesos.TASK_FINISHED
		s.Message = string(messages.ReasonFinished)
	case corev1.PodFailed:
		s.Stage, s.State = Ended, mesos.TASK_FAILED
		detail, reason := failure(&pod.Status)
		s.Message, s.Reason = messages.ReasonFailed.Detail(detail), &reason
	}
	return s
}

func podIPs(status *corev1.PodStatus) []string {
	var ips []string
	if status.PodIP != "" {
		ips = append(ips, status.PodIP)
	}
	for _, ip := range status.PodIPs {
		if ip.IP != "" && !slices.Contains(ips, ip.IP) {
			ips = append(ips, ip.IP)
		}
	}
	return ips
}

func restarts(status *corev1.PodStatus) map[string]string {
	sum := 0
	var last corev1.ContainerStatus
	for _, c := range allContainers(status) {
		sum += int(c.RestartCount)
		end, latest := c.LastTerminationState.Terminated, last.LastTerminationState.Terminated
		if end != nil && (latest == nil || latest.FinishedAt.Before(&end.FinishedAt)) {
			last = c
		}
	}
	if sum == 0 {
		return nil
	}
	labels := map[string]string{messages.StatusLabelRestarts: strconv.Itoa(sum)}
	if end := last.LastTerminationState.Terminated; end != nil {
		labels[messages.StatusLabelLastExit] = fmt.Sprintf("%s: %s, exit code %d", last.Name, cmp.Or(end.Reason, "Error"), end.ExitCode)
	}
	return labels
}

func ready(status *corev1.PodStatus) *bool {
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionUnknown {
			healthy := c.Status == corev1.ConditionTrue
			return &healthy
		}
	}
	return nil
}

// containersGone holds for a terminal phase, and for a pod under deletion of which each container has ended or never
// began. Without deletion a container that waits is about to start.
func containersGone(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	// A container without a status is one of which the kubelet has not spoken yet.
	if pod.DeletionTimestamp == nil ||
		len(pod.Status.ContainerStatuses) < len(pod.Spec.Containers) ||
		len(pod.Status.InitContainerStatuses) < len(pod.Spec.InitContainers) ||
		len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	for _, c := range allContainers(&pod.Status) {
		ended := c.State.Terminated != nil
		neverBegan := c.State.Running == nil && c.RestartCount == 0 && c.LastTerminationState.Terminated == nil
		if !ended && !neverBegan {
			return false
		}
	}
	return true
}

func allContainers(status *corev1.PodStatus) []corev1.ContainerStatus {
	return slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses)
}

// reasonOfPod is Mesos' reason for the kubelet's reasons of a whole pod. Others that begin with OutOf are admission
// failures; they and all unknown ones mean that the pod was refused.
var reasonOfPod = map[string]mesos.TaskStatus_Reason{
	"Evicted":          mesos.REASON_CONTAINER_LIMITATION,
	"DeadlineExceeded": mesos.REASON_MAX_COMPLETION_TIME_REACHED,
	"Preempting":       mesos.REASON_CONTAINER_PREEMPTED,
	"Terminated":       mesos.REASON_EXECUTOR_TERMINATED,
}

// reasonOfContainer is Mesos' reason for the kubelet's and runc's reasons of one container.
var reasonOfContainer = map[string]mesos.TaskStatus_Reason{
	"OOMKilled":          mesos.REASON_CONTAINER_LIMITATION_MEMORY,
	"StartError":         mesos.REASON_CONTAINER_LAUNCH_FAILED,
	"ContainerCannotRun": mesos.REASON_CONTAINER_LAUNCH_FAILED,
}

// failure says why a pod failed: the kubelet's verdict on the pod if there is one (eviction, deadline, refused at
// admission), else the first container that ended badly, init containers first.
func failure(status *corev1.PodStatus) (string, mesos.TaskStatus_Reason) {
	if status.Reason != "" {
		detail := status.Reason
		if status.Message != "" {
			detail += ": " + status.Message
		}
		reason, known := reasonOfPod[status.Reason]
		if !known {
			reason = mesos.REASON_CONTAINER_LAUNCH_FAILED
		}
		return detail, reason
	}
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		t := c.State.Terminated
		if t == nil || t.ExitCode == 0 && t.Signal == 0 {
			continue
		}
		why := t.Reason
		if why == "" {
			why = "Error"
		}
		reason, known := reasonOfContainer[t.Reason]
		if !known {
			reason = mesos.REASON_COMMAND_EXECUTOR_FAILED
		}
		return fmt.Sprintf("container %s: %s, exit code %d", c.Name, why, t.ExitCode), reason
	}
	return status.Message, mesos.REASON_COMMAND_EXECUTOR_FAILED
}

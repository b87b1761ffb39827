package podstate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/executor/podstate"
)

func ptr[T any](v T) *T { return &v }

func terminated(name string, code int32, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}
}

func running(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func waiting(name string, restarts int32) corev1.ContainerStatus {
	c := corev1.ContainerStatus{Name: name, RestartCount: restarts,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
	if restarts > 0 {
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
	}
	return c
}

func ready(status corev1.ConditionStatus) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: status}}
}

// TestOf is the table of EX-50, EX-51, EX-57, EX-58, EX-66.
func TestOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status corev1.PodStatus
		want   podstate.Status
	}{
		{"nothing known (EX-47)", corev1.PodStatus{}, podstate.Status{}},
		{"pending", corev1.PodStatus{Phase: corev1.PodPending, Conditions: ready("False")}, podstate.Status{}},
		{"unknown phase", corev1.PodStatus{Phase: corev1.PodUnknown}, podstate.Status{}},
		{"running, ready", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready("True"), PodIP: "10.1.0.5",
			PodIPs: []corev1.PodIP{{IP: "10.1.0.5"}, {IP: "fd00::5"}, {}}},
			podstate.Status{Stage: podstate.Up, State: mesos.TASK_RUNNING, Message: "pod-running:web_default", Healthy: ptr(true),
				PodIPs: []string{"10.1.0.5", "fd00::5"}}},
		{"running, not ready", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready("False")},
			podstate.Status{Stage: podstate.Up, State: mesos.TASK_RUNNING, Message: "pod-running:web_default", Healthy: ptr(false)}},
		{"running, readiness unknown", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready("Unknown")},
			podstate.Status{Stage: podstate.Up, State: mesos.TASK_RUNNING, Message: "pod-running:web_default"}},
		{"succeeded", corev1.PodStatus{Phase: corev1.PodSucceeded, Conditions: ready("False")},
			podstate.Status{Stage: podstate.Ended, State: mesos.TASK_FINISHED, Message: "pod-succeeded", Gone: true}},
		{"a container failed", corev1.PodStatus{Phase: corev1.PodFailed,
			ContainerStatuses: []corev1.ContainerStatus{terminated("log", 0, "Completed"), terminated("web", 3, "Error"), terminated("db", 4, "Error")}},
			failed("pod-failed: container web: Error, exit code 3", mesos.REASON_COMMAND_EXECUTOR_FAILED)},
		{"an init container failed", corev1.PodStatus{Phase: corev1.PodFailed,
			InitContainerStatuses: []corev1.ContainerStatus{terminated("setup", 7, "")},
			ContainerStatuses:     []corev1.ContainerStatus{waiting("web", 0)}},
			failed("pod-failed: container setup: Error, exit code 7", mesos.REASON_COMMAND_EXECUTOR_FAILED)},
		{"out of memory", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{terminated("web", 137, "OOMKilled")}},
			failed("pod-failed: container web: OOMKilled, exit code 137", mesos.REASON_CONTAINER_LIMITATION_MEMORY)},
		{"no such program", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{terminated("web", 128, "StartError")}},
			failed("pod-failed: container web: StartError, exit code 128", mesos.REASON_CONTAINER_LAUNCH_FAILED)},
		{"refused at admission", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Node didn't have enough resource: cpu"},
			failed("pod-failed: OutOfcpu: Node didn't have enough resource: cpu", mesos.REASON_CONTAINER_LAUNCH_FAILED)},
		{"refused by affinity", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeAffinity"},
			failed("pod-failed: NodeAffinity", mesos.REASON_CONTAINER_LAUNCH_FAILED)},
		{"evicted, the cause counts and not the exit code", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory",
			ContainerStatuses: []corev1.ContainerStatus{terminated("web", 137, "Error")}},
			failed("pod-failed: Evicted: low on memory", mesos.REASON_CONTAINER_LIMITATION)},
		{"deadline", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"},
			failed("pod-failed: DeadlineExceeded", mesos.REASON_MAX_COMPLETION_TIME_REACHED)},
		{"preempted", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Preempting"},
			failed("pod-failed: Preempting", mesos.REASON_CONTAINER_PREEMPTED)},
		{"failed, nobody says why", corev1.PodStatus{Phase: corev1.PodFailed}, failed("pod-failed", mesos.REASON_COMMAND_EXECUTOR_FAILED)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Status: tt.status}
			before := pod.DeepCopy()
			if diff := cmp.Diff(tt.want, podstate.Of(pod)); diff != "" {
				t.Errorf("Of, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("Of changed the pod (EX-48), -want +got:\n%s", diff)
			}
		})
	}
}

func failed(message string, reason mesos.TaskStatus_Reason) podstate.Status {
	return podstate.Status{Stage: podstate.Ended, State: mesos.TASK_FAILED, Message: message, Reason: &reason, Gone: true}
}

// TestGone is the other half of EX-76: when no container of a pod under deletion runs.
func TestGone(t *testing.T) {
	one := func(c corev1.ContainerStatus) []corev1.ContainerStatus { return []corev1.ContainerStatus{c} }
	for _, tt := range []struct {
		name             string
		deleted          bool
		init, containers []corev1.ContainerStatus
		inits            int
		want             bool
	}{
		{"ended", true, nil, one(terminated("web", 0, "")), 0, true},
		{"ended, not deleted: may be restarted (EX-65)", false, nil, one(terminated("web", 0, "")), 0, false},
		{"runs", true, nil, one(running("web")), 0, false},
		{"never began", true, nil, one(waiting("web", 0)), 0, true},
		{"between two restarts", true, nil, one(waiting("web", 2)), 0, false},
		{"init container runs", true, one(running("setup")), one(waiting("web", 0)), 1, false},
		{"init container ended", true, one(terminated("setup", 1, "")), one(waiting("web", 0)), 1, true},
		{"init container without a status", true, nil, one(waiting("web", 0)), 1, false},
		{"no status yet", true, nil, nil, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}, InitContainers: make([]corev1.Container, tt.inits)},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: tt.init, ContainerStatuses: tt.containers},
			}
			if tt.deleted {
				pod.DeletionTimestamp = &metav1.Time{}
			}
			if got := podstate.Of(pod).Gone; got != tt.want {
				t.Errorf("Gone = %t, want %t", got, tt.want)
			}
		})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	pod.Spec.Containers = []corev1.Container{{Name: "web"}}
	pod.Status.ContainerStatuses = one(terminated("web", 0, ""))
	pod.Status.EphemeralContainerStatuses = one(running("debug"))
	if podstate.Of(pod).Gone {
		t.Error("Gone with a debug container that runs")
	}
}

// TestSameToMesos: an update is due when state, message, health or addresses differ, and not otherwise.
func TestSameToMesos(t *testing.T) {
	base := podstate.Status{Stage: podstate.Up, State: mesos.TASK_RUNNING, Message: "m", Healthy: ptr(true), PodIPs: []string{"a"}}
	for _, tt := range []struct {
		name   string
		change func(*podstate.Status)
		want   bool
	}{
		{"nothing", func(*podstate.Status) {}, true},
		{"equal pointer target", func(s *podstate.Status) { s.Healthy = ptr(true) }, true},
		{"health", func(s *podstate.Status) { s.Healthy = ptr(false) }, false},
		{"health unknown", func(s *podstate.Status) { s.Healthy = nil }, false},
		{"addresses", func(s *podstate.Status) { s.PodIPs = []string{"a", "b"} }, false},
		{"restarts", func(s *podstate.Status) { s.Labels = map[string]string{"restarts": "1"} }, false},
		{"state", func(s *podstate.Status) { s.State = mesos.TASK_FAILED }, false},
		{"message", func(s *podstate.Status) { s.Message = "n" }, false},
		{"stage", func(s *podstate.Status) { s.Stage = podstate.Ended }, false},
	} {
		other := base
		tt.change(&other)
		if got := base.SameToMesos(other); got != tt.want {
			t.Errorf("%s: SameToMesos = %t, want %t", tt.name, got, tt.want)
		}
		if got := other.SameToMesos(base); got != tt.want {
			t.Errorf("%s, turned: SameToMesos = %t, want %t", tt.name, got, tt.want)
		}
	}
}

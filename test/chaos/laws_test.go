package chaos

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/test/cluster"
)

// The laws find what breaks them, once each, and nothing else.
func TestHistory(t *testing.T) {
	pod := func(node string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID("u")}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
	}
	task := func(id, state string) cluster.Task {
		one := cluster.Task{State: state}
		one.TaskID.Value = id
		return one
	}
	for name, test := range map[string]struct {
		tell func(*history)
		want []string
	}{
		"a life": {func(h *history) {
			h.pod(pod("", corev1.PodPending))
			h.tasks([]cluster.Task{task("u.1", "TASK_STAGING")})
			h.tasks([]cluster.Task{task("u.1", "TASK_DROPPED"), task("u.2", "TASK_STAGING")})
			h.pod(pod("a", corev1.PodRunning))
			h.tasks([]cluster.Task{task("u.2", "TASK_UNREACHABLE"), task("u.3", "TASK_RUNNING")})
			h.tasks([]cluster.Task{task("u.3", "TASK_FINISHED")})
			h.pod(pod("a", corev1.PodSucceeded))
			h.pod(pod("a", corev1.PodSucceeded))
		}, nil},
		"two at a time": {func(h *history) {
			h.pod(pod("", corev1.PodPending))
			h.tasks([]cluster.Task{task("u.2", "TASK_STAGING"), task("u.1", "TASK_RUNNING")})
		}, []string{"pod p has 2 live tasks: u.1 TASK_RUNNING, u.2 TASK_STAGING"}},
		"back from its end": {func(h *history) {
			h.pod(pod("", corev1.PodPending))
			for range 2 {
				h.tasks([]cluster.Task{task("u.1", "TASK_FAILED")})
				h.tasks([]cluster.Task{task("u.1", "TASK_RUNNING")})
			}
		}, []string{"task u.1 of pod p is TASK_RUNNING after TASK_FAILED"}},
		"pod back from its end": {func(h *history) {
			h.pod(pod("a", corev1.PodFailed))
			h.pod(pod("a", corev1.PodRunning))
		}, []string{"pod p is Running after Failed"}},
		"another node": {func(h *history) {
			h.pod(pod("a", corev1.PodRunning))
			h.pod(pod("b", corev1.PodRunning))
		}, []string{`pod p went from node a to "b"`}},
		"nobody's": {func(h *history) { h.tasks([]cluster.Task{task("x.1", "TASK_RUNNING")}) },
			[]string{"task x.1 is of a pod that nobody made"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			test.tell(h)
			if diff := cmp.Diff(test.want, h.verdict()); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

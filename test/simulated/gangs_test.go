package simulated

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// newGang makes a group of pods that are to start together, or not at all, and removes it when the test is over, after its pods.
func newGang(t *testing.T, name string, least int32) {
	t.Helper()
	groups := suite.Client.SchedulingV1beta1().PodGroups(cluster.Namespace)
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: least}
	if _, err := groups.Create(t.Context(), group, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := groups.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// member is the nth pod of a gang, on the rack that no other test's pods are bound to.
func member(gang string, n int, cpus string) *corev1.Pod {
	pod := onRack(fmt.Sprintf("%s-%d", gang, n), "r4")
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &gang}
	pod.Spec.Containers[0].Resources.Requests = cluster.Requests(cpus, "64Mi")
	return pod
}

// noTasks fails the test if a pod has a node or a task.
func noTasks(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		pod, err := suite.Client.CoreV1().Pods(cluster.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if tasks, err := suite.TasksOf(t.Context(), pod); err != nil || len(tasks) > 0 || pod.Spec.NodeName != "" {
			t.Errorf("pod %s has node %q and tasks %v (%v)", name, pod.Spec.NodeName, tasks, err)
		}
	}
}

// The first pods of a gang have no task before there are enough of them.
func TestGangIsComplete(t *testing.T) {
	newGang(t, "gang", 4)
	for n := range 3 {
		suite.Create(t, member("gang", n, "100m"))
	}
	place(t, onRack("no-member", "r4")) // the scheduler has seen what was made before
	noTasks(t, "gang-0", "gang-1", "gang-2")
	suite.Create(t, member("gang", 3, "100m"))
	for n := range 4 {
		suite.WaitPhase(t, fmt.Sprintf("gang-%d", n), corev1.PodRunning)
	}
}

// Of two gangs of which only one has room one starts whole and the other not at all, until the first one is gone: neither
// holds what the other lacks.
func TestTwoGangsAndRoomForOne(t *testing.T) {
	names := func(gang string) (all []string) {
		for n := range 4 {
			all = append(all, fmt.Sprintf("%s-%d", gang, n))
		}
		return all
	}
	for _, gang := range []string{"left", "right"} {
		newGang(t, gang, 4)
	}
	for n := range 4 { // two hosts with room for two of them each
		for _, gang := range []string{"left", "right"} {
			suite.Create(t, member(gang, n, "3"))
		}
	}
	first, second := "left", "right"
	cluster.Eventually(t, "a gang to run", func(ctx context.Context) error {
		for _, pair := range [][2]string{{"left", "right"}, {"right", "left"}} {
			running := 0
			for _, name := range names(pair[0]) {
				pod, err := suite.Client.CoreV1().Pods(cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if pod.Status.Phase == corev1.PodRunning {
					running++
				}
			}
			if running == 4 {
				first, second = pair[0], pair[1]
				return nil
			}
		}
		return fmt.Errorf("no gang runs whole")
	})
	noTasks(t, names(second)...)
	for _, name := range names(first) {
		if err := suite.DeletePod(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names(second) {
		suite.WaitPhase(t, name, corev1.PodRunning)
	}
}

// Pods of a gang whose launch fails are launched anew.
func TestGangLaunchFails(t *testing.T) {
	newGang(t, "unlucky", 4)
	for n := range 3 {
		suite.Create(t, member("unlucky", n, "100m"))
	}
	const id = "gang"
	order(t, "faults", `{"id":%q,"link":"scheduler","kind":"status","match":"ACCEPT","calls":true,"code":503,"count":1}`, id)
	t.Cleanup(func() {
		if err := heal(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	suite.Create(t, member("unlucky", 3, "100m"))
	for n := range 4 {
		suite.WaitPhase(t, fmt.Sprintf("unlucky-%d", n), corev1.PodRunning)
	}
	if n, err := met(t.Context(), id); err != nil || n == 0 {
		t.Errorf("the fault was met %d times (%v)", n, err)
	}
}

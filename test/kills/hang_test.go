package kills

import (
	"context"
	"errors"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// A containerd that hangs is killed and started again; pods run on in the same containers, no task is lost, and the next
// pod starts: issue 5, item 9.
func TestContainerdHangs(t *testing.T) {
	pod := suite.Create(t, cluster.OnNode(cluster.NewPod("hung", cluster.Steady), node1))
	pod = suite.WaitPhase(t, pod.Name, corev1.PodRunning)
	suite.WaitTask(t, pod, "TASK_RUNNING")
	before, err := pids("containerd")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(before[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	suite.Create(t, cluster.OnNode(cluster.NewPod("hung-newcomer", cluster.Steady), node1))
	cluster.Eventually(t, "another containerd", func(context.Context) error {
		now, err := pids("containerd")
		if err == nil && now[0] == before[0] {
			err = errors.New("the one that hangs still is there")
		}
		return err
	})
	newcomer := suite.WaitPhase(t, "hung-newcomer", corev1.PodRunning)
	suite.WaitTask(t, newcomer, "TASK_RUNNING")
	suite.SameContainer(t, pod)
}

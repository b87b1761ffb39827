package simulated

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// onActed is a pod for the agents that act pods out, with the script of its annotations.
func onActed(name string, script map[string]string) *corev1.Pod {
	pod := cluster.NewPod(name, "nothing runs this")
	pod.Annotations = script
	pod.Spec.NodeSelector = map[string]string{"k8s.mesosphere.io/attribute-simulated": "true"}
	return pod
}

// TestActedRuns: a pod on an agent without processes is bound, told as running by kubectl and Mesos, with the same address,
// and gone when it is deleted.
func TestActedRuns(t *testing.T) {
	pod := suite.Create(t, onActed("acted", nil))
	running := suite.WaitPhase(t, pod.Name, corev1.PodRunning)
	suite.WaitTask(t, pod, "TASK_RUNNING")
	if !strings.HasPrefix(running.Status.PodIP, "198.18.") || !running.Status.ContainerStatuses[0].Ready {
		t.Errorf("status %+v, want an address of the range and a container that is ready", running.Status)
	}
	if shown := suite.Kubectl(t, "get", "pod", pod.Name); !strings.Contains(shown, "1/1") || !strings.Contains(shown, "Running") {
		t.Errorf("kubectl shows %s", shown)
	}
	if err := suite.DeletePod(t.Context(), pod.Name); err != nil {
		t.Fatal(err)
	}
	suite.WaitTask(t, pod, "TASK_KILLED")
}

// TestActedEnds: annotations say when a pod ends and how; one that is started anew has no end for Mesos.
func TestActedEnds(t *testing.T) {
	short := map[string]string{"sim.start-delay": "100ms", "sim.run-time": "300ms"}
	good := suite.Create(t, onActed("good", short))
	bad := onActed("bad", map[string]string{"sim.run-time": "300ms", "sim.exit-code": "3"})
	bad = suite.Create(t, bad)
	again := onActed("again", short)
	again.Spec.RestartPolicy = corev1.RestartPolicyAlways
	again = suite.Create(t, again)

	suite.WaitPhase(t, good.Name, corev1.PodSucceeded)
	suite.WaitTask(t, good, "TASK_FINISHED")
	if shown := suite.Kubectl(t, "get", "pod", good.Name); !strings.Contains(shown, "Completed") {
		t.Errorf("kubectl shows %s", shown)
	}
	failed := suite.WaitPhase(t, bad.Name, corev1.PodFailed)
	if end := failed.Status.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 3 {
		t.Errorf("container ended as %+v, want exit code 3", end)
	}
	suite.WaitTask(t, bad, "TASK_FAILED")
	cluster.Eventually(t, "the pod was started anew", func(ctx context.Context) error {
		got, err := suite.Client.CoreV1().Pods("default").Get(ctx, again.Name, metav1.GetOptions{})
		if err == nil && (len(got.Status.ContainerStatuses) == 0 || got.Status.ContainerStatuses[0].RestartCount < 2 || got.Status.Phase != corev1.PodRunning) {
			err = fmt.Errorf("status %+v", got.Status)
		}
		return err
	})
	suite.WaitTask(t, again, "TASK_RUNNING")
}

// TestActedFailover: tasks that are acted out outlive a master, and are killed through the next one.
func TestActedFailover(t *testing.T) {
	pod := suite.Create(t, onActed("outlives", nil))
	suite.WaitPhase(t, pod.Name, corev1.PodRunning)
	suite.WaitTask(t, pod, "TASK_RUNNING")
	order(t, "master", `{"action":"stop"}`)
	order(t, "master", `{"action":"start","keep_registry":true}`)
	suite.WaitTask(t, pod, "TASK_RUNNING")
	if err := suite.DeletePod(t.Context(), pod.Name); err != nil {
		t.Fatal(err)
	}
	suite.WaitTask(t, pod, "TASK_KILLED")
}

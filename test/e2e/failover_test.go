package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hold stops a process of the cluster until resume, which the end of the test calls too.
func hold(t *testing.T, variable string, words ...string) (pid int, resume func()) {
	t.Helper()
	pid, err := partPID(variable, words...)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume = sync.OnceFunc(func() {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	})
	t.Cleanup(resume)
	return pid, resume
}

// warm makes sure that the first agent's executor runs and is idle otherwise.
func warm(t *testing.T, name string) {
	t.Helper()
	create(t, onNode(newPod(name, steady), nodeName))
	waitTask(t, waitPhase(t, name, corev1.PodRunning), "TASK_RUNNING")
}

// waitAnyTask waits until Mesos knows a task of the pod in one of the states.
func waitAnyTask(t *testing.T, pod *corev1.Pod, states ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("task of pod %s to be one of %v", pod.Name, states), func(ctx context.Context) error {
		tasks, err := tasksOf(ctx, pod)
		for _, one := range tasks {
			for _, state := range states {
				if one.State == state {
					return nil
				}
			}
		}
		return errors.Join(err, fmt.Errorf("tasks are %v", tasks))
	})
}

// ranOnce makes sure that the pod runs as the only task that it ever had.
func ranOnce(t *testing.T, made *corev1.Pod) {
	t.Helper()
	pod := waitPhase(t, made.Name, corev1.PodRunning)
	task := waitTask(t, pod, "TASK_RUNNING") // fails if there are two
	if want := string(made.UID) + ".1"; task.TaskID.Value != want || pod.Annotations[taskAnnotation] != want || pod.UID != made.UID {
		t.Errorf("pod %s runs as task %s with annotation %s, want %s", pod.Name, task.TaskID.Value, pod.Annotations[taskAnnotation], want)
	}
	if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
		t.Errorf("container of pod %s was started %d times more", pod.Name, restarts)
	}
	if dirs := sandboxesOf(t, pod); len(dirs) != 1 {
		t.Errorf("pod %s left log folders %v, want one", pod.Name, dirs)
	}
}

// sandboxesOf are the folders that the kubelet made for containers of the pod's name: each attempt with another UID would
// have one.
func sandboxesOf(t *testing.T, pod *corev1.Pod) (dirs []string) {
	t.Helper()
	entries, err := os.ReadDir(sandbox(t, pod.Spec.NodeName) + "/pods")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if prefix := namespace + "_" + pod.Name + "_"; len(e.Name()) > len(prefix) && e.Name()[:len(prefix)] == prefix {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs
}

// The scheduler is killed after its ACCEPT and before the binding: the next one finds the launch under way by reconciliation,
// and starts nothing beside it.
func TestSchedulerKilledBeforeBind(t *testing.T) {
	warm(t, "warm-before-bind")
	_, resume := hold(t, ofFirst, executorWords)
	made := create(t, onNode(newPod("between-accept-and-bind", steady), nodeName))
	waitAnyTask(t, made, "TASK_STAGING")
	killPart(t, "", "scheduler", "--kubeconfig=")
	// A pod on the other agent is the proof that the next scheduler is at work, the first one's launch still open.
	create(t, onNode(newPod("elsewhere-before-bind", steady), "mesopod-agent2"))
	waitPhase(t, "elsewhere-before-bind", corev1.PodRunning)
	if got, err := client.CoreV1().Pods(namespace).Get(t.Context(), made.Name, metav1.GetOptions{}); err != nil || got.Spec.NodeName != "" {
		t.Fatalf("pod is bound to %q (%v) while its executor stands still", got.Spec.NodeName, err)
	}
	resume()
	ranOnce(t, made)
}

// The scheduler is killed after the binding and before TASK_RUNNING.
func TestSchedulerKilledBeforeRunning(t *testing.T) {
	pod := onNode(newPod("between-bind-and-running", steady), nodeName)
	pod.Spec.InitContainers = []corev1.Container{{Name: "slow", Image: pod.Spec.Containers[0].Image, Command: []string{"sleep", "6"}}}
	made := create(t, pod)
	waitAnyTask(t, made, "TASK_STARTING")
	killPart(t, "", "scheduler", "--kubeconfig=")
	ranOnce(t, made)
}

// The agent dies with a launch on its way: Mesos tells that the task was dropped or lost, and the pod is placed anew as the next
// attempt.
func TestLaunchLostWithAgent(t *testing.T) {
	warm(t, "warm-lost")
	agent, _ := hold(t, "MESOS_HOSTNAME="+nodeName, "mesos-agent")
	made := create(t, onNode(newPod("lost-on-the-way", steady), nodeName))
	waitAnyTask(t, made, "TASK_STAGING")
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitAnyTask(t, made, "TASK_DROPPED", "TASK_LOST")
	pod := waitPhase(t, made.Name, corev1.PodRunning)
	if got := pod.Annotations[taskAnnotation]; got != string(made.UID)+".2" || pod.UID != made.UID {
		t.Errorf("pod %s runs as task %s, want the second attempt of %s", pod.Name, got, made.UID)
	}
	waitAnyTask(t, made, "TASK_RUNNING")
	eventually(t, "event that tells of the failed launch", func(ctx context.Context) error {
		reasons, err := eventReasons(ctx, made.Name)
		if err == nil && reasons["FailedScheduling"] == "" {
			err = fmt.Errorf("events are %v", reasons)
		}
		return err
	})
}

// A pod that is deleted while its launch waits for the executor ends as if it had never been.
func TestDeletedBeforeBind(t *testing.T) {
	warm(t, "warm-deleted")
	_, resume := hold(t, ofFirst, executorWords)
	made := create(t, onNode(newPod("deleted-before-bind", steady), nodeName))
	waitAnyTask(t, made, "TASK_STAGING")
	ctx, cancel := context.WithTimeout(t.Context(), defaultLimit)
	defer cancel()
	if err := deletePod(ctx, made.Name); err != nil {
		t.Fatal(err)
	}
	resume()
	eventually(t, "task to end", func(ctx context.Context) error {
		tasks, err := tasksOf(ctx, made)
		for _, one := range tasks {
			switch one.State {
			case "TASK_STAGING", "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING":
				err = errors.Join(err, fmt.Errorf("task %s is %s", one.TaskID.Value, one.State))
			}
		}
		return err
	})
}

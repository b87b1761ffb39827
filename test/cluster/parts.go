package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The words in the command lines of the executor and of its keeper; the keeper's watchdog has other ones.
const (
	ExecutorWords = "/mesopod executor --config"
	KeeperWords   = "mesopod-keeper --bundle"
)

// OfAgent is in the environment of the processes of an agent's executor alone, and of its keeper.
func (c *Cluster) OfAgent(n int) string {
	return "MESOS_SANDBOX=" + filepath.Join(c.StateDir, fmt.Sprintf("agent%d", n)) + "/"
}

// PartPID is the process of the cluster whose command line has all the words, and its environment the variable.
func (c *Cluster) PartPID(variable string, words ...string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// What cannot be read has ended.
		command, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		environment, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		line := strings.ReplaceAll(string(command), "\x00", " ")
		missing := slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
		if !missing && strings.Contains(string(environment), "MESOPOD_LOCAL="+c.StateDir) && strings.Contains(string(environment), variable) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process of the cluster has %v in its command line and %q in its environment", words, variable)
}

// KillPart kills the process that PartPID finds, and waits until another has its place.
func (c *Cluster) KillPart(t *testing.T, variable string, words ...string) {
	t.Helper()
	first, err := c.PartPID(variable, words...)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %v: %v", words, err)
	}
	Eventually(t, fmt.Sprintf("%v to be started again", words), func(context.Context) error {
		now, err := c.PartPID(variable, words...)
		if err == nil && now == first {
			err = fmt.Errorf("process %d still runs", first)
		}
		return err
	})
}

// SameContainer makes sure that a pod, and its one task, were not touched since the pod was looked at.
func (c *Cluster) SameContainer(t *testing.T, before *corev1.Pod) {
	t.Helper()
	after, err := c.Client.CoreV1().Pods(Namespace).Get(t.Context(), before.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	was, is := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]
	if was.ContainerID != is.ContainerID || is.RestartCount != 0 || after.DeletionTimestamp != nil {
		t.Errorf("pod %s was disturbed: container %s is now %s, %d restarts", before.Name, was.ContainerID, is.ContainerID, is.RestartCount)
	}
	tasks, err := c.TasksOf(t.Context(), before)
	if err != nil || len(tasks) != 1 || tasks[0].State != "TASK_RUNNING" {
		t.Errorf("tasks of pod %s are %v (%v), want the one that runs", before.Name, tasks, err)
	}
}

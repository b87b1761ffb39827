package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A second local cluster is refused with a clear error, and disturbs nothing.
func TestSecondInstance(t *testing.T) {
	for _, folder := range []string{stateDir, stateDir + "2"} {
		cmd := exec.CommandContext(t.Context(), mesopod(), "local", "--state-dir", folder, "--bundle-dir", bundleDir, "--mesos-dir", mesosDir)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("a second local cluster in %s: %v, want exit status 1", folder, err)
		}
		if !strings.Contains(string(out), "runs on this machine already") {
			t.Errorf("a second local cluster says %q", out)
		}
	}
	if out, err := exec.CommandContext(t.Context(), mesopod(), "local", "reset", "--state-dir", stateDir).CombinedOutput(); err == nil {
		t.Errorf("reset of a running cluster succeeds: %s", out)
	}
	if _, err := client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}); err != nil {
		t.Errorf("the first cluster is hurt: %v", err)
	}
}

// The scheduler may die at any time: pods run on, and its successor knows them and places new ones.
func TestSchedulerKilled(t *testing.T) {
	create(t, newPod("survivor", "echo up; "+steady))
	before := waitPhase(t, "survivor", corev1.PodRunning)
	waitTask(t, before, "TASK_RUNNING")
	killPart(t, "", "scheduler", "--kubeconfig=")
	create(t, newPod("successor", steady))
	waitPhase(t, "successor", corev1.PodRunning)
	sameContainer(t, before)
}

// So may the agent: its executor and the pods live on, and it finds them again.
func TestAgentKilled(t *testing.T) {
	create(t, onNode(newPod("steadfast", "echo up; "+steady), nodeName))
	before := waitPhase(t, "steadfast", corev1.PodRunning)
	waitTask(t, before, "TASK_RUNNING")
	killPart(t, "MESOS_HOSTNAME="+nodeName, "mesos-agent")
	create(t, onNode(newPod("newcomer", steady), nodeName))
	pod := waitPhase(t, "newcomer", corev1.PodRunning)
	waitTask(t, pod, "TASK_RUNNING")
	sameContainer(t, before)
	// Deleting goes all the way too.
	ctx, cancel := context.WithTimeout(t.Context(), defaultLimit)
	defer cancel()
	if err := deletePod(ctx, "steadfast"); err != nil {
		t.Fatal(err)
	}
	waitTask(t, before, "TASK_KILLED")
}

// sameContainer makes sure that a pod was not touched since it was looked at.
func sameContainer(t *testing.T, before *corev1.Pod) {
	t.Helper()
	after, err := client.CoreV1().Pods(namespace).Get(t.Context(), before.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	was, is := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]
	if was.ContainerID != is.ContainerID || is.RestartCount != 0 || after.DeletionTimestamp != nil {
		t.Errorf("pod %s was disturbed: container %s is now %s, %d restarts", before.Name, was.ContainerID, is.ContainerID, is.RestartCount)
	}
	tasks, err := tasksOf(t.Context(), before)
	if err != nil || len(tasks) != 1 || tasks[0].State != "TASK_RUNNING" {
		t.Errorf("tasks of pod %s are %v (%v), want the one that runs", before.Name, tasks, err)
	}
}

// killPart kills the process of the cluster whose command line has all the words, and its environment the variable,
// and waits until another has its place.
func killPart(t *testing.T, variable string, words ...string) {
	t.Helper()
	first, err := partPID(variable, words)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %v: %v", words, err)
	}
	eventually(t, fmt.Sprintf("%v to be started again", words), func(context.Context) error {
		now, err := partPID(variable, words)
		if err == nil && now == first {
			err = fmt.Errorf("process %d still runs", first)
		}
		return err
	})
}

func partPID(variable string, words []string) (int, error) {
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
		if !missing && strings.Contains(string(environment), "MESOPOD_LOCAL="+stateDir) && strings.Contains(string(environment), variable) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process of the cluster has %v in its command line and %q in its environment", words, variable)
}

// Version and help answer without a cluster.
func TestVersion(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), mesopod(), "version", "-o", "json").Output()
	if err != nil || !strings.Contains(string(out), `"kubernetes": "v1.37`) {
		t.Errorf("mesopod version -o json: %v: %s", err, out)
	}
	err = exec.CommandContext(t.Context(), mesopod(), "scheduler", "--no-such-flag").Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("a wrong flag: %v, want exit status 2", err)
	}
}

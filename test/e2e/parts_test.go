package e2e

import (
	"context"
	"errors"
	"os/exec"
	"strings"
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

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// untilTold ends well when it is told to.
const untilTold = "echo up; while [ ! -e /tmp/end ]; do sleep 0.2; done"

// The executor may die at any time: the keeper starts it again, the pods run on in the same containers, Mesos sees the
// same executor and tasks, and statuses go on: PC-50, EX-120.
func TestExecutorKilled(t *testing.T) {
	before := startThree(t, "survivor")
	sandboxBefore := sandbox(t, nodeName)
	killPart(t, ofFirst, executorWords)
	afterRestart(t, before, sandboxBefore)
}

// So may the agent and the executor at once.
func TestAgentAndExecutorKilled(t *testing.T) {
	before := startThree(t, "double")
	sandboxBefore := sandbox(t, nodeName)
	agent, err := partPID("MESOS_HOSTNAME="+nodeName, "mesos-agent")
	if err != nil {
		t.Fatal(err)
	}
	executor, err := partPID(ofFirst, executorWords)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Kill(agent, syscall.SIGKILL), syscall.Kill(executor, syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent to know its executor again", func(ctx context.Context) error {
		var state struct {
			Frameworks []struct{ Executors []struct{ Directory string } }
		}
		if err := get(ctx, agentURLs[nodeName]+"/state", nil, &state); err != nil {
			return err
		}
		if len(state.Frameworks) == 0 || len(state.Frameworks[0].Executors) == 0 {
			return errors.New("the agent has no executor")
		}
		return nil
	})
	afterRestart(t, before, sandboxBefore)
}

// startThree starts three pods, the last of which ends when it is told to.
func startThree(t *testing.T, name string) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for i, script := range []string{"echo up; " + steady, "echo up; " + steady, untilTold} {
		create(t, onNode(newPod(fmt.Sprint(name, i), script), nodeName))
	}
	for i := range 3 {
		pod := waitPhase(t, fmt.Sprint(name, i), corev1.PodRunning)
		waitTask(t, pod, "TASK_RUNNING")
		pods = append(pods, pod)
	}
	return pods
}

// afterRestart makes sure that nothing was disturbed, that a new pod starts, and that the end of an old one is told.
func afterRestart(t *testing.T, pods []*corev1.Pod, sandboxBefore string) {
	t.Helper()
	newcomer := pods[0].Name + "-newcomer"
	create(t, onNode(newPod(newcomer, steady), nodeName))
	// A launch that reached the agent while it had no executor to tell is dropped, and made again.
	waitSomeTask(t, waitPhase(t, newcomer, corev1.PodRunning), "TASK_RUNNING")
	for _, pod := range pods {
		sameContainer(t, pod)
	}
	if now := sandbox(t, nodeName); now != sandboxBefore {
		t.Errorf("Mesos' executor was in %s, is in %s now", sandboxBefore, now)
	}
	last := pods[len(pods)-1]
	kubectl(t, "exec", last.Name, "--", "touch", "/tmp/end")
	waitPhase(t, last.Name, corev1.PodSucceeded)
	waitTask(t, last, "TASK_FINISHED")
	if got := waitLog(t, last.Name, "up"); got != "up\n" {
		t.Errorf("log of a pod from before: %q", got)
	}
}

// waitSomeTask waits until one of the pod's tasks is in a state.
func waitSomeTask(t *testing.T, pod *corev1.Pod, state string) {
	t.Helper()
	eventually(t, "a task of pod "+pod.Name+" to be "+state, func(ctx context.Context) error {
		all, err := tasksOf(ctx, pod)
		if err == nil && !slices.ContainsFunc(all, func(one task) bool { return one.State == state }) {
			err = fmt.Errorf("its tasks are %v", all)
		}
		return err
	})
}

// When the keeper dies nothing of the executor runs, is mounted or has a cgroup 5 s later, and the agent can have pods
// again. Here Mesos kills by cgroup; cmd/mesopod-keeper proves the same where it does not.
func TestKeeperKilled(t *testing.T) {
	for i := range 2 {
		pod := onNode(newPod(fmt.Sprint("doomed", i), steady), nodeName)
		create(t, pod)
		waitTask(t, waitPhase(t, pod.Name, corev1.PodRunning), "TASK_RUNNING")
	}
	run := sandbox(t, nodeName)
	container := filepath.Base(run)
	state, err := os.ReadFile(filepath.Join(run, ".mesopod-state"))
	if err != nil {
		t.Fatal(err)
	}
	left := func() []string { return cluster.LeftOf(t, container, strings.TrimSpace(string(state))) }
	for _, part := range []string{"process", "mount", "cgroup"} {
		if !slices.ContainsFunc(left(), func(thing string) bool { return strings.HasPrefix(thing, part) }) {
			t.Fatalf("found no %s of a living executor: this test would prove nothing", part)
		}
	}
	keeper, err := partPID(ofFirst, keeperWords)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := poll(ctx, func(context.Context) error {
		if things := left(); len(things) > 0 {
			return fmt.Errorf("%d things, the first of them %s", len(things), things[0])
		}
		return nil
	}); err != nil {
		t.Errorf("5 s after the keeper's end there still are: %v", err)
	}
	for i := range 2 {
		// Nobody is there to end them in an orderly way.
		now := int64(0)
		if err := client.CoreV1().Pods(namespace).Delete(t.Context(), fmt.Sprint("doomed", i), metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Error(err)
		}
	}
	create(t, onNode(newPod("reborn", steady), nodeName))
	waitSomeTask(t, waitPhase(t, "reborn", corev1.PodRunning), "TASK_RUNNING")
	if now := sandbox(t, nodeName); now == run {
		t.Error("the agent runs the executor of the dead keeper")
	}
}

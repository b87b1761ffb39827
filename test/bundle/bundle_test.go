package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/bundle"
	"github.com/mesopod/mesopod/test/cluster"
)

// steady runs until it is told to end.
const steady = "echo up; " + cluster.Steady

// start starts a pod on a node and tells how long it took to be Running.
func start(t *testing.T, name, node string) (*corev1.Pod, time.Duration) {
	t.Helper()
	began := time.Now()
	suite.Create(t, cluster.OnNode(cluster.NewPod(name, steady), node))
	pod := suite.WaitPhase(t, name, corev1.PodRunning)
	took := time.Since(began)
	suite.WaitTask(t, pod, "TASK_RUNNING")
	return pod, took
}

// told is what keeper and executor of a node wrote.
func told(t *testing.T, node string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(suite.Sandbox(t, node), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runs tells of which bundle the executor of an agent is.
func runs(agent int) (bundle.Digest, error) {
	pid, err := suite.PartPID(suite.OfAgent(agent), cluster.ExecutorWords)
	if err != nil {
		return "", err
	}
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return bundle.Digest(filepath.Base(filepath.Dir(program))), err
}

// The first executor of a host has its bundle fetched from the scheduler, the next one finds it there; all agents were
// told the same.
func TestColdAndCached(t *testing.T) {
	_, cold := start(t, "cold", node1)
	if text := told(t, node1); !strings.Contains(text, "fetch bundle "+old.Short()+" from https://"+cluster.BridgeIP) || !strings.Contains(text, "is there: fetched") {
		t.Errorf("the first keeper did not fetch: %s", text)
	}
	_, cached := start(t, "cached", node2)
	if text := told(t, node2); strings.Contains(text, "fetch bundle") {
		t.Errorf("the second keeper fetched, too: %s", text)
	}
	t.Logf("create to Running on an agent without executor: %.1f s with an empty cache, %.1f s with the bundle in it", cold.Seconds(), cached.Seconds())
	for agent := 1; agent <= 2; agent++ {
		if got, err := runs(agent); got != old || err != nil {
			t.Errorf("agent %d runs from %s, error %v", agent, got, err)
		}
	}
	if one, other := keeper(t, 1), keeper(t, 2); one != other {
		t.Errorf("keepers were started as %s and as %s", one, other)
	}
}

// keeper is the command line of an agent's keeper.
func keeper(t *testing.T, agent int) string {
	t.Helper()
	pid, err := suite.PartPID(suite.OfAgent(agent), cluster.KeeperWords)
	if err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(line), "--bundle="+string(old)) {
		t.Fatalf("keeper of agent %d: %q, error %v", agent, line, err)
	}
	return string(line)
}

// A scheduler with another bundle has executors go over to it with its next launch there: their pods run on in the same
// containers, Mesos sees the same executor and tasks; who gets no launch is left alone.
func TestUpgrade(t *testing.T) {
	first, _ := start(t, "before1", node1)
	second, _ := start(t, "before2", node2)
	sandbox := suite.Sandbox(t, node1)
	if err := serve(next); err != nil {
		t.Fatal(err)
	}
	suite.KillPart(t, "", "scheduler", "--kubeconfig=")
	third, _ := start(t, "newcomer", node1)
	cluster.Eventually(t, "the executor to run from the other bundle", func(context.Context) error {
		got, err := runs(1)
		if err == nil && got != next {
			err = errors.New("it runs from " + string(got))
		}
		return err
	})
	// The executor runs but may not be subscribed yet: a launch that comes before is dropped by the agent, and made again.
	suite.Create(t, cluster.OnNode(cluster.NewPod("after", steady), node1))
	suite.WaitPhase(t, "after", corev1.PodRunning)
	for _, pod := range []*corev1.Pod{first, second, third} {
		suite.SameContainer(t, pod)
	}
	if now := suite.Sandbox(t, node1); now != sandbox {
		t.Errorf("Mesos' executor was in %s, is in %s now", sandbox, now)
	}
	if got, err := runs(2); got != old || err != nil {
		t.Errorf("agent 2 runs from %s, error %v", got, err)
	}
	// Old pods can be reached and ended: their shims go on using the runc of the old bundle.
	suite.Kubectl(t, "exec", first.Name, "--", "true")
	if _, err := os.Stat(filepath.Join(cache, string(old))); err != nil {
		t.Errorf("the old bundle: %v", err)
	}
	if err := suite.DeletePod(t.Context(), first.Name); err != nil {
		t.Error(err)
	}
	suite.WaitTask(t, first, "TASK_KILLED")
}

package credentials

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// The scheduler that gave the token is gone before the executor asks: the next one does not know it and says no, the launch
// fails, and another one brings a token that is good.
func TestTokenOfLostScheduler(t *testing.T) {
	suite.Create(t, cluster.OnNode(cluster.NewPod("early", cluster.Steady), node3))
	executor := stopped(t, suite.OfAgent(3), cluster.ExecutorWords)
	defer func() { _ = syscall.Kill(executor, syscall.SIGCONT) }() // it went on already, or has ended
	if _, err := os.Stat(pki("3", "executor.pem")); err == nil {
		t.Fatal("the executor has certificates already: it was not stopped in time")
	}
	suite.KillPart(t, "", "scheduler --kubeconfig=")
	if err := syscall.Kill(executor, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	suite.WaitPhase(t, "early", corev1.PodRunning)
	log, err := os.ReadFile(filepath.Join(suite.StateDir, "logs", "scheduler.log"))
	if err != nil || !strings.Contains(string(log), "shows a token that is unknown or expired") {
		t.Errorf("the scheduler refused no token (%v)", err)
	}
}

// stopped stops a process of the cluster as soon as it is there.
func stopped(t *testing.T, variable string, words ...string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.Limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		pid, err := suite.PartPID(variable, words...)
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGSTOP)
		}
		if err == nil {
			return pid
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

package idle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

func leaseHolder(ctx context.Context) (string, error) {
	lease, err := suite.Client.CoordinationV1().Leases("mesopod-system").Get(ctx, "mesopod-scheduler", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", errors.New("nobody holds the lease")
	}
	return *lease.Spec.HolderIdentity, nil
}

// standby runs one more scheduler with the flags of the first, but for the port that it serves executors at.
func standby(t *testing.T, first int) (log *cluster.Output, stop func()) {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", first))
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	cmd := exec.Command(args[0], append(args[1:], "--executor-listen="+cluster.BridgeIP+":9444")...)
	log = &cluster.Output{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // its exit code is that of a signal or 0
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the standby says:\n%s", log)
		}
	})
	t.Cleanup(stop)
	return log, stop
}

// said is the time of day at which a log first says something.
func said(t *testing.T, log *cluster.Output, words string) time.Time {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		if fields := strings.Fields(line); strings.Contains(line, words) && len(fields) > 1 {
			at, err := time.Parse("15:04:05.000000", fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
	}
	t.Fatalf("the log does not say %q", words)
	return time.Time{}
}

// Of two schedulers one works. When it is killed the other one takes over as the same framework, and no pod notices; when that
// one is stopped, it gives the lease back.
func TestStandby(t *testing.T) {
	suite.Create(t, cluster.OnNode(cluster.NewPod("between-leaders", cluster.Steady), cold))
	before := suite.WaitPhase(t, "between-leaders", corev1.PodRunning)
	suite.WaitTask(t, before, "TASK_RUNNING")
	framework, err := storedFramework(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	holder, err := leaseHolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := suite.PartPID("", "scheduler", "--kubeconfig=")
	if err != nil {
		t.Fatal(err)
	}
	log, stop := standby(t, first)
	cluster.Eventually(t, "standby to see the leader", func(context.Context) error {
		if !strings.Contains(log.String(), "see leader identity="+holder) {
			return errors.New("it has not yet")
		}
		return nil
	})
	// It is not started again meanwhile: it stands still, and then it is too late for it.
	stoodStill := time.Now()
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := sync.OnceFunc(func() { _ = syscall.Kill(first, syscall.SIGCONT) }) // it may have ended
	defer resume()
	cluster.Eventually(t, "standby to lead", func(context.Context) error {
		if !strings.Contains(log.String(), "hold lease") {
			return errors.New("it does not yet")
		}
		return nil
	})
	cluster.Eventually(t, "standby to open its gate", func(context.Context) error {
		if !strings.Contains(log.String(), "change gate open=true") {
			return errors.New("it has not yet")
		}
		return nil
	})
	t.Logf("take-over: gate open %.3f s after the lease, %.1f s after the leader stood still",
		said(t, log, "change gate open=true").Sub(said(t, log, "hold lease")).Seconds(), time.Since(stoodStill).Seconds())
	suite.Create(t, cluster.OnNode(cluster.NewPod("of-the-standby", cluster.Steady), "mesopod-agent1"))
	suite.WaitPhase(t, "of-the-standby", corev1.PodRunning)
	suite.SameContainer(t, before)
	if got, err := storedFramework(t.Context()); err != nil || got != framework {
		t.Errorf("framework is %q (%v), want %q", got, err, framework)
	}
	resume() // the first one finds its lease gone, ends, and is started again as a standby
	stop()
	suite.Create(t, cluster.OnNode(cluster.NewPod("of-the-first", cluster.Steady), cold))
	suite.WaitPhase(t, "of-the-first", corev1.PodRunning)
	suite.SameContainer(t, before)
}

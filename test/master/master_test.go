package master

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// state is what of a master's /state is looked at.
type state struct {
	Agents []struct {
		Active bool `json:"active"`
	} `json:"slaves"`
	Frameworks []struct {
		ID        string `json:"id"`
		Principal string `json:"principal"`
		Active    bool   `json:"active"`
		Connected bool   `json:"connected"`
	} `json:"frameworks"`
}

// leadsTruly waits until framework and agent are at a master, as the same framework, and tells how long that took.
func leadsTruly(t *testing.T, m master, framework string, since time.Time) {
	t.Helper()
	var took time.Duration
	cluster.Eventually(t, "framework and agent to be at master "+m.port, func(ctx context.Context) error {
		var s state
		if err := cluster.Get(ctx, "http://"+m.address()+"/state", url.Values{}, &s); err != nil {
			return err
		}
		if len(s.Frameworks) != 1 || s.Frameworks[0].ID != framework || s.Frameworks[0].Principal != principal || !s.Frameworks[0].Connected || !s.Frameworks[0].Active {
			return fmt.Errorf("frameworks are %+v, want %s", s.Frameworks, framework)
		}
		if took == 0 {
			took = time.Since(since)
		}
		if len(s.Agents) != 1 || !s.Agents[0].Active {
			return fmt.Errorf("agents are %+v", s.Agents)
		}
		return nil
	})
	t.Logf("subscribed at the new master %.2f s after it led", took.Seconds())
}

func framework(t *testing.T) string {
	t.Helper()
	stored, err := suite.Client.CoreV1().ConfigMaps("mesopod-system").Get(t.Context(), "mesopod-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored.Data["frameworkID"]
}

// startSecond runs the second master, which authenticates frameworks.
func startSecond(t *testing.T) *exec.Cmd {
	t.Helper()
	work := t.TempDir()
	credentials := filepath.Join(work, "credentials")
	if err := os.WriteFile(credentials, fmt.Appendf(nil, `{"credentials": [{"principal": %q, "secret": %q}]}`, principal, secret), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(cluster.MesosDir(), "mesos-master"))
	cmd.Env = append(os.Environ(), "LIBPROCESS_IP="+cluster.BridgeIP, "LIBPROCESS_PORT="+second.port, "MESOS_HOSTNAME="+cluster.BridgeIP,
		"MESOS_WORK_DIR="+work, "MESOS_REGISTRY=in_memory", "MESOS_AUTHENTICATE_HTTP_FRAMEWORKS=true",
		"MESOS_HTTP_FRAMEWORK_AUTHENTICATORS=basic", "MESOS_CREDENTIALS=file://"+credentials)
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end(cmd)
		if t.Failed() {
			t.Logf("the second master says:\n%s", log.String())
		}
	})
	cluster.Eventually(t, "second master to answer", func(ctx context.Context) error {
		return cluster.Get(ctx, "http://"+second.address()+"/state", url.Values{}, &state{})
	})
	return cmd
}

// end kills a process, once.
func end(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The leader changes, dies, and is another one again: each time the scheduler subscribes where ZooKeeper says, by TLS and with
// its secret, as the same framework; pods run on, and new ones start. Who does not know the secret is told so once.
func TestLeaderChanges(t *testing.T) {
	suite.Create(t, cluster.NewPod("steady", cluster.Steady))
	steady := suite.WaitPhase(t, "steady", corev1.PodRunning)
	suite.WaitTask(t, steady, "TASK_RUNNING") // a master that leads no more learns nothing more
	id := framework(t)
	leadsTruly(t, first, id, time.Now())

	successor := startSecond(t)
	began := time.Now()
	must(t, noLeader())
	must(t, lead(second))
	leadsTruly(t, second, id, began)
	suite.Create(t, cluster.NewPod("of-the-second", cluster.Steady))
	suite.WaitPhase(t, "of-the-second", corev1.PodRunning)
	suite.SameContainer(t, steady)

	t.Run("wrong secret", wrongSecret)

	// Its nodes stay until ZooKeeper misses it.
	end(successor)
	cluster.Eventually(t, "scheduler to miss its master", logged("lose master=127.0.0.1:"+second.front))
	must(t, noLeader())
	cluster.Eventually(t, "scheduler to see that nobody leads", logged("no master leads"))
	began = time.Now()
	must(t, lead(first))
	leadsTruly(t, first, id, began)
	suite.Create(t, cluster.NewPod("of-the-first", cluster.Steady))
	suite.WaitPhase(t, "of-the-first", corev1.PodRunning)
	suite.SameContainer(t, steady)
}

// schedulerLog is what the scheduler has said.
func schedulerLog() string {
	text, err := os.ReadFile(filepath.Join(suite.StateDir, "logs", "scheduler.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func logged(words string) func(context.Context) error {
	return func(context.Context) error {
		if !strings.Contains(schedulerLog(), words) {
			return errors.New("not yet in its log: " + words)
		}
		return nil
	}
}

// wrongSecret has another scheduler try with a secret that the master does not know.
func wrongSecret(t *testing.T) {
	const wrong = "battery-staple"
	file := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(file, []byte(wrong), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), cluster.Limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, cluster.Mesopod(), "scheduler", "--config="+config, "--kubeconfig="+suite.Kubeconfig(), "--secret-file="+file,
		"--status-address=none").CombinedOutput()
	var exit *exec.ExitError
	want := fmt.Sprintf("the master does not know principal %q with this secret; compare with the file of its flag --credentials", principal)
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), want) || strings.Count(string(out), "401") != 1 {
		t.Errorf("got %v, want exit code 1 after one attempt and %q:\n%s", err, want, out)
	}
	if strings.Contains(string(out), wrong) || strings.Contains(schedulerLog(), secret) {
		t.Error("a log has the secret")
	}
}

// People's verbs take the scheduler's file, and find the leader in ZooKeeper, behind TLS: its answer is that the agent is not
// drained, so there is nothing to undo.
func TestVerbsFindLeader(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), cluster.Limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, cluster.Mesopod(), "undrain", suite.Node(1), "--config="+config, "--kubeconfig="+suite.Kubeconfig()).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "REACTIVATE_AGENT at 127.0.0.1:"+first.front+": refused: 400") {
		t.Errorf("got %v, want the leader's refusal:\n%s", err, out)
	}
}

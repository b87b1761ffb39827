package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	stateDir     = "/var/lib/mesopod/e2e"
	masterURL    = "http://10.89.0.1:5050"
	startLimit   = 4 * time.Minute
	stopLimit    = 2 * time.Minute
	defaultLimit = 90 * time.Second // one thing that a test waits for
)

// The programs under test, as make names them.
var (
	bundleDir = fromEnv("MESOPOD_BUNDLE", "bin/bundle")
	mesosDir  = fromEnv("MESOPOD_MESOS", "bin/mesos")
)

// nodeName is the node of tests that need a certain one.
const nodeName = "mesopod-agent1"

// agentURLs are the agents of the cluster, by the names of their nodes.
var agentURLs = map[string]string{nodeName: "http://10.89.0.11:5051", "mesopod-agent2": "http://10.89.0.12:5051"}

// client is an administrator's client of the cluster.
var client kubernetes.Interface

func fromEnv(name, inTree string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	abs, err := filepath.Abs(filepath.Join("..", "..", inTree))
	if err != nil {
		return inTree
	}
	return abs
}

func mesopod() string    { return filepath.Join(bundleDir, "mesopod") }
func kubeconfig() string { return filepath.Join(stateDir, "kubeconfig") }

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run is TestMain with an exit code, so that defers run.
func run(m *testing.M) int {
	if err := checkMachine(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	before, err := takeSnapshot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: look at the machine:", err)
		return 1
	}
	code := 1
	cluster, err := startCluster(len(agentURLs))
	if err == nil {
		code = m.Run()
		err = cluster.stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	code = max(code, report("NothingLeft", before, nil))
	if code != 0 {
		showLogs()
		return code
	}
	// Part of every run, but not when single tests were asked for.
	if flag.Lookup("test.run").Value.String() == "" {
		return report("NothingLeftAfterKillAndReset", before, killAndReset())
	}
	return report("NothingLeftAfterReset", before, reset())
}

// report tells, as a test would, whether the machine is what it was before; it returns an exit code.
func report(name string, before snapshot, err error) int {
	left := nothingLeft(before)
	if err == nil && len(left) == 0 {
		fmt.Println("--- PASS:", name)
		return 0
	}
	fmt.Fprintf(os.Stderr, "--- FAIL: %s: %v\n\t%s\n", name, err, strings.Join(left, "\n\t"))
	return 1
}

// killAndReset kills a cluster with a running pod on each agent, again and again: the next start, which may have fewer
// agents, has to clean up behind each, reset behind the last.
func killAndReset() error {
	for _, agents := range []int{len(agentURLs), 1, len(agentURLs)} {
		c, err := startCluster(agents)
		if err != nil {
			return err
		}
		for n := 1; n <= agents; n++ {
			if err := startOrphan(fmt.Sprintf("mesopod-agent%d", n)); err != nil {
				return errors.Join(err, c.stop())
			}
		}
		if err := c.cmd.Process.Kill(); err != nil {
			return err
		}
		<-c.ended
	}
	return reset()
}

// startOrphan runs a pod on a node.
func startOrphan(node string) error {
	ctx, cancel := context.WithTimeout(context.Background(), defaultLimit)
	defer cancel()
	pod := onNode(newPod("orphan-"+node, steady), node)
	if _, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		got, err := client.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.PodRunning {
			err = errors.New(describe(got))
		}
		return err
	})
}

// checkMachine removes what an earlier run that was killed has left.
func checkMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("run as root: local mode makes network namespaces, mounts and cgroups")
	}
	for _, path := range []string{mesopod(), filepath.Join(bundleDir, "mesopod-keeper"), filepath.Join(mesosDir, "mesos-agent")} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%w: first: make mesos runtime images build", err)
		}
	}
	return reset()
}

func reset() error {
	out, err := exec.Command(mesopod(), "local", "reset", "--state-dir", stateDir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mesopod local reset: %w: %s", err, out)
	}
	// What tests have put there.
	return os.RemoveAll(stateDir)
}

// cluster is a running `mesopod local`.
type cluster struct {
	cmd   *exec.Cmd
	out   *output
	ended chan error // gets the result of the process
}

// output is what a process wrote so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func startCluster(agents int) (*cluster, error) {
	c := &cluster{out: &output{}, ended: make(chan error, 1)}
	c.cmd = exec.Command(mesopod(), "local", "--state-dir", stateDir, "--bundle-dir", bundleDir, "--mesos-dir", mesosDir,
		"--agents", strconv.Itoa(agents), "-v=1")
	out := io.MultiWriter(c.out, os.Stdout)
	c.cmd.Stdout, c.cmd.Stderr = out, out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { c.ended <- c.cmd.Wait() }()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	err := poll(ctx, func(context.Context) error {
		select {
		case err := <-c.ended:
			c.ended <- err
			return permanent{fmt.Errorf("mesopod local ended: %w", err)}
		default:
		}
		if !strings.Contains(c.out.String(), "ready in ") {
			return errors.New("mesopod local is not ready")
		}
		return nil
	})
	if err == nil {
		client, err = newClient(kubeconfig())
	}
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// stop ends the cluster as Ctrl-C would, and fails if that is no clean end.
func (c *cluster) stop() error {
	select {
	case err := <-c.ended:
		if err == nil {
			err = errors.New("it was not asked to")
		}
		return fmt.Errorf("mesopod local ended before its time: %w", err)
	default:
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-c.ended:
		if err != nil {
			return fmt.Errorf("mesopod local did not end well: %w", err)
		}
		return nil
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("mesopod local did not end within %s", stopLimit), c.cmd.Process.Kill(), reset())
	}
}

func newClient(path string) (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return kubernetes.NewForConfig(cfg)
}

// showLogs prints the ends of all logs, for who has to find out what went wrong.
func showLogs() {
	for _, pattern := range []string{
		"logs/scheduler.log", "logs/mesos-agent*.log", "logs/mesos-master.log",
		"agent*/work/slaves/*/frameworks/*/executors/*/runs/*/std*",
		"agent*/work/slaves/*/frameworks/*/executors/*/runs/*/containerd.log",
	} {
		paths, _ := filepath.Glob(filepath.Join(stateDir, pattern)) // the patterns are good
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil || len(data) == 0 || strings.Contains(path, "/latest/") {
				continue
			}
			lines := strings.Split(strings.TrimSpace(string(data)), "\n")
			fmt.Fprintf(os.Stderr, "---- end of %s\n%s\n", path, strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	}
}

// permanent is an error that waiting cannot mend.
type permanent struct{ error }

// poll asks until the answer is nil or permanent, or ctx ends; then the last answer is the error.
func poll(ctx context.Context, ask func(context.Context) error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if _, hopeless := errors.AsType[permanent](err); hopeless {
			return err
		}
		// An answer that was cut short by the end of ctx says less than the one before.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last
		}
	}
}

// eventually fails the test unless the answer becomes nil in time.
func eventually(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), defaultLimit)
	defer cancel()
	if err := poll(ctx, ask); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// kubectl runs the kubectl that is in mesopod.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), mesopod(), append([]string{"kubectl", "--kubeconfig", kubeconfig()}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String()
}

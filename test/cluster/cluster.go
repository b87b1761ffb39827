package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
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

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// MasterURL is the Mesos master of every local cluster; BridgeIP is the address of it and of the API server.
	MasterURL = "http://" + BridgeIP + ":5050"
	BridgeIP  = "10.89.0.1"
	// Limit is how long one thing that a test waits for may take: generous, since machines of tests are busy.
	Limit = 90 * time.Second

	startLimit = 4 * time.Minute
	stopLimit  = 2 * time.Minute
)

// Options say what a cluster is to be.
type Options struct {
	// Name tells clusters of different suites apart: the state folder is /var/lib/mesopod/NAME.
	Name string
	// Agents is how many agents there are, 1 to 20; 0 is 1.
	Agents int
	// Launcher is the agents', linux or posix; empty takes linux where it works.
	Launcher string
	// AgentResources are what each agent offers, in Mesos' notation; empty divides the machine.
	AgentResources string
	// AgentFlags are further flags of the agents, NAME=VALUE as Mesos knows them, such as cgroups_enable_cfs=true.
	AgentFlags []string
	// Mesos is real, sim, or the address of a master; empty is real.
	Mesos string
	// Flags are further flags of `mesopod local`.
	Flags []string
	// DNS runs the cluster's DNS server, as a pod from the start on.
	DNS bool
	// Quiet keeps what `mesopod local` prints from standard output.
	Quiet bool
}

// Cluster is a `mesopod local`, running or not.
type Cluster struct {
	Options
	// StateDir keeps everything of the cluster.
	StateDir string
	// Client is an administrator's client. It is there once Start has returned.
	Client kubernetes.Interface

	process *exec.Cmd
	out     *Output
	ended   chan error // gets the result of the process
}

// New is a cluster that has not been started.
func New(o Options) *Cluster {
	o.Agents = max(o.Agents, 1)
	return &Cluster{Options: o, StateDir: "/var/lib/mesopod/" + o.Name}
}

// BundleDir is the folder of the programs under test, as make names it for tests.
func BundleDir() string { return fromEnv("MESOPOD_BUNDLE", "bin/bundle") }

// MesosDir is the folder of Mesos' programs.
func MesosDir() string { return fromEnv("MESOPOD_MESOS", "bin/mesos") }

// Mesopod is the program under test.
func Mesopod() string { return filepath.Join(BundleDir(), "mesopod") }

// fromEnv is a folder from the environment, else one of the tree that the working directory is in.
func fromEnv(name, inTree string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, inTree)
		}
		dir = filepath.Dir(dir)
	}
	return inTree
}

// Kubeconfig is an administrator's; the file is there while the cluster runs.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.StateDir, "kubeconfig") }

// Node is the name of an agent's node, counted from 1.
func (c *Cluster) Node(n int) string { return fmt.Sprintf("mesopod-agent%d", n) }

// AgentURL is where the agent of a node answers, empty if there is no such node.
func (c *Cluster) AgentURL(node string) string {
	for n := 1; n <= c.Agents; n++ {
		if c.Node(n) == node {
			return fmt.Sprintf("http://10.89.0.%d:5051", 10+n)
		}
	}
	return ""
}

// Start starts the cluster and waits until it is ready. After an error nothing of it runs.
func (c *Cluster) Start() error {
	args := []string{"local", "--mesos=" + cmp.Or(c.Mesos, "real"), "--state-dir", c.StateDir, "--bundle-dir", BundleDir(), "--mesos-dir", MesosDir(),
		"--agents", strconv.Itoa(c.Agents), "--dns=" + strconv.FormatBool(c.DNS), "-v=1"}
	for name, value := range map[string]string{"--launcher": c.Launcher, "--agent-resources": c.AgentResources} {
		if value != "" {
			args = append(args, name, value)
		}
	}
	for _, flag := range c.AgentFlags {
		args = append(args, "--agent-flag", flag)
	}
	c.process = exec.Command(Mesopod(), append(args, c.Flags...)...)
	c.out, c.ended = &Output{}, make(chan error, 1)
	var out io.Writer = c.out
	if !c.Quiet {
		out = io.MultiWriter(c.out, os.Stdout)
	}
	c.process.Stdout, c.process.Stderr = out, out
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.process.Start(); err != nil {
		return err
	}
	go func() { c.ended <- c.process.Wait() }()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	err := Poll(ctx, func(context.Context) error {
		select {
		case err := <-c.ended:
			c.ended <- err
			return Permanent{fmt.Errorf("mesopod local ended: %w: %s", err, c.out)}
		default:
		}
		if !strings.Contains(c.out.String(), "ready in ") {
			return errors.New("mesopod local is not ready")
		}
		return nil
	})
	if err == nil {
		c.Client, err = newClient(c.Kubeconfig())
	}
	if err != nil {
		return errors.Join(err, c.Stop())
	}
	return nil
}

// Stop ends the cluster as Ctrl-C would, and fails if that is no clean end.
func (c *Cluster) Stop() error {
	select {
	case err := <-c.ended:
		if err == nil {
			err = errors.New("it was not asked to")
		}
		return fmt.Errorf("mesopod local ended before its time: %w", err)
	default:
	}
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-c.ended:
		if err != nil {
			return fmt.Errorf("mesopod local did not end well: %w", err)
		}
		return nil
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("mesopod local did not end within %s", stopLimit), c.process.Process.Kill(), c.Reset())
	}
}

// Kill ends `mesopod local` with SIGKILL, as a crash would, and waits for its end. What it leaves, Reset removes.
func (c *Cluster) Kill() error {
	if err := c.process.Process.Kill(); err != nil {
		return err
	}
	<-c.ended
	return nil
}

// Reset removes what a cluster that was killed has left, and its state folder.
func (c *Cluster) Reset() error {
	out, err := exec.Command(Mesopod(), "local", "reset", "--state-dir", c.StateDir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mesopod local reset: %w: %s", err, out)
	}
	// What tests have put there.
	return os.RemoveAll(c.StateDir)
}

// Kubectl runs the kubectl that is in mesopod, and returns its standard output.
func (c *Cluster) Kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.TryKubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TryKubectl is Kubectl for what may fail; the error has its standard error.
func (c *Cluster) TryKubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, Mesopod(), append([]string{"kubectl", "--kubeconfig", c.Kubeconfig()}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

func newClient(path string) (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	return kubernetes.NewForConfig(cfg)
}

// Output keeps what a process has written so far; it can be read at any time.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes all of data.
func (o *Output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

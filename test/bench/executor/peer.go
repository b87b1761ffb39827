package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mesopod/mesopod/executor/runtime"
	"github.com/mesopod/mesopod/test/cluster"
)

// peer is the upstream kubelet with the upstream kube-proxy, since an executor does the work of both. They are configured
// as the executor configures what it embeds, and the kubelet is on a containerd of its own that is started as the executor
// starts it.
type peer struct {
	cluster        *cluster.Cluster
	bench          *bench
	programs       programs
	dir            string
	cgroup         string
	runtime        *runtime.Runtime
	stop           context.CancelFunc // ends containerd
	stopped        chan error
	kubelet, proxy *child // nil before the first round
	shown          bool   // usualSocket is ours
}

// programs are the paths of the upstream programs.
type programs struct{ kubelet, proxy string }

// child is a process of the peer's.
type child struct {
	process *exec.Cmd
	ended   chan error
}

const (
	peerNode   = "upstream"
	peerBridge = "mpodbench"
)

func newPeer(ctx context.Context, c *cluster.Cluster, b *bench, upstream programs) (*peer, error) {
	for _, program := range []string{upstream.kubelet, upstream.proxy} {
		if _, err := os.Stat(program); err != nil {
			return nil, fmt.Errorf("%w: make bench-executor builds it", err)
		}
	}
	p := &peer{
		cluster: c, bench: b, programs: upstream, dir: filepath.Join(c.StateDir, "peer"), cgroup: "/mesopod/bench",
		stopped: make(chan error, 1),
	}
	var err error
	if err := errors.Join(os.MkdirAll(filepath.Join(p.dir, "pods"), 0o755), makeCgroups(p.cgroup)); err != nil {
		return nil, err
	}
	p.runtime, err = runtime.New(runtime.Config{
		BundleDir: cluster.BundleDir(), StateDir: filepath.Join(p.dir, "s"), LogFile: filepath.Join(p.dir, "containerd.log"),
		Bridge: peerBridge, PodCIDR: "10.89.250.0/24", Container: "bench",
	})
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	go func() { p.stopped <- p.runtime.Run(life) }()
	select {
	case <-p.runtime.Ready():
	case err := <-p.stopped:
		return nil, fmt.Errorf("containerd ended: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := errors.Join(p.runtime.Import(ctx), p.writeConfig(), p.showSocket()); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// usualSocket is where a kubelet's cAdvisor looks for containerd; no flag says otherwise. Without it the kubelet takes containers
// for mere cgroups, which is less work than any node has, and the executor's kubelet does that work.
const usualSocket = "/run/containerd/containerd.sock"

func (p *peer) showSocket() error {
	if err := os.MkdirAll(filepath.Dir(usualSocket), 0o711); err != nil {
		return err
	}
	if err := os.Symlink(p.runtime.Socket(), usualSocket); err != nil {
		return fmt.Errorf("%w: end the machine's own containerd for the time of the bench", err)
	}
	p.shown = true
	return nil
}

func (p *peer) name() string { return "kubelet" }

// place binds the pod at once: the kubelet has no scheduler to wait for.
func (p *peer) place(pod *corev1.Pod) { pod.Spec.SchedulerName, pod.Spec.NodeName = "none", peerNode }

func (p *peer) processes() ([]int, error) {
	return []int{p.kubelet.process.Process.Pid, p.proxy.process.Process.Pid}, nil
}

func (p *peer) profile(ctx context.Context) ([]byte, error) {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+cluster.BridgeIP+":10350/debug/pprof/profile?seconds="+idleSeconds, nil)
	if err != nil {
		return nil, err
	}
	// The kubelet has signed its certificate itself.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(ask)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", ask.URL, answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// writeConfig writes the same configuration that executor/kubelet gives to its kubelet.
func (p *peer) writeConfig() error {
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": cluster.BridgeIP, "port": 10350, "readOnlyPort": 0, "healthzPort": 0,
		"authentication": map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization":  map[string]any{"mode": "AlwaysAllow"},
		"failCgroupV1":   false, "cgroupDriver": "cgroupfs", "cgroupRoot": p.cgroup, "cgroupsPerQOS": true,
		"enforceNodeAllocatable": []string{"pods"}, "failSwapOn": false, "makeIPTablesUtilChains": false,
		"containerRuntimeEndpoint": "unix://" + p.runtime.Socket(), "podLogsDir": filepath.Join(p.dir, "pods"),
		"volumePluginDir": filepath.Join(p.dir, "plugins"), "maxPods": many, "nodeStatusUpdateFrequency": "5s",
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"evictionHard": map[string]string{
			"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%"},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, "kubelet.yaml"), data, 0o600)
}

func (p *peer) fresh(ctx context.Context) error {
	if err := p.end(); err != nil {
		return err
	}
	var err error
	p.proxy, err = p.start(p.programs.proxy, "--proxy-mode=nftables", "--kubeconfig="+p.cluster.Kubeconfig(), "--hostname-override="+peerNode,
		"--bind-address="+cluster.BridgeIP, "--cluster-cidr=10.89.250.0/24", "--conntrack-max-per-core=0", "--healthz-bind-address="+cluster.BridgeIP+":10356",
		"--metrics-bind-address="+cluster.BridgeIP+":10349")
	if err != nil {
		return err
	}
	p.kubelet, err = p.start(p.programs.kubelet, "--config="+filepath.Join(p.dir, "kubelet.yaml"), "--kubeconfig="+p.cluster.Kubeconfig(),
		"--hostname-override="+peerNode, "--node-ip="+cluster.BridgeIP, "--root-dir="+filepath.Join(p.dir, "k"), "--cert-dir="+filepath.Join(p.dir, "pki"))
	if err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = cluster.Poll(ready, func(ctx context.Context) error {
		node, err := p.cluster.Client.CoreV1().Nodes().Get(ctx, peerNode, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("the kubelet's node is not ready")
	})
	if err != nil {
		return fmt.Errorf("%w (see the logs in %s)", err, p.dir)
	}
	if _, err := p.bench.start(ctx, p, 1); err != nil {
		return err
	}
	return p.bench.clear(ctx, p)
}

// start starts a program that logs to a file named after it.
func (p *peer) start(program string, args ...string) (*child, error) {
	log, err := os.OpenFile(filepath.Join(p.dir, filepath.Base(program)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	c := &child{process: exec.Command(program, args...), ended: make(chan error, 1)}
	c.process.Stdout, c.process.Stderr = log, log
	// The kubelet's shims are found by this variable should the bench be killed.
	c.process.Env = append(os.Environ(), "MESOPOD_LOCAL="+p.cluster.StateDir)
	c.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	go func() { c.ended <- c.process.Wait() }()
	return c, nil
}

// end ends both programs.
func (p *peer) end() error {
	err := errors.Join(p.kubelet.end(), p.proxy.end())
	p.kubelet, p.proxy = nil, nil
	return err
}

func (c *child) end() error {
	if c == nil {
		return nil
	}
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.ended // its exit code is that of a signal
	return nil
}

// close ends everything of the peer and removes what it made.
func (p *peer) close() error {
	err := p.end()
	if out, cleanErr := exec.Command(p.programs.proxy, "--cleanup").CombinedOutput(); cleanErr != nil {
		err = errors.Join(err, fmt.Errorf("rules of kube-proxy: %w: %s", cleanErr, out))
	}
	if p.shown {
		err = errors.Join(err, os.Remove(usualSocket))
	}
	p.stop()
	// It removes pods' mounts and links, and the bridge.
	return errors.Join(err, <-p.stopped, removeCgroups(p.cgroup))
}

// hierarchies are the cgroup v1 hierarchies that are mounted.
func hierarchies() ([]string, error) {
	entries, err := os.ReadDir("/sys/fs/cgroup")
	var found []string
	for _, e := range entries {
		dir := filepath.Join("/sys/fs/cgroup", e.Name())
		if _, err := os.Stat(filepath.Join(dir, "tasks")); err == nil && e.IsDir() {
			found = append(found, dir)
		}
	}
	return found, err
}

func makeCgroups(path string) error {
	dirs, err := hierarchies()
	errs := []error{err}
	for _, dir := range dirs {
		for _, part := range []string{filepath.Dir(path), path} {
			group := filepath.Join(dir, part)
			errs = append(errs, os.MkdirAll(group, 0o755))
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				// A new cpuset has neither processors nor memory.
				value, err := os.ReadFile(filepath.Join(filepath.Dir(group), file))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				errs = append(errs, err, os.WriteFile(filepath.Join(group, file), value, 0))
			}
		}
	}
	return errors.Join(errs...)
}

func removeCgroups(path string) error {
	dirs, err := hierarchies()
	errs := []error{err}
	for _, dir := range dirs {
		var groups []string
		errs = append(errs, filepath.WalkDir(filepath.Join(dir, path), func(group string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				groups = append(groups, group)
			}
			return err
		}))
		for i := len(groups) - 1; i >= 0; i-- {
			errs = append(errs, os.Remove(groups[i]))
		}
	}
	return errors.Join(errs...)
}

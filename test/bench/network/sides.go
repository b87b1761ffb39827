package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// executor is our side, on the first agent.
type executor struct{ cluster *cluster.Cluster }

func (e *executor) name() string { return "executor" }

// begin has the agent start it, for a pod that stays.
func (e *executor) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cluster.Limit)
	defer cancel()
	pods := e.cluster.Client.CoreV1().Pods(cluster.Namespace)
	if _, err := pods.Create(ctx, cluster.OnNode(cluster.NewPod("stays", cluster.Steady), e.cluster.Node(1)), metav1.CreateOptions{}); err != nil {
		return err
	}
	return cluster.Poll(ctx, func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "stays", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = errors.New(cluster.Describe(pod))
		}
		return err
	})
}

func (e *executor) pid() (int, error) {
	return e.cluster.PartPID(e.cluster.OfAgent(1), cluster.ExecutorWords)
}

func (e *executor) pids() ([]int, error) {
	pid, err := e.pid()
	return []int{pid}, err
}

func (e *executor) fresh(ctx context.Context) error {
	pid, err := e.pid()
	if err != nil {
		return err
	}
	// The keeper starts another one.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	return waitSynced(ctx, e)
}

func (e *executor) synced(ctx context.Context) (all, changed syncs, err error) {
	text, err := e.cluster.Client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + e.cluster.Node(1) + "/proxy/metrics").Stream(ctx)
	if err != nil {
		return all, changed, err
	}
	defer text.Close()
	return readSyncs(text)
}

func (e *executor) signal(signal syscall.Signal) error {
	pid, err := e.pid()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, signal)
}

func (e *executor) hold() error    { return e.signal(syscall.SIGSTOP) }
func (e *executor) release() error { return e.signal(syscall.SIGCONT) }

// kubeProxy is upstream's program, configured as the executor configures its parts, in the network namespace of the second
// agent, where no executor runs.
type kubeProxy struct {
	cluster *cluster.Cluster
	program string
	process *exec.Cmd // nil while it does not run
}

const metricsAddress = "10.89.0.12:10249"

func (k *kubeProxy) name() string { return "kube-proxy" }

func (k *kubeProxy) fresh(ctx context.Context) error {
	if err := k.end(); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(k.cluster.StateDir, "logs", "kube-proxy.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own
	k.process = exec.Command("nsenter", "--net="+agentNamespace(k.cluster, 2), "--", k.program,
		"--kubeconfig="+k.cluster.Kubeconfig(), "--proxy-mode=nftables", "--hostname-override="+k.cluster.Node(2),
		"--detect-local-mode=ClusterCIDR", "--cluster-cidr=10.89.2.0/24", "--nodeport-addresses=primary",
		"--metrics-bind-address="+metricsAddress, "--healthz-bind-address=10.89.0.12:10256",
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s")
	k.process.Stdout, k.process.Stderr = log, log
	// nsenter becomes it, so the process is kube-proxy itself; the variable has it found should the bench be killed.
	k.process.Env = append(os.Environ(), "MESOPOD_LOCAL="+k.cluster.StateDir)
	if err := k.process.Start(); err != nil {
		k.process = nil
		return err
	}
	return waitSynced(ctx, k)
}

// end kills it, as fresh kills an executor: rules stay.
func (k *kubeProxy) end() error {
	if k.process == nil {
		return nil
	}
	if err := k.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = k.process.Wait() // it was killed
	k.process = nil
	return nil
}

func (k *kubeProxy) pids() ([]int, error) { return []int{k.process.Process.Pid}, nil }

func (k *kubeProxy) synced(ctx context.Context) (all, changed syncs, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsAddress+"/metrics", nil)
	if err != nil {
		return all, changed, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return all, changed, err
	}
	defer answer.Body.Close()
	return readSyncs(answer.Body)
}

func (k *kubeProxy) signal(signal syscall.Signal) error {
	if k.process == nil {
		return nil
	}
	return k.process.Process.Signal(signal)
}

func (k *kubeProxy) hold() error    { return k.signal(syscall.SIGSTOP) }
func (k *kubeProxy) release() error { return k.signal(syscall.SIGCONT) }

// waitSynced waits for a new process to have written all rules once.
func waitSynced(ctx context.Context, side proxied) error {
	ctx, cancel := context.WithTimeout(ctx, cluster.Limit)
	defer cancel()
	return cluster.Poll(ctx, func(ctx context.Context) error {
		all, _, err := side.synced(ctx)
		if err == nil && all.count == 0 {
			err = errors.New("it has not written rules yet")
		}
		return err
	})
}

// readSyncs finds the two histograms of IPv4's rules among metrics.
func readSyncs(text io.Reader) (all, changed syncs, err error) {
	into := map[string]*float64{
		"kubeproxy_sync_full_proxy_rules_duration_seconds_count":    &all.count,
		"kubeproxy_sync_full_proxy_rules_duration_seconds_sum":      &all.sum,
		"kubeproxy_sync_partial_proxy_rules_duration_seconds_count": &changed.count,
		"kubeproxy_sync_partial_proxy_rules_duration_seconds_sum":   &changed.sum,
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		series, value, found := strings.Cut(lines.Text(), " ")
		name, labels, _ := strings.Cut(series, "{")
		field := into[name]
		if !found || field == nil || !strings.Contains(labels, `ip_family="IPv4"`) {
			continue
		}
		if *field, err = strconv.ParseFloat(value, 64); err != nil {
			return all, changed, fmt.Errorf("metric %s: %w", name, err)
		}
	}
	return all, changed, lines.Err()
}

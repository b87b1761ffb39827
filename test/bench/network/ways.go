package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mesopod/mesopod/test/bench/figure"
	"github.com/mesopod/mesopod/test/cluster"
)

const (
	port        = 7000
	seconds     = "2"    // of one measure of throughput
	roundTrips  = "5000" // of one measure of latency
	connections = "300"  // of one measure of connecting
	latencyMost = 2
)

// way is a pair of network namespaces and the address that one end has for the other.
type way struct {
	name, from, address string
	throughput          []float64 // MB/s
	latency, connecting []float64 // µs
}

// ways measures pod to pod, pod to Service and agent to agent on a cluster with a kind of pod network.
func ways(ctx context.Context, network string, rounds int, least float64) (good bool, retErr error) {
	c := cluster.New(cluster.Options{Name: "bench", Agents: 2, Flags: []string{"--pod-network=" + network}, Quiet: true})
	if err := c.Start(); err != nil {
		return false, err
	}
	defer func() { retErr = errors.Join(retErr, c.Stop()) }()
	near, far, err := pair(ctx, c)
	if err != nil {
		return false, err
	}
	service, err := offer(ctx, c, far)
	if err != nil {
		return false, err
	}
	agents := []string{agentNamespace(c, 1), agentNamespace(c, 2)}
	nearSpace, err := podNamespace(near.Name)
	if err != nil {
		return false, err
	}
	farSpace, err := podNamespace(far.Name)
	if err != nil {
		return false, err
	}
	for _, place := range []string{agents[1], farSpace} {
		stop, err := serveIn(ctx, place)
		if err != nil {
			return false, err
		}
		defer stop()
	}
	at := func(ip string, port int) string { return ip + ":" + strconv.Itoa(port) }
	host := &way{name: "host", from: agents[0], address: at("10.89.0.12", port)}
	pod := &way{name: "pod", from: nearSpace, address: at(far.Status.PodIP, port)}
	through := &way{name: "service", from: nearSpace, address: at(service, 80)}
	for _, w := range []*way{host, pod, through} { // rules come in their own time
		limit, cancel := context.WithTimeout(ctx, cluster.Limit)
		err := cluster.Poll(limit, func(ctx context.Context) error {
			_, err := measure(ctx, w.from, "latency", w.address, "10")
			return err
		})
		cancel()
		if err != nil {
			return false, fmt.Errorf("way %s: %w", w.name, err)
		}
	}
	for range rounds {
		for _, w := range []*way{host, pod, through} {
			if err := w.measure(ctx); err != nil {
				return false, fmt.Errorf("way %s: %w", w.name, err)
			}
		}
	}
	return compareWays(network, host, pod, through, least), nil
}

func compareWays(network string, host, pod, through *way, least float64) bool {
	name := func(of, what string) string { return network + "-" + of + "-" + what }
	spread := func(w *way) (t, l, c float64) {
		return figure.Spread(name(w.name, "throughput"), w.throughput, "MB/s"), figure.Spread(name(w.name, "latency"), w.latency, "us"),
			figure.Spread(name(w.name, "connecting"), w.connecting, "us")
	}
	hostThroughput, hostLatency, hostConnecting := spread(host)
	podThroughput, podLatency, podConnecting := spread(pod)
	throughput, latency, connecting := spread(through)
	good := figure.AtLeast(name("pod", "throughput-ratio"), podThroughput/hostThroughput, "x", least)
	good = figure.AtMost(name("pod", "latency-ratio"), podLatency/hostLatency, "x", latencyMost, 0) && good
	figure.Show(name("pod", "connecting-ratio"), podConnecting/hostConnecting, "x")
	figure.Show(name("service", "throughput-to-pod"), throughput/podThroughput, "x")
	figure.Show(name("service", "latency-to-pod"), latency/podLatency, "x")
	figure.Show(name("service", "connecting-to-pod"), connecting/podConnecting, "x")
	return good
}

func (w *way) measure(ctx context.Context) error {
	for _, one := range []struct {
		what, number string
		into         *[]float64
	}{{"throughput", seconds, &w.throughput}, {"latency", roundTrips, &w.latency}, {"connecting", connections, &w.connecting}} {
		value, err := measure(ctx, w.from, one.what, w.address, one.number)
		if err != nil {
			return err
		}
		*one.into = append(*one.into, value)
	}
	return nil
}

// pair runs a pod on each agent.
func pair(ctx context.Context, c *cluster.Cluster) (near, far *corev1.Pod, err error) {
	ctx, cancel := context.WithTimeout(ctx, cluster.Limit)
	defer cancel()
	pods := c.Client.CoreV1().Pods(cluster.Namespace)
	var made []*corev1.Pod
	for n := 1; n <= 2; n++ {
		pod := cluster.OnNode(cluster.NewPod(fmt.Sprintf("bench-network-%d", n), cluster.Steady), c.Node(n))
		if pod, err = pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return nil, nil, err
		}
		made = append(made, pod)
	}
	for i := range made {
		err = cluster.Poll(ctx, func(ctx context.Context) error {
			if made[i], err = pods.Get(ctx, made[i].Name, metav1.GetOptions{}); err == nil && made[i].Status.Phase != corev1.PodRunning {
				err = errors.New(cluster.Describe(made[i]))
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return made[0], made[1], nil
}

// offer makes a Service of a pod and returns its address.
func offer(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) (string, error) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Spec: corev1.ServiceSpec{
		Selector: pod.Labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(port)}},
	}}
	service, err := c.Client.CoreV1().Services(cluster.Namespace).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return service.Spec.ClusterIP, nil
}

func agentNamespace(c *cluster.Cluster, n int) string {
	return filepath.Join(c.StateDir, "netns", fmt.Sprintf("agent%d", n))
}

// podNamespace finds the network namespace of a pod by the host name in its container's environment.
func podNamespace(pod string) (string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		environment, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // what cannot be read has ended
		if bytes.Contains(append([]byte{0}, environment...), []byte("\x00HOSTNAME="+pod+"\x00")) {
			return filepath.Join("/proc", e.Name(), "ns", "net"), nil
		}
	}
	return "", fmt.Errorf("no process has the host name %s", pod)
}

// inside is this program in a network namespace.
func inside(ctx context.Context, namespace string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + namespace, "--", os.Args[0]}, args...)...)
}

// serveIn starts a server in a network namespace; stop ends it.
func serveIn(ctx context.Context, namespace string) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	command := inside(ctx, namespace, "serve", ":"+strconv.Itoa(port))
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("server in %s: %w", namespace, err)
	}
	return func() {
		cancel()
		_ = command.Wait() // it was killed
	}, nil
}

func measure(ctx context.Context, namespace, what, address, number string) (float64, error) {
	var errs bytes.Buffer
	command := inside(ctx, namespace, what, address, number)
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", what, err, errs.String())
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

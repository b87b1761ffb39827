// Command start measures how long a cluster and its pods take to start: local mode from nothing to ready and to the
// first running pod, then warm pods one after another, then the memory of each process.
//
// It needs root and the bundle (make build mesos runtime images), starts local mode itself and ends it. Each figure is
// one line, "figure NAME VALUE UNIT", with "target <= LIMIT" behind those that must hold; the exit code is 1 when one
// does not.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mesopod/mesopod/messages"
)

const (
	warmTarget  = 3 * time.Second // p50 of warm pods
	podLimit    = 2 * time.Minute // one pod's start; a fault, not a figure
	readyLimit  = 3 * time.Minute
	stopLimit   = 2 * time.Minute
	readyPrefix = "ready in"
)

func main() {
	bundle := flag.String("bundle-dir", "bin/bundle", "folder of the mesopod bundle")
	pods := flag.Int("pods", 30, "number of warm pods")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *bundle, *pods)
	if err == nil {
		err = cold(ctx, *bundle)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-start:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bundle string, pods int) (retErr error) {
	began := time.Now()
	cluster, err := start(ctx, filepath.Join(bundle, "mesopod"))
	if err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, cluster.stop()) }()
	if err := cluster.waitReady(ctx); err != nil {
		return err
	}
	figure("local-ready", time.Since(began).Seconds(), "s")
	client, err := connect(cluster.kubeconfig)
	if err != nil {
		return err
	}
	if _, err := startPod(ctx, client, "first"); err != nil {
		return err
	}
	figure("local-first-pod-running", time.Since(began).Seconds(), "s")

	var took []time.Duration
	for i := range pods {
		one, err := startPod(ctx, client, fmt.Sprintf("warm-%d", i))
		if err != nil {
			return err
		}
		took = append(took, one)
	}
	slices.Sort(took)
	p50, p99 := quantile(took, 0.50), quantile(took, 0.99)
	met := limited("warm-pod-start-p50", p50, warmTarget)
	figure("warm-pod-start-p99", p99.Seconds(), "s")
	figure("warm-pod-start-min", took[0].Seconds(), "s")
	figure("warm-pod-start-max", took[len(took)-1].Seconds(), "s")
	if err := memory(bundle); err != nil {
		return err
	}
	if err := lives(ctx, client); err != nil {
		return err
	}
	if !met {
		return fmt.Errorf("warm-pod-start-p50 is %s, target at most %s", p50, warmTarget)
	}
	return nil
}

func figure(name string, value float64, unit string) {
	fmt.Printf("figure %s %.3f %s\n", name, value, unit)
}

func limited(name string, value, target time.Duration) bool {
	fmt.Printf("figure %s %.3f s target <= %g\n", name, value.Seconds(), target.Seconds())
	return value <= target
}

// quantile is the nearest-rank quantile of sorted values.
func quantile(sorted []time.Duration, q float64) time.Duration {
	rank := int(q*float64(len(sorted)) + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// cluster is local mode as a child process.
type cluster struct {
	command    *exec.Cmd
	lines      *bufio.Scanner
	kubeconfig string
}

func start(ctx context.Context, program string) (*cluster, error) {
	command := exec.Command(program, "local", "--mesos=real")
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = command.Process.Signal(syscall.SIGTERM) })
	return &cluster{command: command, lines: bufio.NewScanner(out)}, nil
}

// waitReady reads what local mode prints until it is ready and has told where its kubeconfig is.
func (c *cluster) waitReady(ctx context.Context) error {
	timer := time.AfterFunc(readyLimit, func() { _ = c.command.Process.Signal(syscall.SIGTERM) })
	defer timer.Stop()
	ready := false
	for c.lines.Scan() {
		line := strings.TrimSpace(c.lines.Text())
		fmt.Println("#", line)
		ready = ready || strings.HasPrefix(line, readyPrefix)
		if path, found := strings.CutPrefix(line, "kubeconfig"); found && ready {
			c.kubeconfig = strings.TrimSpace(path)
			// An unread pipe would block the cluster.
			go func() {
				for c.lines.Scan() {
				}
			}()
			return nil
		}
	}
	return errors.Join(ctx.Err(), c.lines.Err(), errors.New("local mode ended before it was ready"))
}

func (c *cluster) stop() error {
	if err := c.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.AfterFunc(stopLimit, func() { _ = c.command.Process.Kill() })
	defer timer.Stop()
	if err := c.command.Wait(); err != nil {
		return fmt.Errorf("local mode: %w", err)
	}
	return nil
}

func connect(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// startPod creates a pod, waits on a watch until it is Running, deletes it and waits until it is gone. It returns the
// time from the create call to the event that shows it Running.
func startPod(ctx context.Context, client kubernetes.Interface, name string) (time.Duration, error) {
	return startPodOf(ctx, client, podNamed(name))
}

// startPodOf is startPod with a pod that is made already.
func startPodOf(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) (time.Duration, error) {
	name := pod.Name
	ctx, cancel := context.WithTimeout(ctx, podLimit)
	defer cancel()
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	watch, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return 0, err
	}
	defer watch.Stop()
	began := time.Now()
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	took := time.Duration(0)
	for event := range watch.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		switch {
		case !ok:
			return 0, fmt.Errorf("watch of pod %s: %v", name, event.Object)
		case event.Type == "DELETED":
			return took, nil
		case took == 0 && pod.Status.Phase == corev1.PodRunning:
			took = time.Since(began)
			if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return 0, err
			}
		}
	}
	return 0, fmt.Errorf("pod %s did not run and end within %s", name, podLimit)
}

func podNamed(name string) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName:                 messages.DefaultSchedulerName,
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "web", Image: "mesopod.local/web:1", ImagePullPolicy: corev1.PullIfNotPresent}},
		},
	}
}

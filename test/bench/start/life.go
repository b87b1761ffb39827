package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	measure "github.com/mesopod/mesopod/test/bench/figure"
	harness "github.com/mesopod/mesopod/test/cluster"
)

const (
	manyLimit = 5 * time.Minute
	// idleLife is local mode's suicide timeout.
	idleLife    = time.Minute
	adoptTarget = 5.0 // s, with 50 pods
)

// lives measures what comes after a first life of an executor, on the running local cluster: the life of the next one,
// which adopts pods, and the end of an idle one, after which the agent is cold.
func lives(ctx context.Context, client kubernetes.Interface) error {
	b := &lifeBench{Cluster: harness.New(harness.Options{Name: "local"}), good: true}
	b.Client = client
	if err := b.adoption(ctx, 50); err != nil {
		return err
	}
	if err := b.suicide(ctx); err != nil {
		return err
	}
	if !b.good {
		return errors.New("a target of executors' lives does not hold")
	}
	return nil
}

// lifeBench is a cluster under measurement; good is false once a target did not hold.
type lifeBench struct {
	*harness.Cluster
	good bool
}

// atMost prints a figure with a target and a goal, which is 0 for none.
func (b *lifeBench) atMost(name string, value float64, unit string, target, goal float64) {
	b.good = measure.AtMost(name, value, unit, target, goal) && b.good
}

// adoption kills an executor with pods, and waits until the next one's kubelet shows all of them as they were.
func (b *lifeBench) adoption(ctx context.Context, number int) error {
	ctx, cancel := context.WithTimeout(ctx, manyLimit)
	defer cancel()
	pods := b.Client.CoreV1().Pods(metav1.NamespaceDefault)
	mine := metav1.ListOptions{LabelSelector: "bench=adopted"}
	for i := range number {
		pod := podNamed(fmt.Sprintf("adopted-%d", i))
		pod.Labels = map[string]string{"bench": "adopted"}
		pod.Spec.Containers[0].Resources.Requests = harness.Requests("50m", "32Mi")
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	before := map[string]string{}
	if err := harness.Poll(ctx, func(ctx context.Context) error {
		list, err := pods.List(ctx, mine)
		if err != nil {
			return err
		}
		if before = containers(list.Items); len(before) < number {
			return fmt.Errorf("%d of %d pods run", len(before), number)
		}
		return nil
	}); err != nil {
		return err
	}
	executor, err := b.PartPID(b.OfAgent(1), harness.ExecutorWords)
	if err != nil {
		return err
	}
	if err := syscall.Kill(executor, syscall.SIGKILL); err != nil {
		return err
	}
	began := time.Now()
	if err := harness.Poll(ctx, func(ctx context.Context) error {
		list, err := b.kubeletPods(ctx)
		if err != nil {
			return err
		}
		same := 0
		for name, id := range containers(list) {
			if before[name] == id {
				same++
			}
		}
		if same < number {
			return fmt.Errorf("%d of %d pods are adopted", same, number)
		}
		return nil
	}); err != nil {
		return err
	}
	b.atMost(fmt.Sprintf("executor-restart-%d-pods-adopted", number), time.Since(began).Seconds(), "s", adoptTarget, 0)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, mine); err != nil {
		return err
	}
	return harness.Poll(ctx, func(ctx context.Context) error {
		list, err := pods.List(ctx, mine)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(list.Items))
		}
		return err
	})
}

// kubeletPods are the pods as the kubelet itself shows them.
func (b *lifeBench) kubeletPods(ctx context.Context) ([]corev1.Pod, error) {
	data, err := b.Client.CoreV1().RESTClient().Get().Resource("nodes").Name(b.Node(1)).SubResource("proxy").Suffix("pods").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	err = json.Unmarshal(data, &list)
	return list.Items, err
}

// containers are the ids of the running containers by pod.
func containers(pods []corev1.Pod) map[string]string {
	ids := map[string]string{}
	for _, p := range pods {
		if p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Running != nil {
			ids[p.Name] = p.Status.ContainerStatuses[0].ContainerID
		}
	}
	return ids
}

// suicide waits for the end of the idle executor, then starts a pod again, and watches the node all the time: scheduler
// and kubelet hand it to each other without a gap.
func (b *lifeBench) suicide(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, manyLimit)
	defer cancel()
	if err := b.withoutDNS(ctx); err != nil {
		return err
	}
	idle := time.Now()
	gap := make(chan time.Duration, 1)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() { gap <- b.notReady(watching) }()
	if err := harness.Poll(ctx, func(context.Context) error {
		if pid, err := b.PartPID(b.OfAgent(1), harness.KeeperWords); err == nil {
			return fmt.Errorf("keeper %d still runs", pid)
		}
		return nil
	}); err != nil {
		return err
	}
	measure.Show("suicide-beyond-timeout", (time.Since(idle) - idleLife).Seconds(), "s")
	took, err := startPod(ctx, b.Client, "cold")
	if err != nil {
		return err
	}
	b.atMost("pod-after-suicide-running", took.Seconds(), "s", 10, 5)
	stop()
	b.atMost("hand-over-node-not-ready", (<-gap).Seconds(), "s", 0, 0)
	return nil
}

// withoutDNS deletes the cluster's DNS server, a pod that would keep the executor, and waits until it has gone.
func (b *lifeBench) withoutDNS(ctx context.Context) error {
	if err := b.Client.AppsV1().Deployments(metav1.NamespaceSystem).Delete(ctx, "mesopod-dns", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return harness.Poll(ctx, func(ctx context.Context) error {
		list, err := b.Client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods are left in %s", len(list.Items), metav1.NamespaceSystem)
		}
		return err
	})
}

// notReady is how long the node was not Ready, or not there, until ctx ended.
func (b *lifeBench) notReady(ctx context.Context) time.Duration {
	var sum time.Duration
	last := time.Now()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return sum
		case <-ticker.C:
		}
		node, err := b.Client.CoreV1().Nodes().Get(ctx, b.Node(1), metav1.GetOptions{})
		now := time.Now()
		if ctx.Err() == nil && (err != nil || !ready(node)) {
			sum += now.Sub(last)
		}
		last = now
	}
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

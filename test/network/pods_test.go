package network

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// onAgent runs a command in an agent's network namespace.
func onAgent(t *testing.T, n int, args ...string) string {
	t.Helper()
	netns := filepath.Join(suite.StateDir, "netns", fmt.Sprintf("agent%d", n))
	out, err := exec.CommandContext(t.Context(), "nsenter", append([]string{"--net=" + netns, "--"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v on agent %d: %v: %s", args, n, err, out)
	}
	return string(out)
}

// Pods reach pods of all agents under their own addresses, themselves through their Service, nodes reach pods and pods
// reach nodes; each agent's executor has found the way to every other's pods.
func TestPodsReachPods(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	for n := 1; n <= 3; n++ {
		pod := webPod(fmt.Sprintf("reach-%d", n), "reach", suite.Node(n))
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: "shell", Image: cluster.Busybox, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sh", "-c", cluster.Steady},
		})
		suite.Create(t, pod)
	}
	for n := 1; n <= 3; n++ {
		pods = append(pods, waitReady(t, fmt.Sprintf("reach-%d", n)))
	}
	for n := 1; n <= 3; n++ {
		cluster.Eventually(t, fmt.Sprintf("ways of agent %d", n), func(context.Context) error {
			routes := onAgent(t, n, "ip", "route", "show", "proto", "89")
			for other := 1; other <= 3; other++ {
				want := fmt.Sprintf("10.89.%d.0/24 via 10.89.0.%d", other, 10+other)
				if (other != n) != strings.Contains(routes, want) {
					return fmt.Errorf("route %q: %s", want, routes)
				}
			}
			return nil
		})
		for _, pod := range pods {
			answer := onAgent(t, n, "sh", "-c", fmt.Sprintf(`printf 'GET / HTTP/1.0\r\n\r\n' | busybox nc -w 5 %s 8080`, pod.Status.PodIP))
			if !strings.Contains(answer, pod.Name) {
				t.Errorf("agent %d asks pod %s: %q", n, pod.Name, answer)
			}
		}
	}
	for _, from := range pods {
		for _, to := range pods {
			said := suite.Kubectl(t, "exec", from.Name, "-c", "shell", "--", "sh", "-c", fmt.Sprintf(`printf 'GET /caller HTTP/1.0\r\n\r\n' | nc -w 5 %s 8080`, to.Status.PodIP))
			if from != to && !strings.Contains(said, from.Status.PodIP+":") {
				t.Errorf("pod %s sees %s as %q, want %s", to.Name, from.Name, said, from.Status.PodIP)
			}
		}
		// The kubelet of another agent, by its address.
		suite.Kubectl(t, "exec", from.Name, "-c", "shell", "--", "sh", "-c", "nc -w 5 10.89.0.12 10250 </dev/null")
	}
	if mtu := suite.Kubectl(t, "exec", pods[0].Name, "-c", "shell", "--", "cat", "/sys/class/net/eth0/mtu"); strings.TrimSpace(mtu) != "1500" {
		t.Errorf("MTU of a pod is %s", mtu)
	}
}

// A pod reaches itself through its Service.
func TestHairpin(t *testing.T) {
	t.Parallel()
	pod := webPod("alone-1", "alone", suite.Node(3))
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "ask", Image: cluster.Web, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"--ask=http://alone/", "--every=500ms"},
	})
	suite.Create(t, pod)
	createService(t, "alone", nil)
	waitReady(t, "alone-1")
	cluster.Eventually(t, "pod to reach itself", func(ctx context.Context) error {
		log, err := suite.Client.CoreV1().Pods(cluster.Namespace).GetLogs("alone-1", &corev1.PodLogOptions{Container: "ask"}).DoRaw(ctx)
		if err == nil && !strings.Contains(string(log), "ok hello from alone-1") {
			err = fmt.Errorf("log %s", log)
		}
		return err
	})
}

// No address stays taken by a pod that is gone, were it well or failed, ended or deleted in the midst of its start: a batch
// of pods, and a thousand at length (make test-leases).
func TestLeasesEnd(t *testing.T) {
	const batch = 30
	batches := 1
	if os.Getenv("MESOPOD_LONG") != "" {
		batches = 34
	}
	for round := range batches {
		name := func(n int) string { return fmt.Sprintf("lease-%d-%d", round, n) }
		var gone sync.WaitGroup
		for n := range batch {
			pod := cluster.OnNode(cluster.NewPod(name(n), fmt.Sprintf("exit %d", n%2)), suite.Node(1))
			pod.Spec.Containers[0].Resources.Requests = cluster.Requests("10m", "16Mi")
			suite.Create(t, pod)
			if n%3 == 2 { // whatever it is about to do
				gone.Go(func() {
					if err := suite.DeletePod(t.Context(), name(n)); err != nil {
						t.Error(err)
					}
				})
			}
		}
		for n := range batch {
			if n%3 == 2 {
				continue
			}
			suite.WaitPod(t, name(n), "to end", func(p *corev1.Pod) string {
				if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
					return ""
				}
				return string(p.Status.Phase)
			})
		}
		gone.Wait()
		for n := range batch {
			if err := suite.DeletePod(t.Context(), name(n)); err != nil {
				t.Fatal(err)
			}
		}
		nothingStale(t, 1)
	}
}

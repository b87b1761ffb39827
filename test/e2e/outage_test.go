package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stopControlPlane makes the API server hang, as a machine that is cut off would: connections stay, and nobody answers. The
// programs that local mode has started run on, though nobody starts them again meanwhile.
func stopControlPlane(t *testing.T) (resume func()) {
	t.Helper()
	scheduler, err := partPID("", "scheduler", "--kubeconfig=")
	if err != nil {
		t.Fatal(err)
	}
	local, err := parentOf(scheduler)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(local, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume = sync.OnceFunc(func() {
		if err := syscall.Kill(local, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(resume)
	return resume
}

func parentOf(pid int) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The program's name, in brackets, may hold anything.
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/stat is %q", pid, data)
	}
	return strconv.Atoi(fields[1])
}

// steadyPods are running pods with their tasks, and one that ends by itself some time later.
func steadyPods(t *testing.T, prefix string, lifetime time.Duration) (pods []*corev1.Pod, ending *corev1.Pod) {
	t.Helper()
	for _, node := range []string{nodeName, nodeName, "mesopod-agent2"} {
		pod := onNode(newPod(fmt.Sprintf("%s-%d", prefix, len(pods)+1), steady), node)
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		create(t, pod)
		pods = append(pods, pod)
	}
	ending = onNode(newPod(prefix+"-ends", fmt.Sprintf("sleep %d", int(lifetime.Seconds()))), nodeName)
	create(t, ending)
	for i, pod := range pods {
		pods[i] = waitPhase(t, pod.Name, corev1.PodRunning)
		waitTask(t, pods[i], "TASK_RUNNING")
	}
	ending = waitPhase(t, ending.Name, corev1.PodRunning)
	return pods, ending
}

// undisturbed makes sure that no pod was touched, that the cluster goes on, and that nobody was evicted.
func undisturbed(t *testing.T, pods []*corev1.Pod, ended *corev1.Pod) {
	t.Helper()
	waitPhase(t, ended.Name, corev1.PodSucceeded)
	for _, pod := range pods {
		waitPod(t, pod.Name, "to be ready", func(p *corev1.Pod) string {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					return ""
				}
			}
			return "not ready"
		})
		sameContainer(t, pod)
		reasons, err := eventReasons(t.Context(), pod.Name)
		if err != nil {
			t.Error(err)
		}
		for _, reason := range []string{"Killing", "TaintManagerEviction", "Relaunching", "Evicted", "TaskLost", "Failed"} {
			// A control plane that slept finds leases older than they are: an eviction that is taken back is none.
			if note, found := reasons[reason]; found && !strings.HasPrefix(note, "Cancelling deletion of Pod") {
				t.Errorf("event %s on pod %s: %s", reason, pod.Name, note)
			}
		}
	}
	for name := range agentURLs {
		eventually(t, "node "+name+" to be ready", func(ctx context.Context) error {
			node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err == nil && ready(node) != "" {
				err = fmt.Errorf("%s", ready(node))
			}
			return err
		})
	}
	create(t, newPod(pods[0].Name+"-next", steady))
	waitPhase(t, pods[0].Name+"-next", corev1.PodRunning)
}

// The API server does not answer for a minute: pods run on untouched, and what happens to them is told to Mesos at once and to
// Kubernetes later. Nothing is LOST, nobody is evicted.
func TestControlPlaneAway(t *testing.T) {
	pods, ending := steadyPods(t, "unattended", 15*time.Second)
	resume := stopControlPlane(t)
	away := time.After(time.Minute)
	waitTask(t, ending, "TASK_FINISHED")
	<-away
	for _, pod := range pods {
		waitTask(t, pod, "TASK_RUNNING")
	}
	resume()
	undisturbed(t, pods, ending)
}

// API server, agent and executor are away at once: the executor goes on from its ledger and finds its containers, whoever comes
// back first. MESOPOD_LONG=1 makes the outage a minute long (make test-outage).
func TestAllAway(t *testing.T) {
	outage := 20 * time.Second
	if os.Getenv("MESOPOD_LONG") != "" {
		outage = time.Minute
	}
	// It ends after the outage: how a container has ended while its containerd is away nobody knows.
	pods, ending := steadyPods(t, "alone", outage+25*time.Second)
	executor, err := partPID(ofFirst, executorWords)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := partPID("MESOS_HOSTNAME="+nodeName, "mesos-agent")
	if err != nil {
		t.Fatal(err)
	}
	resume := stopControlPlane(t)
	for _, pid := range []int{agent, executor} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(outage) // its length, not a wait for something
	resume()
	undisturbed(t, pods, ending)
	waitTask(t, ending, "TASK_FINISHED")
}

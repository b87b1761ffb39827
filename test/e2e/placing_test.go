package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Three pods that the scheduler finds waiting ride one ACCEPT. It stops the scheduler for a moment, so it is not parallel.
func TestOneAcceptForWaitingPods(t *testing.T) {
	// The agent's executor runs, so its offers are held: the first pod starts it.
	create(t, onNode(newPod("batch-0", steady), nodeName))
	waitPhase(t, "batch-0", corev1.PodRunning)
	scheduler, err := partPID("", "scheduler", "--kubeconfig=")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(scheduler, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := sync.OnceFunc(func() {
		if err := syscall.Kill(scheduler, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	})
	defer resume()
	names := []string{"batch-1", "batch-2", "batch-3"}
	for _, name := range names {
		create(t, onNode(newPod(name, steady), nodeName))
	}
	resume()
	offers := map[string]bool{}
	for _, name := range names {
		pod := waitPhase(t, name, corev1.PodRunning)
		offers[pod.Annotations["k8s.mesosphere.io/offerId"]] = true
	}
	// An offer ends with the ACCEPT that takes it: the same offers mean the same ACCEPT.
	if len(offers) != 1 {
		t.Errorf("the three pods were launched on different offers: %v", offers)
	}
}

// Pods that do not fit while others run there start when those end.
func TestWaitForRoom(t *testing.T) {
	node, err := client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := node.Status.Allocatable.Cpu().MilliValue()
	sized := func(name string, milli int64) *corev1.Pod {
		pod := newPod(name, steady)
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		return onNode(pod, nodeName)
	}
	create(t, sized("filler", all-50))
	waitPhase(t, "filler", corev1.PodRunning)
	names := []string{"patient-1", "patient-2", "patient-3"}
	for _, name := range names {
		create(t, sized(name, all/4))
	}
	for _, name := range names {
		waitPod(t, name, "to wait", func(p *corev1.Pod) string {
			if unscheduled(p) == "" {
				return "no reason yet"
			}
			return ""
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), defaultLimit)
	defer cancel()
	if err := deletePod(ctx, "filler"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		waitPhase(t, name, corev1.PodRunning)
	}
}

// A pod that fits nowhere waits with one readable reason and no task.
func TestFitsNowhere(t *testing.T) {
	t.Parallel()
	pod := newPod("giant", steady)
	pod.Spec.Containers[0].Resources.Requests = requests("1000", "32Mi")
	made := create(t, pod)
	got := waitPod(t, "giant", "to have a reason", func(p *corev1.Pod) string {
		if unscheduled(p) == "" {
			return "no reason yet"
		}
		return ""
	})
	if got.Status.Phase != corev1.PodPending || got.Spec.NodeName != "" {
		t.Errorf("the pod does not wait: %s", describe(got))
	}
	message := unscheduled(got)
	if !strings.Contains(strings.ToLower(message), "cpu") || strings.Contains(message, "\n") {
		t.Errorf("reason is %q: want one line that names the cpus", message)
	}
	if tasks, err := tasksOf(t.Context(), made); err != nil || len(tasks) > 0 {
		t.Errorf("a pod that fits nowhere has tasks %v (%v)", tasks, err)
	}
}

// A pod too large for a launch waits and says why. The API server takes up to 1.5 MiB.
func TestTooLargeToLaunch(t *testing.T) {
	t.Parallel()
	pod := newPod("heavy", steady)
	for i := range 11 {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env,
			corev1.EnvVar{Name: fmt.Sprintf("LARGE_%d", i), Value: strings.Repeat("x", 100<<10)})
	}
	made := create(t, pod)
	got := waitPod(t, "heavy", "to have a reason", func(p *corev1.Pod) string {
		if message := unscheduled(p); !strings.Contains(message, "bytes") {
			return fmt.Sprintf("reason is %q", message)
		}
		return ""
	})
	if got.Status.Phase != corev1.PodPending {
		t.Errorf("the pod does not wait: %s", describe(got))
	}
	if tasks, err := tasksOf(t.Context(), made); err != nil || len(tasks) > 0 {
		t.Errorf("a pod too large to launch has tasks %v (%v)", tasks, err)
	}
}

// A pod of another scheduler is none of our business.
func TestOtherScheduler(t *testing.T) {
	t.Parallel()
	pod := newPod("foreign", steady)
	pod.Spec.SchedulerName = "somebody-else"
	create(t, pod)
	// A pod of ours that was made later is the proof that the scheduler has seen both.
	create(t, newPod("own", steady))
	waitPhase(t, "own", corev1.PodRunning)
	got, err := client.CoreV1().Pods(namespace).Get(t.Context(), "foreign", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.NodeName != "" || len(got.Status.Conditions) > 0 || len(got.Annotations) > 0 {
		t.Errorf("a pod of another scheduler was touched: %s, annotations %v", describe(got), got.Annotations)
	}
}

// A Job completes, and its pod stays until the Job is deleted.
func TestJob(t *testing.T) {
	t.Parallel()
	template := newPod("job", "echo worked")
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: template.Spec}},
	}
	job.Spec.Template.Name = ""
	if _, err := client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		policy := metav1.DeletePropagationForeground
		ctx := context.WithoutCancel(t.Context())
		if err := client.BatchV1().Jobs(namespace).Delete(ctx, "job", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "job to complete", func(ctx context.Context) error {
		got, err := client.BatchV1().Jobs(namespace).Get(ctx, "job", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range got.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v, %d succeeded, %d failed", got.Status.Conditions, got.Status.Succeeded, got.Status.Failed)
	})
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=job"})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodSucceeded {
		t.Fatalf("the job has %d pods, want 1 that succeeded", len(pods.Items))
	}
	waitTask(t, &pods.Items[0], "TASK_FINISHED")
	if got := logs(t, pods.Items[0].Name); got != "worked\n" {
		t.Errorf("log of the job's pod: %q", got)
	}
}

// Each agent is a node like any other (EX-105, EX-107): its attributes are labels, its size is what Mesos says, less the executor.
func TestNode(t *testing.T) {
	t.Parallel()
	var state struct {
		Agents []struct {
			Hostname  string `json:"hostname"`
			Resources struct {
				CPUs float64 `json:"cpus"`
				Mem  float64 `json:"mem"` // MB
			} `json:"resources"`
		} `json:"slaves"`
	}
	if err := get(t.Context(), masterURL+"/master/state", nil, &state); err != nil {
		t.Fatal(err)
	}
	if len(state.Agents) != len(agentURLs) {
		t.Errorf("the master knows %d agents, want %d", len(state.Agents), len(agentURLs))
	}
	for _, agent := range state.Agents {
		node, err := client.CoreV1().Nodes().Get(t.Context(), agent.Hostname, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		number := strings.TrimPrefix(agent.Hostname, "mesopod-agent")
		for key, want := range map[string]string{"rack": "r" + number, "zone": "z" + number, "keys": "1000-1500_2000-2010", "weight": "2.5"} {
			if got := node.Labels["k8s.mesosphere.io/attribute-"+key]; got != want {
				t.Errorf("node %s has label of attribute %s = %q, want %q", agent.Hostname, key, got, want)
			}
		}
		if got, want := node.Status.Allocatable.Cpu().MilliValue(), int64(agent.Resources.CPUs*1000-500); got != want {
			t.Errorf("node has %dm cpus for pods, want %dm of the agent's %g cpus", got, want, agent.Resources.CPUs)
		}
		if got, want := node.Status.Capacity.Memory().Value()>>20, int64(agent.Resources.Mem)-256; got != want {
			t.Errorf("node has %d MiB, want %d of the agent's %g", got, want, agent.Resources.Mem)
		}
	}
}

// The example that the README begins with runs as it stands.
func TestHelloExample(t *testing.T) {
	t.Parallel()
	kubectl(t, "apply", "-f", "../../contrib/examples/hello.yaml")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), defaultLimit)
		defer cancel()
		if err := deletePod(ctx, "hello"); err != nil {
			t.Error(err)
		}
	})
	waitPod(t, "hello", "to be ready", func(p *corev1.Pod) string {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "not ready"
	})
}

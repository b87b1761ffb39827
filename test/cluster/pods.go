package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Namespace is where all pods of tests are.
	Namespace = metav1.NamespaceDefault
	// Busybox has a shell and all applets; Web has a server on port 8080 and nothing else.
	Busybox = "mesopod.local/busybox:1"
	Web     = "mesopod.local/web:1"
	// Steady keeps a shell running that ends at once when it is told to.
	Steady = "trap 'exit 0' TERM; while true; do sleep 1000 & wait $!; done"
)

// NewPod is a pod of one container that runs a shell script, small and never restarted.
func NewPod(name, script string) *corev1.Pod {
	grace := int64(5)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			SchedulerName:                 "mesos",
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "main", Image: Busybox, ImagePullPolicy: corev1.PullIfNotPresent,
				Command:   []string{"sh", "-c", script},
				Resources: corev1.ResourceRequirements{Requests: Requests("50m", "32Mi")},
			}},
		},
	}
}

// OnNode makes a pod choose a node by its label.
func OnNode(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return pod
}

// Requests are amounts of CPU and memory in Kubernetes' notation.
func Requests(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// Create makes a pod, and deletes it when the test is over.
func (c *Cluster) Create(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	made, err := c.Client.CoreV1().Pods(Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create pod %s: %v", pod.Name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Limit)
		defer cancel()
		if err := c.DeletePod(ctx, made.Name); err != nil {
			t.Errorf("delete pod %s: %v", made.Name, err)
		}
	})
	return made
}

// DeletePod deletes a pod and waits until it is gone. One that is gone already is fine.
func (c *Cluster) DeletePod(ctx context.Context, name string) error {
	err := c.Client.CoreV1().Pods(Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return Poll(ctx, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().Pods(Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("pod %s is still there", name)
	})
}

// WaitPod waits until ask, which tells what is still wrong with the pod, tells nothing.
func (c *Cluster) WaitPod(t *testing.T, name, what string, ask func(*corev1.Pod) string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	Eventually(t, "pod "+name+" "+what, func(ctx context.Context) error {
		var err error
		if pod, err = c.Client.CoreV1().Pods(Namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if wrong := ask(pod); wrong != "" {
			return fmt.Errorf("%s (%s)", wrong, Describe(pod))
		}
		return nil
	})
	return pod
}

// WaitPhase waits until a pod is in a phase.
func (c *Cluster) WaitPhase(t *testing.T, name string, phase corev1.PodPhase) *corev1.Pod {
	t.Helper()
	return c.WaitPod(t, name, "to be "+string(phase), func(p *corev1.Pod) string {
		if p.Status.Phase != phase {
			return "phase is " + string(p.Status.Phase)
		}
		return ""
	})
}

// Describe is a pod in one line, for failures.
func Describe(p *corev1.Pod) string {
	text := fmt.Sprintf("phase=%s node=%q", p.Status.Phase, p.Spec.NodeName)
	for _, c := range p.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			text += fmt.Sprintf(" %s=%s(%s: %s)", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.State.Waiting != nil:
			text += fmt.Sprintf(" %s:waiting(%s: %s)", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
		case c.State.Terminated != nil:
			text += fmt.Sprintf(" %s:terminated(%s, exit %d)", c.Name, c.State.Terminated.Reason, c.State.Terminated.ExitCode)
		}
	}
	return text
}

// Unscheduled is the message of PodScheduled=False, empty if there is none.
func Unscheduled(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// Logs are the log of the pod's first container so far.
func (c *Cluster) Logs(t *testing.T, pod string) string {
	t.Helper()
	data, err := c.Client.CoreV1().Pods(Namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("log of pod %s: %v", pod, err)
	}
	return string(data)
}

// WaitLog waits until the log has a line.
func (c *Cluster) WaitLog(t *testing.T, pod, line string) string {
	t.Helper()
	var text string
	Eventually(t, "log of pod "+pod, func(ctx context.Context) error {
		data, err := c.Client.CoreV1().Pods(Namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			return err
		}
		if text = string(data); !strings.Contains("\n"+text, "\n"+line+"\n") {
			return fmt.Errorf("no line %q in %q", line, text)
		}
		return nil
	})
	return text
}

// EventReasons are the reasons of the events about a pod, with all their messages.
func (c *Cluster) EventReasons(ctx context.Context, pod string) (map[string]string, error) {
	list, err := c.Client.CoreV1().Events(Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		return nil, err
	}
	reasons := map[string]string{}
	for _, e := range list.Items {
		reasons[e.Reason] += e.Message + "\n"
	}
	return reasons, nil
}

// Seconds is a Mesos timestamp as time.
func Seconds(s float64) time.Time { return time.Unix(0, int64(s*1e9)) }

package e2e

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
	namespace = metav1.NamespaceDefault
	busybox   = "mesopod.local/busybox:1"
	web       = "mesopod.local/web:1"
	// steady keeps a shell running that ends at once when it is told to.
	steady = "trap 'exit 0' TERM; while true; do sleep 1000 & wait $!; done"
)

// newPod is a pod of one container that runs a shell script, small and never restarted.
func newPod(name, script string) *corev1.Pod {
	grace := int64(5)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			SchedulerName:                 "mesos",
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "main", Image: busybox, ImagePullPolicy: corev1.PullIfNotPresent,
				Command:   []string{"sh", "-c", script},
				Resources: corev1.ResourceRequirements{Requests: requests("50m", "32Mi")},
			}},
		},
	}
}

// onNode makes a pod choose a node by its label.
func onNode(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return pod
}

func requests(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// create makes a pod, and deletes it when the test is over.
func create(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	made, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create pod %s: %v", pod.Name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), defaultLimit)
		defer cancel()
		if err := deletePod(ctx, made.Name); err != nil {
			t.Errorf("delete pod %s: %v", made.Name, err)
		}
	})
	return made
}

// deletePod deletes a pod and waits until it is gone. One that is gone already is fine.
func deletePod(ctx context.Context, name string) error {
	err := client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("pod %s is still there", name)
	})
}

// waitPod waits until ask, which tells what is still wrong with the pod, tells nothing.
func waitPod(t *testing.T, name, what string, ask func(*corev1.Pod) string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, "pod "+name+" "+what, func(ctx context.Context) error {
		var err error
		if pod, err = client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if wrong := ask(pod); wrong != "" {
			return fmt.Errorf("%s (%s)", wrong, describe(pod))
		}
		return nil
	})
	return pod
}

func waitPhase(t *testing.T, name string, phase corev1.PodPhase) *corev1.Pod {
	t.Helper()
	return waitPod(t, name, "to be "+string(phase), func(p *corev1.Pod) string {
		if p.Status.Phase != phase {
			return "phase is " + string(p.Status.Phase)
		}
		return ""
	})
}

// describe is a pod in one line, for failures.
func describe(p *corev1.Pod) string {
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

// unscheduled is the message of PodScheduled=False, empty if there is none.
func unscheduled(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// logs are the log of the pod's first container so far.
func logs(t *testing.T, pod string) string {
	t.Helper()
	data, err := client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("log of pod %s: %v", pod, err)
	}
	return string(data)
}

// waitLog waits until the log has a line.
func waitLog(t *testing.T, pod, line string) string {
	t.Helper()
	var text string
	eventually(t, "log of pod "+pod, func(ctx context.Context) error {
		data, err := client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
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

// eventReasons are the reasons of the events about a pod, with all their messages.
func eventReasons(ctx context.Context, pod string) (map[string]string, error) {
	list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		return nil, err
	}
	reasons := map[string]string{}
	for _, e := range list.Items {
		reasons[e.Reason] += e.Message + "\n"
	}
	return reasons, nil
}

// seconds is a Mesos timestamp as time.
func seconds(s float64) time.Time { return time.Unix(0, int64(s*1e9)) }

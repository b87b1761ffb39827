package network

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// asker is a pod that asks a URL again and again, by a new look-up and a new connection each time.
func asker(name, url, node string) *corev1.Pod {
	pod := cluster.OnNode(cluster.NewPod(name, ""), node)
	c := &pod.Spec.Containers[0]
	c.Image, c.Command, c.Args = cluster.Web, nil, []string{"--ask=" + url, "--every=20ms"}
	return pod
}

// answers are those that an asker has logged so far, and the failures among them.
func answers(t *testing.T, name string) (lines []string, failed []string) {
	t.Helper()
	for line := range strings.Lines(suite.Logs(t, name)) {
		lines = append(lines, strings.TrimSpace(line))
		if strings.Contains(line, "failed ") && !strings.HasPrefix(line, "asked ") {
			failed = append(failed, strings.TrimSpace(line))
		}
	}
	return lines, failed
}

// waitAnswers waits for as many answers more.
func waitAnswers(t *testing.T, name string, more int) {
	t.Helper()
	before, _ := answers(t, name)
	cluster.Eventually(t, fmt.Sprintf("%d more answers for %s", more, name), func(context.Context) error {
		if now, _ := answers(t, name); len(now) < len(before)+more {
			return fmt.Errorf("%d answers, %d before", len(now), len(before))
		}
		return nil
	})
}

// waitServed waits until an asker's last answers were all good: from then on the rules of its node know the Service. It
// returns the failures before.
func waitServed(t *testing.T, name string) (early []string) {
	t.Helper()
	const row = 20
	cluster.Eventually(t, fmt.Sprintf("%d good answers in a row for %s", row, name), func(context.Context) error {
		lines, failed := answers(t, name)
		early = failed
		if len(lines) < row {
			return fmt.Errorf("%d answers", len(lines))
		}
		if last := lines[len(lines)-row:]; len(failed) > 0 && slices.Contains(last, failed[len(failed)-1]) {
			return fmt.Errorf("the last of %d failures: %s", len(failed), failed[len(failed)-1])
		}
		return nil
	})
	return early
}

// An executor that is killed takes no connection with it: one that was open goes on, through its Service, and new ones
// come about while the executor is away and after it is back. Ways and rules are the next executor's.
func TestConnectionsOutliveExecutor(t *testing.T) {
	suite.Create(t, webPod("steady-1", "steady", suite.Node(2)))
	suite.Create(t, cluster.OnNode(cluster.NewPod("echo", "exec nc -ll -p 8080 -e cat"), suite.Node(2)))
	createService(t, "steady", nil)
	address := createService(t, "echo", nil).Spec.ClusterIP
	ready := waitReady(t, "steady-1")
	waitReady(t, "echo")
	// One connection for the pod's whole life: what it writes comes back, or its log ends.
	suite.Create(t, cluster.OnNode(cluster.NewPod("steady-open", fmt.Sprintf(
		`until echo up | nc -w 1 %[1]s 80 | grep -q up; do sleep 0.2; done
		n=0; while true; do n=$((n+1)); echo line $n; sleep 0.2; done | nc %[1]s 80`, address)), suite.Node(1)))
	suite.Create(t, asker("steady-ask", "http://steady/", suite.Node(1)))
	suite.WaitLog(t, "steady-open", "line 5")
	early := waitServed(t, "steady-ask")
	before, err := suite.Client.CoreV1().Pods(cluster.Namespace).Get(t.Context(), "steady-open", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	waitOld(t, metav1.NamespaceDefault, "app=steady")
	waitOld(t, metav1.NamespaceSystem, "k8s-app=kube-dns")
	suite.KillPart(t, suite.OfAgent(1), cluster.ExecutorWords)
	suite.KillPart(t, suite.OfAgent(2), cluster.ExecutorWords)
	cluster.Eventually(t, "logs to be readable again", func(ctx context.Context) error {
		_, err := suite.Client.CoreV1().Pods(cluster.Namespace).GetLogs("steady-ask", &corev1.PodLogOptions{}).DoRaw(ctx)
		return err
	})
	waitAnswers(t, "steady-ask", 50)
	waitAnswers(t, "steady-open", 5)
	if _, failed := answers(t, "steady-ask"); len(failed) > len(early) {
		t.Errorf("requests failed while executors were away: %v", failed[len(early):])
	}
	suite.SameContainer(t, before)
	if after := waitReady(t, "steady-1"); !readySince(after).Equal(readySince(ready)) {
		t.Errorf("pod steady-1 was not ready all the time: it is since %v, was since %v", readySince(after), readySince(ready))
	}
}

// waitOld waits until pods' containers are such that a kubelet which starts now takes them for older than itself: it leaves
// those ready, and has others not ready until it has probed them. Upstream draws the line at 10 s (kubeletRestartGracePeriod).
func waitOld(t *testing.T, namespace, labels string) {
	t.Helper()
	cluster.Eventually(t, "pods "+labels+" to be old", func(ctx context.Context) error {
		list, err := suite.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels})
		if err != nil {
			return err
		}
		for _, pod := range list.Items {
			for _, c := range pod.Status.ContainerStatuses {
				if c.State.Running == nil || time.Since(c.State.Running.StartedAt.Time) <= 10*time.Second {
					return fmt.Errorf("pod %s has a young container", pod.Name)
				}
			}
		}
		return nil
	})
}

func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

package network

import (
	"context"
	"fmt"
	"strings"
	"testing"

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

// An executor that is killed takes no connection with it: one that was open goes on, through its Service, and new ones
// come about while the executor is away and after it is back. Ways and rules are the next executor's.
func TestConnectionsOutliveExecutor(t *testing.T) {
	suite.Create(t, webPod("steady-1", "steady", suite.Node(2)))
	suite.Create(t, cluster.OnNode(cluster.NewPod("echo", "while true; do nc -l -p 8080 -e cat; done"), suite.Node(2)))
	createService(t, "steady", nil)
	address := createService(t, "echo", nil).Spec.ClusterIP
	waitReady(t, "steady-1")
	waitReady(t, "echo")
	// One connection for the pod's whole life: what it writes comes back, or its log ends.
	suite.Create(t, cluster.OnNode(cluster.NewPod("steady-open", fmt.Sprintf(
		`until echo up | nc -w 1 %[1]s 80 | grep -q up; do sleep 0.2; done
		n=0; while true; do n=$((n+1)); echo line $n; sleep 0.2; done | nc %[1]s 80`, address)), suite.Node(1)))
	suite.Create(t, asker("steady-ask", "http://steady/", suite.Node(1)))
	suite.WaitLog(t, "steady-open", "line 5")
	waitAnswers(t, "steady-ask", 20)
	_, early := answers(t, "steady-ask") // before the rules knew the Service
	before, err := suite.Client.CoreV1().Pods(cluster.Namespace).Get(t.Context(), "steady-open", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	suite.KillPart(t, suite.OfAgent(1), cluster.ExecutorWords)
	suite.KillPart(t, suite.OfAgent(2), cluster.ExecutorWords)
	cluster.Eventually(t, "logs to be readable again", func(ctx context.Context) error {
		_, err := suite.Client.CoreV1().Pods(cluster.Namespace).GetLogs("steady-ask", &corev1.PodLogOptions{}).DoRaw(ctx)
		return err
	})
	waitAnswers(t, "steady-ask", 50)
	waitAnswers(t, "steady-open", 5)
	if _, failed := answers(t, "steady-ask"); len(failed) > len(early) {
		t.Errorf("requests failed while executors were away: %v", failed)
	}
	suite.SameContainer(t, before)
}

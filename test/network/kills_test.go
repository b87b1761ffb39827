package network

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// killOnAgent kills a part of the second agent, and waits until another has its place.
func killOnAgent(t *testing.T, part string) {
	t.Helper()
	variable, words := suite.OfAgent(2), map[string]string{
		"executor": cluster.ExecutorWords, "keeper": cluster.KeeperWords, "containerd": "/containerd --config", "agent": "mesos-agent",
	}[part]
	if part == "agent" {
		variable = "MESOS_HOSTNAME=" + suite.Node(2)
	}
	suite.KillPart(t, variable, words)
}

// While pods ask a Service of pods on two agents, the parts of one of these die. Of containerd's and the agent's own death
// nobody sees anything (TestConnectionsOutliveExecutor is about the executor's). A keeper takes its pods with it: they come
// back under the same names, those of the other agent answer all the time, and once the rules know no request is lost. What
// the dead had, links, leases, rules for its host port, is gone, and so are no ways to the other agents.
func TestTrafficThroughKills(t *testing.T) {
	server := webPod("through-1", "through", suite.Node(2))
	server.Spec.RestartPolicy = corev1.RestartPolicyAlways
	server.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 31030}}
	suite.Create(t, server)
	suite.Create(t, webPod("through-2", "through", suite.Node(3)))
	createService(t, "through", nil)
	before := waitReady(t, "through-1")
	waitReady(t, "through-2")
	suite.Create(t, asker("through-ask", "http://through/", suite.Node(1)))
	suite.WaitPhase(t, "through-ask", corev1.PodRunning)
	served := func(pod string) {
		t.Helper()
		told := func() int { return strings.Count(suite.Logs(t, "through-ask"), "ok hello from "+pod+"\n") }
		first := told()
		cluster.Eventually(t, pod+" to answer", func(context.Context) error {
			if told() < first+5 {
				return fmt.Errorf("%d answers, %d before", told(), first)
			}
			return nil
		})
	}
	served("through-1")
	served("through-2")
	waitGreeting(t, "10.89.0.12:31030", "through-1")

	for _, part := range []string{"containerd", "agent"} {
		_, early := answers(t, "through-ask")
		killOnAgent(t, part)
		waitAnswers(t, "through-ask", 50)
		served("through-1")
		if _, failed := answers(t, "through-ask"); len(failed) > len(early) {
			t.Errorf("requests failed when the %s was killed: %v", part, failed[len(early):])
		}
		suite.SameContainer(t, before)
	}

	killKeeper(t)
	served("through-2")
	after := suite.WaitPod(t, "through-1", "to run in another container", func(p *corev1.Pod) string {
		for _, c := range p.Status.ContainerStatuses {
			if c.Ready && c.ContainerID != before.Status.ContainerStatuses[0].ContainerID && p.UID == before.UID {
				return ""
			}
		}
		return "it does not"
	})
	served("through-1")
	_, early := answers(t, "through-ask")
	waitAnswers(t, "through-ask", 100)
	if _, failed := answers(t, "through-ask"); len(failed) > len(early) {
		t.Errorf("requests failed after the endpoints had moved: %v", failed[len(early):])
	}
	waitGreeting(t, "10.89.0.12:31030", "through-1")
	nothingStale(t, 2)
	for _, other := range []int{1, 3} {
		if routes := onAgent(t, 2, "ip", "route", "show", "proto", "89"); !strings.Contains(routes, fmt.Sprintf("10.89.%d.0/24 via", other)) {
			t.Errorf("agent 2 has no way to agent %d: %s", other, routes)
		}
	}
	if rules := onAgent(t, 2, "iptables-save", "-t", "nat"); strings.Count(rules, "31030") == 0 ||
		strings.Contains(rules, before.Status.PodIP+":8080") && before.Status.PodIP != after.Status.PodIP {
		t.Errorf("rules for host ports of a sandbox that is gone:\n%s", rules)
	}
}

// killKeeper kills the second agent's keeper, and with it its pods.
func killKeeper(t *testing.T) {
	t.Helper()
	pid, err := suite.PartPID(suite.OfAgent(2), cluster.KeeperWords)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// nothingStale: an agent has a link, a lease and rules for each running pod, and none more.
func nothingStale(t *testing.T, n int) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("links, leases and rules of agent %d to be those of its pods", n), func(ctx context.Context) error {
		list, err := suite.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + suite.Node(n)})
		if err != nil {
			return err
		}
		running := map[string]bool{}
		ports := 0
		for _, pod := range list.Items {
			if pod.Spec.HostNetwork || pod.Status.Phase != corev1.PodRunning {
				continue
			}
			running[pod.Status.PodIP] = true
			for _, port := range pod.Spec.Containers[0].Ports {
				if port.HostPort > 0 {
					ports++
				}
			}
		}
		leases, err := os.ReadDir(filepath.Join(suite.StateDir, fmt.Sprintf("a%d", n), "cni", "ipam", "mesopod"))
		if err != nil {
			return err
		}
		taken := 0
		for _, lease := range leases {
			if !strings.HasPrefix(lease.Name(), "10.") {
				continue
			}
			if taken++; !running[lease.Name()] {
				return fmt.Errorf("address %s is taken by nobody; running are %v", lease.Name(), running)
			}
		}
		links := strings.Count(onAgent(t, n, "ip", "-o", "link", "show", "master", "mpod0"), "\n")
		chains := strings.Count(onAgent(t, n, "iptables-save", "-t", "nat"), "\n:CNI-DN-")
		if taken != len(running) || links != len(running) || chains != ports {
			return fmt.Errorf("%d leases, %d links, %d chains for host ports; %d pods run, %d have a host port", taken, links, chains, len(running), ports)
		}
		return nil
	})
}

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// All agents that were asked for are ready nodes, each with an address of its own, from the moment the cluster says so.
func TestAgentsAreNodes(t *testing.T) {
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := map[string]bool{}
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready[n.Name] = true
			}
		}
	}
	if len(ready) != len(agentURLs) || len(nodes.Items) != len(agentURLs) {
		t.Errorf("%d nodes, ready are %v, want %d", len(nodes.Items), ready, len(agentURLs))
	}
	for name := range agentURLs {
		if !ready[name] {
			t.Errorf("node %s is not ready", name)
		}
	}
}

// apart makes pods with a label keep off each other's agent.
func apart(pod *corev1.Pod, label string) *corev1.Pod {
	pod.Labels["apart"] = label
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"apart": label}},
			TopologyKey:   corev1.LabelHostname,
		}},
	}}
	return pod
}

// Pods that may not be together go to two agents, and run there as tasks of those agents; one more waits.
func TestAntiAffinity(t *testing.T) {
	t.Parallel()
	names := []string{"apart-1", "apart-2"}
	for _, name := range names {
		create(t, apart(newPod(name, steady), "x"))
	}
	on := map[string]string{}
	for _, name := range names {
		pod := waitPhase(t, name, corev1.PodRunning)
		waitTask(t, pod, "TASK_RUNNING")
		if other, taken := on[pod.Spec.NodeName]; taken {
			t.Errorf("pods %s and %s are both on %s", other, name, pod.Spec.NodeName)
		}
		on[pod.Spec.NodeName] = name
	}
	create(t, apart(newPod("apart-3", steady), "x"))
	waitPod(t, "apart-3", "to wait for an agent of its own", func(p *corev1.Pod) string {
		if message := unscheduled(p); !strings.Contains(message, "anti-affinity") {
			return fmt.Sprintf("reason is %q", message)
		}
		return ""
	})
}

// An agent's attribute is a label of its node, by which a pod chooses it.
func TestNodeSelectorOnAttribute(t *testing.T) {
	t.Parallel()
	for rack, want := range map[string]string{"r1": "mesopod-agent1", "r2": "mesopod-agent2"} {
		pod := newPod("rack-"+rack, steady)
		pod.Spec.NodeSelector = map[string]string{"k8s.mesosphere.io/attribute-rack": rack}
		create(t, pod)
		if got := waitPhase(t, pod.Name, corev1.PodRunning); got.Spec.NodeName != want {
			t.Errorf("pod that wants rack %s is on %s, want %s", rack, got.Spec.NodeName, want)
		}
	}
	pod := newPod("rack-none", steady)
	pod.Spec.NodeSelector = map[string]string{"k8s.mesosphere.io/attribute-rack": "r99"}
	create(t, pod)
	waitPod(t, pod.Name, "to wait", func(p *corev1.Pod) string {
		if unscheduled(p) == "" {
			return "no reason yet"
		}
		return ""
	})
}

// A pod reaches a pod of another agent by its address, and each pod's address is in its agent's own range.
func TestPodsReachOtherAgents(t *testing.T) {
	t.Parallel()
	server := onNode(newPod("far-server", ""), "mesopod-agent2")
	server.Spec.Containers[0].Image, server.Spec.Containers[0].Command = web, nil
	create(t, server)
	create(t, onNode(newPod("far-client", steady), "mesopod-agent1"))
	served := waitPhase(t, server.Name, corev1.PodRunning)
	asking := waitPhase(t, "far-client", corev1.PodRunning)
	for _, one := range []struct {
		pod   *corev1.Pod
		pods  string
		agent string
	}{{asking, "10.89.1.0/24", "10.89.0.11"}, {served, "10.89.2.0/24", "10.89.0.12"}} {
		address, err := netip.ParseAddr(one.pod.Status.PodIP)
		if err != nil || !netip.MustParsePrefix(one.pods).Contains(address) || one.pod.Status.HostIP != one.agent {
			t.Errorf("pod %s has address %q on host %q, want one of %s on %s", one.pod.Name, one.pod.Status.PodIP, one.pod.Status.HostIP, one.pods, one.agent)
		}
	}
	got := kubectl(t, "exec", "far-client", "--", "sh", "-c",
		fmt.Sprintf(`printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 10 %s 8080`, served.Status.PodIP))
	if !strings.Contains(got, server.Name) {
		t.Errorf("a pod of another agent answers %q", got)
	}
}

// kubectl reaches the kubelet of every agent: the port is the same, the address is not.
func TestLogsFromEveryAgent(t *testing.T) {
	t.Parallel()
	for node := range agentURLs {
		name := "says-" + node
		create(t, onNode(newPod(name, "echo "+name), node))
		waitPhase(t, name, corev1.PodSucceeded)
		if got := waitLog(t, name, name); got != name+"\n" {
			t.Errorf("log of pod %s: %q", name, got)
		}
	}
}

// One agent that dies does not touch the pods of another, nor keep new ones from it.
func TestOtherAgentKilled(t *testing.T) {
	create(t, onNode(newPod("bystander", "echo up; "+steady), "mesopod-agent1"))
	before := waitPhase(t, "bystander", corev1.PodRunning)
	waitTask(t, before, "TASK_RUNNING")
	killPart(t, "MESOS_HOSTNAME=mesopod-agent2", "mesos-agent")
	create(t, onNode(newPod("meanwhile", steady), "mesopod-agent1"))
	waitPhase(t, "meanwhile", corev1.PodRunning)
	sameContainer(t, before)
	// The other comes back under the same name.
	eventually(t, "agent to be registered again", func(ctx context.Context) error {
		var state struct {
			Agents []struct {
				Hostname string `json:"hostname"`
				Active   bool   `json:"active"`
			} `json:"slaves"`
		}
		if err := get(ctx, masterURL+"/master/state", nil, &state); err != nil {
			return err
		}
		for _, agent := range state.Agents {
			if agent.Hostname == "mesopod-agent2" && agent.Active {
				return nil
			}
		}
		return fmt.Errorf("agents are %v", state.Agents)
	})
	create(t, onNode(newPod("returned", steady), "mesopod-agent2"))
	waitPhase(t, "returned", corev1.PodRunning)
}

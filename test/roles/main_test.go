// Package roles holds the tests of a framework with several roles, on agents whose resources are reserved for them.
package roles

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/cluster"
)

// Each agent has as much for prod as for dev, and a little for anybody.
const agentResources = "cpus(prod):2;mem(prod):800;cpus(dev):2;mem(dev):800;cpus:1;mem:400;disk:1000;ports:[31000-31100]"

var suite *cluster.Cluster

func TestMain(m *testing.M) {
	suite = cluster.New(cluster.Options{
		Name: "roles", Agents: 2, AgentResources: agentResources,
		Flags: []string{"--scheduler-flag=roles=*,prod,prod/web,dev,batch", "--scheduler-flag=agent-rules=@hostname!=elsewhere", "--scheduler-flag=default-roles=*"},
	})
	os.Exit(cluster.Suite{Cluster: suite}.Run(m))
}

// allow gives the tests' namespace roles until the test is over.
func allow(t *testing.T, roles string) {
	t.Helper()
	annotate := func(ctx context.Context, value any) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{messages.AnnotationRoles: value}}})
		if err != nil {
			return err
		}
		_, err = suite.Client.CoreV1().Namespaces().Patch(ctx, cluster.Namespace, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	if err := annotate(t.Context(), roles); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := annotate(context.WithoutCancel(t.Context()), nil); err != nil {
			t.Error(err)
		}
	})
}

// podOf asks for amounts on an agent.
func podOf(name string, agent int, cpus, mem string) *corev1.Pod {
	pod := cluster.OnNode(cluster.NewPod(name, cluster.Steady), suite.Node(agent))
	pod.Spec.Containers[0].Resources.Requests = cluster.Requests(cpus, mem)
	return pod
}

// running starts a pod and returns it with its task.
func running(t *testing.T, pod *corev1.Pod) (*corev1.Pod, cluster.Task) {
	t.Helper()
	suite.Create(t, pod)
	now := suite.WaitPhase(t, pod.Name, corev1.PodRunning)
	return now, suite.WaitTask(t, now, "TASK_RUNNING")
}

// isIn fails the test unless all that the task has is allocated to the role, and the pod says so.
func isIn(t *testing.T, pod *corev1.Pod, task cluster.Task, role string) {
	t.Helper()
	if got := pod.Annotations[messages.AnnotationRole]; got != role {
		t.Errorf("pod %s says that it is in role %q, want %q", pod.Name, got, role)
	}
	for _, r := range task.Resources {
		if r.AllocationInfo.Role != role {
			t.Errorf("%s of pod %s is allocated to role %s, want %s", r.Name, pod.Name, r.AllocationInfo.Role, role)
		}
	}
}

// operate makes a call of the master's operator API.
func operate(ctx context.Context, call string, result any) error {
	return cluster.Request(ctx, "POST", cluster.MasterURL+"/api/v1", []byte(call), result)
}

// agentID is an agent's id in Mesos.
func agentID(t *testing.T, agent int) string {
	t.Helper()
	node, err := suite.Client.CoreV1().Nodes().Get(t.Context(), suite.Node(agent), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node.Annotations[messages.AnnotationAgentID]
}

// waitUnscheduled waits until the pod's condition tells a reason.
func waitUnscheduled(t *testing.T, pod string, has func(string) bool) string {
	t.Helper()
	var told string
	suite.WaitPod(t, pod, "to be told why it waits", func(p *corev1.Pod) string {
		if told = cluster.Unscheduled(p); has(told) {
			return ""
		}
		return fmt.Sprintf("it is told %q", told)
	})
	return told
}

package gpus

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// needing is a pod for the agents that act pods out, which asks for gpus.
func needing(name, number string) *corev1.Pod {
	pod := cluster.NewPod(name, "nothing runs this")
	pod.Spec.NodeSelector = map[string]string{"k8s.mesosphere.io/attribute-simulated": "true"}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{gpus: resource.MustParse(number)}}
	return pod
}

// An agent's gpus are an extended resource of its node, and what a pod asks for of it its task takes of the agent. A pod that asks for
// more than is left waits and says why; it runs when another one has given its gpus back.
func TestGPUs(t *testing.T) {
	cluster.Eventually(t, "the nodes to show their gpus", func(ctx context.Context) error {
		nodes, err := suite.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil && len(nodes.Items) < 3 {
			err = fmt.Errorf("%d nodes", len(nodes.Items))
		}
		for i := 0; err == nil && i < len(nodes.Items); i++ {
			node := &nodes.Items[i]
			size, has := node.Status.Capacity[gpus], node.Status.Allocatable[gpus]
			if size.Value() != 2 || has.Value() != 2 {
				err = fmt.Errorf("node %s has %s, allocatable %s", node.Name, size.String(), has.String())
			}
		}
		return err
	})

	// Two agents, two gpus each.
	var pods []*corev1.Pod
	for _, name := range []string{"both", "one", "other"} {
		number := "1"
		if name == "both" {
			number = "2"
		}
		pod := suite.Create(t, needing(name, number))
		task := suite.WaitTask(t, pod, "TASK_RUNNING")
		if got := fmt.Sprint(task.Amount("gpus")); got != number {
			t.Errorf("the task of pod %s has %s gpus, want %s", name, got, number)
		}
		pods = append(pods, suite.WaitPhase(t, name, corev1.PodRunning))
	}
	if pods[0].Spec.NodeName == pods[1].Spec.NodeName || pods[1].Spec.NodeName != pods[2].Spec.NodeName {
		t.Errorf("pods are on %s, %s, %s: an agent has two gpus", pods[0].Spec.NodeName, pods[1].Spec.NodeName, pods[2].Spec.NodeName)
	}

	suite.Create(t, needing("late", "1"))
	suite.WaitPod(t, "late", "to say what it waits for", func(p *corev1.Pod) string {
		if why := cluster.Unscheduled(p); !strings.Contains(why, "gpu") {
			return why
		}
		return ""
	})
	if err := suite.DeletePod(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	suite.WaitPhase(t, "late", corev1.PodRunning)
}

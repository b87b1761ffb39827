package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ready tells what keeps a node from being used; "" when it is Ready.
func ready(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return fmt.Sprintf("node %s is not ready", node.Name)
}

// A Node that a person deletes under a running pod is made anew: the pod is not touched, and the next one runs there.
func TestNodeDeleted(t *testing.T) {
	create(t, onNode(newPod("orphaned", "echo up; "+steady), nodeName))
	before := waitPhase(t, "orphaned", corev1.PodRunning)
	waitTask(t, before, "TASK_RUNNING")
	was, err := client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node to be made anew", func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case node.UID == was.UID:
			return errors.New("it is the old one")
		case ready(node) != "":
			return errors.New(ready(node))
		}
		return nil
	})
	create(t, onNode(newPod("newborn", steady), nodeName))
	waitPhase(t, "newborn", corev1.PodRunning)
	sameContainer(t, before)
}

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/cluster"
)

// operator makes a call of Mesos' operator API that has no answer.
func operator(ctx context.Context, t *testing.T, kind, field, agentID string, more map[string]any) {
	t.Helper()
	body := map[string]any{"agent_id": map[string]string{"value": agentID}}
	for name, value := range more {
		body[name] = value
	}
	call, err := json.Marshal(map[string]any{"type": kind, field: body})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Request(ctx, http.MethodPost, masterURL+"/api/v1", call, nil); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
}

// When an operator drains an agent, the time that the drain leaves belongs to the disruption budgets: a pod whose budget has
// no room runs on, as a task that is being killed, and goes as soon as there is room, with its own grace period (EX-76, EX-79).
func TestDrainAgent(t *testing.T) {
	const name = "drained"
	pod := onNode(newPod(name, steady), nodeName)
	pod.Labels["budget"] = name
	created := create(t, pod)
	budgets := client.PolicyV1().PodDisruptionBudgets(namespace)
	one := intstr.FromInt32(1)
	if _, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"budget": name}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := waitPhase(t, name, corev1.PodRunning)
	waitTask(t, before, "TASK_RUNNING")
	eventually(t, "the budget to count the pod", func(ctx context.Context) error {
		got, err := budgets.Get(ctx, name, metav1.GetOptions{})
		if err == nil && got.Status.CurrentHealthy != 1 {
			err = errors.New("it does not yet")
		}
		return err
	})

	agentID := before.Annotations["k8s.mesosphere.io/slaveId"]
	operator(t.Context(), t, "DRAIN_AGENT", "drain_agent", agentID, map[string]any{"max_grace_period": map[string]int64{"seconds": 600}})
	reactivate := func() {
		operator(context.WithoutCancel(t.Context()), t, "REACTIVATE_AGENT", "reactivate_agent", agentID, nil)
	}
	t.Cleanup(func() {
		if t.Failed() {
			reactivate()
		}
	})
	waitTask(t, before, "TASK_KILLING")
	held, err := client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || held.UID != created.UID || held.DeletionTimestamp != nil ||
		held.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("a pod that its budget holds: %v, error %v", held, err)
	}

	if err := budgets.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitTask(t, before, "TASK_KILLED")
	drainTaint := func(want bool) (node *corev1.Node) {
		t.Helper()
		eventually(t, fmt.Sprintf("the taint of drained agents to be there: %t", want), func(ctx context.Context) (err error) {
			node, err = client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
			if err == nil && want != slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == messages.TaintAgentDraining }) {
				err = fmt.Errorf("taints are %v", node.Spec.Taints)
			}
			return err
		})
		return node
	}
	if drainTaint(true).Spec.Unschedulable {
		t.Error("the scheduler cordoned the node")
	}
	// The agent drains as long as an executor lives there, whatever the master says: ours has no more to do and ends.
	eventually(t, "the executor to end", func(context.Context) error {
		if pid, err := suite.PartPID(ofFirst, executorWords); err == nil {
			return fmt.Errorf("it runs as %d", pid)
		}
		return nil
	})
	reactivate()
	// What comes before the agent has noticed the executor's end is dropped and launched anew.
	create(t, onNode(newPod("after-drain", steady), nodeName))
	waitPhase(t, "after-drain", corev1.PodRunning)

	// Without a grace the executor hears of no drain. The scheduler does, and asks it to end when it has no task left.
	// A cordon of the operator's own outlives the drain, whose taint does not.
	suite.Kubectl(t, "cordon", nodeName)
	uncordon := func(ctx context.Context) {
		if out, err := suite.TryKubectl(ctx, "uncordon", nodeName); err != nil {
			t.Errorf("uncordon: %v: %s", err, out)
		}
	}
	t.Cleanup(func() { uncordon(context.WithoutCancel(t.Context())) })
	stderr := filepath.Join(suite.Sandbox(t, nodeName), "stderr")
	operator(t.Context(), t, "DRAIN_AGENT", "drain_agent", agentID, nil)
	eventually(t, "the executor to end as the scheduler asks", func(context.Context) error {
		log, err := os.ReadFile(stderr)
		if err == nil && !strings.Contains(string(log), `end executor code=0 reason="the scheduler asked an idle executor to end"`) {
			err = errors.New("it does not say so")
		}
		return err
	})
	drainTaint(true)
	reactivate()
	if !drainTaint(false).Spec.Unschedulable {
		t.Error("the operator's cordon is gone")
	}
	uncordon(t.Context())
	// The tests that follow want an agent that runs pods at the first try.
	create(t, onNode(newPod("after-second-drain", steady), nodeName))
	waitPhase(t, "after-second-drain", corev1.PodRunning)
}

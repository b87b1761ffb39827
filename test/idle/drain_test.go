package idle

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

const master = cluster.BridgeIP + ":5050"

// verb runs a verb of mesopod for an administrator.
func verb(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--kubeconfig="+suite.Kubeconfig(), "--master="+master)
	out, err := exec.CommandContext(ctx, cluster.Mesopod(), args...).CombinedOutput()
	return string(out), err
}

// A drained agent is empty, its pods are on the other one, and nothing is placed there until it is brought back: cordon,
// eviction, DRAIN_AGENT and REACTIVATE_AGENT.
func TestDrain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), cluster.Limit)
	defer cancel()
	labels := map[string]string{"app": "moves"}
	template := cluster.NewPod("moves", cluster.Steady)
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{cold}}}}}}}}
	one := int32(1)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "moves"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template.Spec}}}
	sets := suite.Client.AppsV1().ReplicaSets(cluster.Namespace)
	if _, err := sets.Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sets.Delete(context.WithoutCancel(t.Context()), "moves", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	runningOn := func(node string) {
		t.Helper()
		cluster.Eventually(t, "pod to run on "+node, func(ctx context.Context) error {
			pods, err := suite.Client.CoreV1().Pods(cluster.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=moves"})
			if err != nil {
				return err
			}
			for i := range pods.Items {
				if p := &pods.Items[i]; p.Spec.NodeName == node && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
					return nil
				}
			}
			return fmt.Errorf("%d pods, none runs there", len(pods.Items))
		})
	}
	runningOn(cold)
	out, err := verb(ctx, "drain", cold, "--max-grace-period=10s")
	if err != nil || !strings.Contains(out, "is gone, 0 to go") || !strings.Contains(out, "is drained") {
		t.Fatalf("drain: %v: %s", err, out)
	}
	runningOn("mesopod-agent1")
	suite.Create(t, cluster.OnNode(cluster.NewPod("kept-out", cluster.Steady), cold))
	suite.WaitPod(t, "kept-out", "to wait for the drained agent", func(p *corev1.Pod) string {
		if cluster.Unscheduled(p) == "" {
			return "no reason yet"
		}
		return ""
	})
	if out, err := verb(ctx, "undrain", cold); err != nil {
		t.Fatalf("undrain: %v: %s", err, out)
	}
	suite.WaitPhase(t, "kept-out", corev1.PodRunning)
	// What is no agent is not drained.
	var exit *exec.ExitError
	if out, err := verb(ctx, "drain", "no-such-node"); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, "no-such-node") {
		t.Errorf("drain of an unknown node: %v: %s", err, out)
	}
}

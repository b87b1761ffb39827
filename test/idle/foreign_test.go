package idle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/cluster"
)

// apply does what an administrator does with a manifest.
func apply(ctx context.Context, file string) error {
	out, err := exec.CommandContext(ctx, cluster.Mesopod(), "kubectl", "--kubeconfig", suite.Kubeconfig(), "apply", "-f", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl apply -f %s: %w: %s", file, err, out)
	}
	return nil
}

// startKubeScheduler runs a stock kube-scheduler of our own version.
func startKubeScheduler(t *testing.T) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kube-scheduler")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "k8s.io/kubernetes/cmd/kube-scheduler")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build kube-scheduler: %v: %s", err, out)
	}
	var log bytes.Buffer // written by the process until Wait returns
	cmd := exec.CommandContext(t.Context(), program, "--kubeconfig="+suite.Kubeconfig(), "--leader-elect=false", "--secure-port=0")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the end of the test's context may have done so
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("kube-scheduler says:\n%s", log.String())
		}
	})
}

// Another scheduler of the cluster sees our Nodes and leaves them alone; pods of ours get there all the same, with no word in
// their specs.
func TestForeignScheduler(t *testing.T) {
	nodes, err := suite.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		if taints := nodes.Items[i].Spec.Taints; len(taints) != 1 || taints[0].Key != messages.TaintMesos || taints[0].Effect != corev1.TaintEffectNoSchedule {
			t.Errorf("node %s has taints %v", nodes.Items[i].Name, taints)
		}
	}
	startKubeScheduler(t)
	foreign := cluster.NewPod("foreign", cluster.Steady)
	foreign.Spec.SchedulerName = corev1.DefaultSchedulerName
	suite.Create(t, foreign)
	waiting := suite.WaitPod(t, "foreign", "to be refused by kube-scheduler", func(p *corev1.Pod) string {
		if message := cluster.Unscheduled(p); !strings.Contains(message, "taint") || !strings.Contains(message, "0/2") {
			return fmt.Sprintf("reason is %q", message)
		}
		return ""
	})
	if waiting.Spec.NodeName != "" {
		t.Errorf("the foreign pod is on node %s", waiting.Spec.NodeName)
	}
	suite.Create(t, cluster.NewPod("ours", cluster.Steady))
	if ours := suite.WaitPhase(t, "ours", corev1.PodRunning); !tolerates(ours) {
		t.Errorf("pod of ours has tolerations %v", ours.Spec.Tolerations)
	}
	if tasks, err := suite.TasksOf(t.Context(), waiting); err != nil || len(tasks) > 0 {
		t.Error(errors.Join(err, fmt.Errorf("the foreign pod has tasks %v", tasks)))
	}
}

// Package idle holds the tests of agents whose executors have ended, and of clusters that another scheduler is part of.
package idle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/cluster"
)

// suicideTimeout is how long executors stay without pods here.
const suicideTimeout = 6 * time.Second

var suite *cluster.Cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mesopod-idle")
	if err != nil {
		fmt.Fprintln(os.Stderr, "idle:", err)
		return 1
	}
	defer os.RemoveAll(dir) // a leftover is in the folder for such
	file := filepath.Join(dir, "executor.yaml")
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\nsuicideTimeout: %s\n", messages.ExecutorConfigAPIVersion, messages.ExecutorConfigKind, suicideTimeout)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "idle:", err)
		return 1
	}
	suite = cluster.New(cluster.Options{Name: "idle", Agents: 2, Flags: []string{
		"--scheduler-flag=executor-config=" + file, "--scheduler-flag=taint-nodes=true", "--scheduler-flag=leader-elect=true",
	}})
	return cluster.Suite{Cluster: suite, Started: letOursThrough}.Run(m)
}

// letOursThrough applies the policy that gives our pods the toleration, and waits until it does.
func letOursThrough() {
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Limit)
	defer cancel()
	err := apply(ctx, "../../contrib/manifests/other-scheduler.yaml")
	if err == nil {
		err = cluster.Poll(ctx, func(ctx context.Context) error {
			dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			pod, err := suite.Client.CoreV1().Pods(cluster.Namespace).Create(ctx, cluster.NewPod("dry", cluster.Steady), dry)
			if err == nil && !tolerates(pod) {
				err = fmt.Errorf("pod has tolerations %v", pod.Spec.Tolerations)
			}
			return err
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "idle: let pods of ours through:", err) // every test will tell the same
	}
}

func tolerates(pod *corev1.Pod) bool {
	for _, t := range pod.Spec.Tolerations {
		if t.Key == messages.TaintMesos {
			return true
		}
	}
	return false
}

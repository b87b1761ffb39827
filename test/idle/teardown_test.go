package idle

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

func storedFramework(ctx context.Context) (string, error) {
	stored, err := suite.Client.CoreV1().ConfigMaps("mesopod-system").Get(ctx, "mesopod-scheduler", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return stored.Data["frameworkID"], nil
}

// Only who repeats the framework's id tears it down. Then its tasks end and its Nodes go; the scheduler ends with a reason, and
// its supervisor starts it as a new framework, which uses the agents as the first one did.
func TestTeardown(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), cluster.Limit)
	defer cancel()
	suite.Create(t, cluster.OnNode(cluster.NewPod("doomed", cluster.Steady), cold))
	pod := suite.WaitPhase(t, "doomed", corev1.PodRunning)
	suite.WaitTask(t, pod, "TASK_RUNNING")
	before, err := storedFramework(ctx)
	if err != nil {
		t.Fatal(err)
	}
	old, err := suite.Client.CoreV1().Nodes().Get(ctx, cold, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	out, err := verb(ctx, "teardown", "--confirm=something-else")
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, "default/doomed") || !strings.Contains(out, before) {
		t.Errorf("teardown without the id: %v: %s", err, out)
	}
	suite.SameContainer(t, pod)

	if out, err := verb(ctx, "teardown", "--confirm="+before); err != nil {
		t.Fatalf("teardown: %v: %s", err, out)
	}
	cluster.Eventually(t, "pod to go with its framework", func(ctx context.Context) error {
		got, err := suite.Client.CoreV1().Pods(cluster.Namespace).Get(ctx, "doomed", metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && got.UID != pod.UID:
			return nil
		case err == nil && got.Status.Phase != corev1.PodRunning: // its shell ended well
			return nil
		}
		return errors.Join(err, errors.New(cluster.Describe(got)))
	})
	cluster.Eventually(t, "a new framework with new nodes", func(ctx context.Context) error {
		id, err := storedFramework(ctx)
		if err == nil && (id == "" || id == before) {
			err = fmt.Errorf("framework is %q", id)
		}
		node, err2 := suite.Client.CoreV1().Nodes().Get(ctx, cold, metav1.GetOptions{})
		if err2 == nil && node.UID == old.UID {
			err2 = errors.New("the node is the old one")
		}
		return errors.Join(err, err2)
	})
	// On the other agent: the old executor, whose last updates nobody acknowledges, stays on its own for its shutdown grace.
	suite.Create(t, cluster.OnNode(cluster.NewPod("reborn", cluster.Steady), "mesopod-agent1"))
	suite.WaitPhase(t, "reborn", corev1.PodRunning)
}

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// ask gets a page of the first agent's executor from within that agent's network namespace, by the loopback device.
func ask(ctx context.Context, path string) (string, error) {
	pid, err := suite.PartPID(ofFirst, executorWords)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", pid), "curl", "-sS", "--fail-with-body",
		"http://127.0.0.1:10247"+path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

// An executor with a pod is ready, and tells of its task, of what happened with its reason, and in numbers. The kubelet's own
// port, behind its authorization, has the numbers too.
func TestStatus(t *testing.T) {
	pod := create(t, onNode(newPod("watched", steady), nodeName))
	waitPhase(t, pod.Name, corev1.PodRunning)
	waitTask(t, pod, "TASK_RUNNING")
	eventually(t, "the executor to tell of the pod", func(ctx context.Context) error {
		for path, parts := range map[string][]string{
			"/readyz":  {"ok"},
			"/livez":   {"ok"},
			"/":        {"default/watched", "the kubelet shows the pod Running", "<html"},
			"/state":   {`"name": "watched"`, `"state": "Running"`, `"why": "launch accepted, not seen before"`},
			"/metrics": {`mesopod_executor_tasks{state="Running"}`, "mesopod_executor_agent_subscribed 1", "mesopod_executor_launch_duration_seconds_count", "kubelet_running_pods"},
		} {
			text, err := ask(ctx, path)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			for _, part := range parts {
				if !strings.Contains(text, part) {
					return fmt.Errorf("%s lacks %q", path, part)
				}
			}
		}
		return nil
	})
	if text := kubectl(t, "get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy/metrics"); !strings.Contains(text, "mesopod_executor_kubelet_pods") {
		t.Error("the kubelet's port lacks the executor's series")
	}
}

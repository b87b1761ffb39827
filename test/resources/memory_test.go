package resources

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// neighbours are pods of each class of service, which must not notice what others do.
func neighbours(t *testing.T, name string) []*corev1.Pod {
	t.Helper()
	guaranteed := cluster.NewPod(name+"-guaranteed", cluster.Steady)
	guaranteed.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: cluster.Requests("200m", "32Mi")}
	burstable := cluster.NewPod(name+"-burstable", cluster.Steady)
	burstable.Spec.Containers[0].Resources.Limits = cluster.Requests("500m", "64Mi")
	var pods []*corev1.Pod
	for _, pod := range []*corev1.Pod{guaranteed, burstable} {
		suite.Create(t, pod)
	}
	for _, pod := range []*corev1.Pod{guaranteed, burstable} {
		running := suite.WaitPhase(t, pod.Name, corev1.PodRunning)
		suite.WaitTask(t, running, "TASK_RUNNING")
		pods = append(pods, running)
	}
	return pods
}

// Small pods with limits stay, though all of them together may have less memory than kubelets like to keep free: theirs
// looks every 10 s.
func TestSmallPodsStay(t *testing.T) {
	pods := neighbours(t, "small")
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		for _, before := range pods {
			now, err := suite.Client.CoreV1().Pods(cluster.Namespace).Get(ctx, before.Name, metav1.GetOptions{})
			if err == nil && now.Status.Phase != corev1.PodRunning {
				t.Errorf("pod %s: %s: %s %s", now.Name, cluster.Describe(now), now.Status.Reason, now.Status.Message)
				return nil
			}
		}
		return errors.New("all run")
	})
	if err == nil {
		t.Error("a pod did not stay")
	}
	for _, pod := range pods {
		suite.SameContainer(t, pod)
	}
}

// hog is a pod that takes 2 GB of memory at once.
func hog(name, limit string) *corev1.Pod {
	// dd makes a buffer of one block, and fills it.
	pod := cluster.NewPod(name, "exec dd if=/dev/zero of=/dev/null bs=2047M count=1")
	if limit != "" {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: cluster.Requests("1", limit)[corev1.ResourceMemory]}
	}
	return pod
}

// A pod that takes more memory than its limit, and one without a limit that takes more than all pods may have, are killed
// alone. Kubernetes and Mesos both tell why (EX-58); the neighbours and the executor do not notice.
func TestOutOfMemory(t *testing.T) {
	others := neighbours(t, "oom")
	// It has asked for what it has, so it is not the one to be killed, though it is as large.
	bulk := cluster.NewPod("oom-bulk", "dd if=/dev/zero bs=1900M count=1 | { head -c 1; echo; "+cluster.Steady+"; }")
	bulk.Spec.Containers[0].Resources.Requests = cluster.Requests("50m", "2000Mi")
	suite.Create(t, bulk)
	suite.WaitTask(t, suite.WaitPhase(t, bulk.Name, corev1.PodRunning), "TASK_RUNNING")
	suite.WaitLog(t, bulk.Name, "\x00") // it has its memory
	others = append(others, suite.WaitPhase(t, bulk.Name, corev1.PodRunning))
	before := theExecutor(t)
	for _, pod := range []*corev1.Pod{hog("oom-limit", "64Mi"), hog("oom-node", "")} {
		suite.Create(t, pod)
		failed := suite.WaitPhase(t, pod.Name, corev1.PodFailed)
		ended := failed.Status.ContainerStatuses[0].State.Terminated
		if ended == nil || ended.Reason != "OOMKilled" || ended.ExitCode != 137 {
			t.Errorf("pod %s: %s, want OOMKilled with exit code 137", pod.Name, cluster.Describe(failed))
		}
		if got := suite.Kubectl(t, "get", "pod", pod.Name); !strings.Contains(got, "OOMKilled") {
			t.Errorf("kubectl get pod shows\n%s", got)
		}
		status := suite.WaitTask(t, failed, "TASK_FAILED").Last()
		if status.Reason != "REASON_CONTAINER_LIMITATION_MEMORY" || !strings.Contains(status.Message, "OOMKilled") {
			t.Errorf("Mesos tells %s: %q", status.Reason, status.Message)
		}
		for _, other := range others {
			suite.SameContainer(t, other)
		}
		before.unchanged(t)
	}
}

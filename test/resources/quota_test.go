package resources

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// Pods with CPU limits end one by one, and nothing else does. Where Mesos has quotas it shrinks the container's at each
// end; were that refused by the kernel, because of a pod that is not quite gone, Mesos would destroy the container.
func TestPodsWithLimitsEnd(t *testing.T) {
	pods := int32(20)
	if long() {
		pods = 100
	}
	others := neighbours(t, "ends")
	before := theExecutor(t)
	// Each has a larger limit than what is left when the others are gone: its end is refused until its cgroup is gone.
	one := cluster.NewPod("ends", fmt.Sprintf("sleep $((3 + JOB_COMPLETION_INDEX %% %d))", max(4, pods/5)))
	one.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: cluster.Requests("100m", "32Mi"), Limits: cluster.Requests("2", "32Mi")}
	indexed, none := batchv1.IndexedCompletion, int32(0)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "ends"}, Spec: batchv1.JobSpec{
		Completions: &pods, Parallelism: &pods, CompletionMode: &indexed, BackoffLimit: &none,
		Template: corev1.PodTemplateSpec{Spec: one.Spec},
	}}
	jobs := suite.Client.BatchV1().Jobs(cluster.Namespace)
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteJob(t, "ends") })
	for range 3 { // a hundred pods may take longer than one thing
		if waitJob(t, "ends", pods) {
			break
		}
	}
	list, err := suite.Client.CoreV1().Pods(cluster.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=ends"})
	if err != nil || len(list.Items) != int(pods) {
		t.Fatalf("the job has %d pods (%v), want %d", len(list.Items), err, pods)
	}
	for i := range list.Items {
		suite.WaitTask(t, &list.Items[i], "TASK_FINISHED")
	}
	for _, other := range others {
		suite.SameContainer(t, other)
	}
	before.unchanged(t)
	// Mesos' own quota is the executor's and the neighbours' now: 0.5 and 0.2 and 0.5 cores. Mesos sets it in both cases,
	// since all tasks have limits.
	if quota := before.cgroupValue(t, "cpu", "", "cpu.cfs_quota_us"); quota != 120_000 {
		t.Errorf("the container's quota is %d µs, want 120000: this test would prove nothing", quota)
	}
}

// waitJob waits for a Job's pods to succeed; a failed one fails the test.
func waitJob(t *testing.T, name string, pods int32) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.Limit)
	defer cancel()
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		job, err := suite.Client.BatchV1().Jobs(cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if job.Status.Failed > 0 {
			t.Fatalf("%d pods of the job failed, %d succeeded", job.Status.Failed, job.Status.Succeeded)
		}
		if job.Status.Succeeded < pods {
			return fmt.Errorf("%d of %d pods have succeeded", job.Status.Succeeded, pods)
		}
		return nil
	})
	t.Logf("job %s: %v", name, err)
	return err == nil
}

func deleteJob(t *testing.T, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cluster.Limit)
	defer cancel()
	foreground := metav1.DeletePropagationForeground
	jobs := suite.Client.BatchV1().Jobs(cluster.Namespace)
	err := jobs.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground})
	if err == nil {
		err = cluster.Poll(ctx, func(ctx context.Context) error {
			list, err := suite.Client.CoreV1().Pods(cluster.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + name})
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d pods are left", len(list.Items))
			}
			return err
		})
	}
	if err != nil {
		t.Errorf("delete job %s: %v", name, err)
	}
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const taskAnnotation = "k8s.mesosphere.io/taskId"

// A pod with a preset nodeName never reaches kube-scheduler, and runs as a task all the same: EX-25 to EX-32.
func TestPresetNodeName(t *testing.T) {
	pod := newPod("preset", "echo up; "+steady)
	pod.Spec.NodeName = nodeName
	create(t, pod)
	running := waitPhase(t, "preset", corev1.PodRunning)
	task := waitTask(t, running, "TASK_RUNNING")
	if got := running.Annotations[taskAnnotation]; got != string(running.UID)+".1" || got != task.TaskID.Value {
		t.Errorf("annotation of the task is %q, the task is %s", got, task.TaskID.Value)
	}
}

// One on a node that nobody has says what it waits for.
func TestPresetNodeNameUnknown(t *testing.T) {
	t.Parallel()
	pod := newPod("nowhere", steady)
	pod.Spec.NodeName = "no-such-agent"
	create(t, pod)
	eventually(t, "event on pod nowhere", func(ctx context.Context) error {
		reasons, err := eventReasons(ctx, "nowhere")
		if err == nil && !strings.Contains(reasons["FailedScheduling"], "cannot start on node no-such-agent yet") {
			err = fmt.Errorf("events are %v", reasons)
		}
		return err
	})
	// No kubelet will ever finish it.
	grace := int64(0)
	if err := client.CoreV1().Pods(namespace).Delete(t.Context(), "nowhere", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Error(err)
	}
}

// DaemonSets reach all agents, idle ones too, by node affinity, through kube-scheduler as everywhere.
func TestDaemonSet(t *testing.T) {
	labels := map[string]string{"app": "everywhere"}
	pod := newPod("everywhere", steady)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "everywhere"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
	}}
	if _, err := client.AppsV1().DaemonSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteSet(t, "everywhere", "app=everywhere") })
	eventually(t, "daemon set to be ready", func(ctx context.Context) error {
		got, err := client.AppsV1().DaemonSets(namespace).Get(ctx, "everywhere", metav1.GetOptions{})
		want := int32(len(agentURLs))
		if err == nil && (got.Status.NumberReady != want || got.Status.DesiredNumberScheduled != want) {
			err = fmt.Errorf("%d of %d are ready", got.Status.NumberReady, got.Status.DesiredNumberScheduled)
		}
		return err
	})
}

func deleteSet(t *testing.T, name, selector string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), defaultLimit)
	defer cancel()
	err := client.AppsV1().DaemonSets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err == nil {
		err = poll(ctx, func(ctx context.Context) error {
			pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
			if err == nil && len(pods.Items) > 0 {
				err = fmt.Errorf("%d pods are left", len(pods.Items))
			}
			return err
		})
	}
	if err != nil {
		t.Errorf("delete daemon set %s: %v", name, err)
	}
}

// The keeper dies, and with it the executor and all containers: bound pods are started anew on the agent, with the same
// UID as the next attempt; one that was being deleted goes; a finished pod of a Job stays as it is.
func TestRelaunch(t *testing.T) {
	finished := finishedJob(t)
	phoenix := onNode(newPod("phoenix", "echo up; "+steady), nodeName)
	phoenix.Spec.RestartPolicy = corev1.RestartPolicyAlways
	stubborn := onNode(newPod("stubborn", "trap '' TERM; while true; do sleep 1; done"), nodeName)
	grace := int64(600)
	stubborn.Spec.TerminationGracePeriodSeconds = &grace
	create(t, phoenix)
	create(t, stubborn)
	before := waitPhase(t, "phoenix", corev1.PodRunning)
	waitTask(t, before, "TASK_RUNNING")
	waitPhase(t, "stubborn", corev1.PodRunning)
	if err := client.CoreV1().Pods(namespace).Delete(t.Context(), "stubborn", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	keeper, err := partPID(ofFirst, keeperWords)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	after := waitPod(t, "phoenix", "to run anew", func(p *corev1.Pod) string {
		if got := p.Annotations[taskAnnotation]; got != string(before.UID)+".2" {
			return "task is " + got
		}
		if p.Status.Phase != corev1.PodRunning || len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Running == nil {
			return "not running"
		}
		if p.Status.ContainerStatuses[0].ContainerID == before.Status.ContainerStatuses[0].ContainerID {
			return "status is of the old container"
		}
		return ""
	})
	if after.UID != before.UID || after.Spec.NodeName != before.Spec.NodeName {
		t.Errorf("pod %s on %s became %s on %s", before.UID, before.Spec.NodeName, after.UID, after.Spec.NodeName)
	}
	eventually(t, "second task to run", func(ctx context.Context) error {
		tasks, err := tasksOf(ctx, after)
		for _, one := range tasks {
			if one.TaskID.Value == string(after.UID)+".2" && one.State == "TASK_RUNNING" {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("tasks are %v", tasks))
	})
	eventually(t, "pod stubborn to go", func(ctx context.Context) error {
		_, err := client.CoreV1().Pods(namespace).Get(ctx, "stubborn", metav1.GetOptions{})
		if err == nil {
			return errors.New("it is still there")
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	still, err := client.CoreV1().Pods(namespace).Get(t.Context(), finished.Name, metav1.GetOptions{})
	if err != nil || still.UID != finished.UID || still.Status.Phase != corev1.PodSucceeded {
		t.Errorf("the finished pod of the job is %v (%v), want it as it was", still, err)
	}
}

// finishedJob is the pod of a Job, once it has succeeded.
func finishedJob(t *testing.T) *corev1.Pod {
	t.Helper()
	backoff := int32(0)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once"}, Spec: batchv1.JobSpec{
		BackoffLimit: &backoff, Template: corev1.PodTemplateSpec{Spec: newPod("once", "echo done").Spec}}}
	if _, err := client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		background := metav1.DeletePropagationBackground
		if err := client.BatchV1().Jobs(namespace).Delete(context.WithoutCancel(t.Context()), "once", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			t.Error(err)
		}
	})
	var finished *corev1.Pod
	eventually(t, "job to finish", func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "job-name=once"})
		if err == nil && (len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodSucceeded) {
			err = fmt.Errorf("%d pods, none has succeeded", len(pods.Items))
		}
		if err == nil {
			finished = &pods.Items[0]
		}
		return err
	})
	return finished
}

// A scheduler with other flags launches beside the executor that its predecessor started: the running ExecutorInfo is
// repeated exactly, or Mesos would refuse the task.
func TestSchedulerWithOtherFlags(t *testing.T) {
	create(t, onNode(newPod("anchor", "echo up; "+steady), nodeName))
	waitPhase(t, "anchor", corev1.PodRunning)
	first, err := partPID("", "scheduler", "--kubeconfig=")
	if err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", first))
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	// While the first one stands still the second one takes the framework over; nobody starts a third.
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			_ = syscall.Kill(first, syscall.SIGCONT) // it may have been ended meanwhile
		}
	}
	defer resume()
	second := exec.Command(args[0], append(args[1:], "--executor-mem=288", "--executor-cpus=0.6")...)
	log := &output{}
	second.Stdout, second.Stderr = io.Discard, log
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		_ = second.Process.Signal(syscall.SIGTERM) // its exit code is that of a signal or 0
		_ = second.Wait()
		if t.Failed() {
			t.Logf("the second scheduler says:\n%s", log)
		}
	}
	defer stop()
	create(t, onNode(newPod("beside", steady), nodeName))
	pod := waitPhase(t, "beside", corev1.PodRunning)
	waitTask(t, pod, "TASK_RUNNING")
	stop()
	resume()
	// The first one, or its successor, goes on.
	create(t, onNode(newPod("afterwards", steady), nodeName))
	waitPhase(t, "afterwards", corev1.PodRunning)
}

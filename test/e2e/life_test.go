package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/messages"
)

// A pod starts, and Kubernetes and Mesos tell the same about it: EX-9, EX-12, EX-33, EX-51.
func TestRunning(t *testing.T) {
	t.Parallel()
	create(t, newPod("running", "echo up; "+steady))
	pod := waitPhase(t, "running", corev1.PodRunning)
	task := waitTask(t, pod, "TASK_RUNNING")
	if pod.Status.PodIP == "" || !slices.Equal(task.IPs(), []string{pod.Status.PodIP}) {
		t.Errorf("pod IP is %q, the task's %v", pod.Status.PodIP, task.IPs())
	}
	if task.Name != "running.default.pod" || task.TaskID.Value != string(pod.UID)+".1" {
		t.Errorf("task is %q with id %s, want running.default.pod with id %s.1", task.Name, task.TaskID.Value, pod.UID)
	}
	if agentURLs[pod.Spec.NodeName] == "" {
		t.Errorf("pod is on node %q, which is no agent", pod.Spec.NodeName)
	}
	for key, want := range map[string]string{"bindingHost": pod.Spec.NodeName, "taskId": task.TaskID.Value, "slaveId": "", "offerId": "", "executorId": ""} {
		if got := pod.Annotations["k8s.mesosphere.io/"+key]; got == "" || want != "" && got != want {
			t.Errorf("annotation %s = %q, want %q", key, got, want)
		}
	}
	if len(task.Labels.Labels) == 0 {
		t.Error("the task has no labels")
	}
	if got := task.Last().Message; got != "pod-running:running_default" {
		t.Errorf("message of TASK_RUNNING = %q", got)
	}
}

// What people do with a running pod works with a stock kubectl.
func TestLogsExecPortForward(t *testing.T) {
	t.Parallel()
	pod := newPod("people", "")
	pod.Spec.Containers[0].Image, pod.Spec.Containers[0].Command = web, nil
	create(t, pod)
	waitPhase(t, "people", corev1.PodRunning)

	if got := kubectl(t, "logs", "people"); !strings.Contains(got, "serving on") {
		t.Errorf("kubectl logs: %q", got)
	}
	// The web image has a server and nothing else, so exec is tried on a shell.
	create(t, newPod("shell", "echo inside >/tmp/f; "+steady))
	waitPhase(t, "shell", corev1.PodRunning)
	if got := kubectl(t, "exec", "shell", "--", "sh", "-c", "hostname; cat /tmp/f"); got != "shell\ninside\n" {
		t.Errorf("kubectl exec: %q", got)
	}
	cmd := exec.CommandContext(t.Context(), mesopod(), "kubectl", "--kubeconfig", kubeconfig(), "exec", "shell", "--", "sh", "-c", "exit 7")
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("kubectl exec of a program that exits with 7: %v", err)
	}
	if got := throughPortForward(t, "people", 8080, "/"); !strings.Contains(got, "people") {
		t.Errorf("the pod answers %q through a forwarded port", got)
	}
}

// throughPortForward asks a pod over `kubectl port-forward`.
func throughPortForward(t *testing.T, pod string, port int, path string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, mesopod(), "kubectl", "--kubeconfig", kubeconfig(), "port-forward", pod, fmt.Sprintf(":%d", port))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("kubectl port-forward said nothing: %v", err)
	}
	local := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	answer, err := http.Get("http://" + local + path)
	if err != nil {
		t.Fatalf("ask %s: %v", local, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := bufio.NewReader(answer.Body).ReadString('\n')
	if err != nil && text == "" {
		t.Fatal(err)
	}
	return text
}

// Exit code 0 is TASK_FINISHED; the pod stays: EX-57, EX-66.
func TestFinished(t *testing.T) {
	t.Parallel()
	create(t, newPod("finished", "echo done"))
	pod := waitPhase(t, "finished", corev1.PodSucceeded)
	waitTask(t, pod, "TASK_FINISHED")
	if got := waitLog(t, "finished", "done"); got != "done\n" {
		t.Errorf("log of a finished pod: %q", got)
	}
	// It is there as long as nobody deletes it.
	after, err := client.CoreV1().Pods(namespace).Get(t.Context(), "finished", metav1.GetOptions{})
	if err != nil || after.DeletionTimestamp != nil || after.Status.Phase != corev1.PodSucceeded {
		t.Errorf("a finished pod did not stay: %v, %s", err, describe(after))
	}
}

// Exit code 3 is TASK_FAILED with a message for people: EX-58.
func TestFailed(t *testing.T) {
	t.Parallel()
	create(t, newPod("failed", "exit 3"))
	pod := waitPhase(t, "failed", corev1.PodFailed)
	message := waitTask(t, pod, "TASK_FAILED").Last().Message
	for _, part := range []string{"pod-failed", "main", "Error", "3"} {
		if !strings.Contains(message, part) {
			t.Errorf("message of TASK_FAILED is %q, it lacks %q", message, part)
		}
	}
}

// TASK_KILLED comes only after the containers are gone, and they have their grace: EX-68, EX-70.
func TestDeleted(t *testing.T) {
	t.Parallel()
	pod := newPod("deleted", "trap 'sleep 2; exit 0' TERM; echo up; while true; do sleep 1000 & wait $!; done")
	grace := int64(20)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	create(t, pod)
	pod = waitPhase(t, "deleted", corev1.PodRunning)
	waitTask(t, pod, "TASK_RUNNING")
	waitLog(t, "deleted", "up")
	if len(podProcesses(t, pod)) == 0 {
		t.Fatal("found no process of a running pod: this test would prove nothing")
	}
	began := time.Now()
	if err := client.CoreV1().Pods(namespace).Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	killed := waitTask(t, pod, "TASK_KILLED")
	if left := podProcesses(t, pod); len(left) > 0 {
		t.Errorf("the task is TASK_KILLED while processes %v of the pod run", left)
	}
	took := seconds(killed.Last().Timestamp).Sub(began)
	if took < 1500*time.Millisecond || took > 15*time.Second {
		t.Errorf("TASK_KILLED came after %s; the container needs 2 s after SIGTERM", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), defaultLimit)
	defer cancel()
	if err := deletePod(ctx, "deleted"); err != nil {
		t.Error(err)
	}
}

// podProcesses lists the processes in the pod's cgroups.
func podProcesses(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	var pids []string
	for _, pattern := range []string{"/sys/fs/cgroup/*/mesopod/*/*/kubepods/pod%s/*/cgroup.procs", "/sys/fs/cgroup/*/mesopod/*/*/kubepods/*/pod%s/*/cgroup.procs"} {
		files, err := filepath.Glob(fmt.Sprintf(pattern, pod.UID))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				continue // gone meanwhile
			}
			pids = append(pids, strings.Fields(string(data))...)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// A pod whose image is not to be had waits and says why; it can be deleted: EX-60.
func TestImageMissing(t *testing.T) {
	t.Parallel()
	pod := newPod("noimage", steady)
	pod.Spec.Containers[0].Image = "mesopod.local/missing:1"
	create(t, pod)
	pod = waitPod(t, "noimage", "to say that its image is missing", func(p *corev1.Pod) string {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
			return "container is not waiting"
		}
		if why := p.Status.ContainerStatuses[0].State.Waiting.Reason; why != "ErrImagePull" && why != "ImagePullBackOff" {
			return "container waits for " + why
		}
		return ""
	})
	if pod.Status.Phase != corev1.PodPending {
		t.Errorf("phase is %s, want Pending", pod.Status.Phase)
	}
	eventually(t, "events", func(ctx context.Context) error {
		reasons, err := eventReasons(ctx, "noimage")
		if err == nil && !strings.Contains(reasons["Failed"], "missing:1") {
			err = fmt.Errorf("no event Failed that names the image: %v", reasons)
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), defaultLimit)
	defer cancel()
	if err := deletePod(ctx, "noimage"); err != nil {
		t.Fatal(err)
	}
	waitTask(t, pod, "TASK_KILLED")
}

// A container that fails again and again is the kubelet's business: the task runs on, and its status tells how often and why.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	pod := newPod("crashing", "sleep 1; exit 1")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	create(t, pod)
	pod = waitPod(t, "crashing", "to be restarted twice", func(p *corev1.Pod) string {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount < 2 {
			return "fewer than 2 restarts"
		}
		return ""
	})
	waitTask(t, pod, "TASK_RUNNING")
	eventually(t, "Mesos to tell of the restarts", func(ctx context.Context) error {
		tasks, err := suite.TasksOf(ctx, pod)
		if err != nil {
			return err
		}
		labels := map[string]string{}
		for _, task := range tasks {
			for _, l := range task.Last().Labels.Labels {
				labels[l.Key] = l.Value
			}
		}
		if n, err := strconv.Atoi(labels[messages.StatusLabelRestarts]); err != nil || n < 2 || labels[messages.StatusLabelLastExit] != "main: Error, exit code 1" {
			return fmt.Errorf("labels of the status: %v", labels)
		}
		return nil
	})
}

// The log in the sandbox, read through Mesos, is the log that kubectl shows.
func TestSandboxLog(t *testing.T) {
	t.Parallel()
	create(t, newPod("logged", "for i in $(seq 1 200); do echo line $i; done; echo end; "+steady))
	pod := waitPhase(t, "logged", corev1.PodRunning)
	want := waitLog(t, "logged", "end")
	path := fmt.Sprintf("%s/pods/%s_%s_%s/main/0.log", sandbox(t, pod.Spec.NodeName), namespace, "logged", pod.UID)
	var got strings.Builder
	for line := range strings.Lines(readFile(t, pod.Spec.NodeName, path)) {
		// Time, stream and a mark for whole lines stand before the text.
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			got.WriteString(fields[3])
		}
	}
	if got.String() != want {
		t.Errorf("Mesos shows %d bytes that begin with %.60q, kubectl %d that begin with %.60q", got.Len(), got.String(), len(want), want)
	}
}

package kills

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// parts are what can be killed.
var parts = []string{"executor", "keeper", "containerd", "shims", "agent"}

// cases are all parts alone and in pairs.
func cases() [][]string {
	var list [][]string
	for i, one := range parts {
		list = append(list, []string{one})
		for _, other := range parts[i+1:] {
			list = append(list, []string{one, other})
		}
	}
	return list
}

// always are the kills of every run; the suite of test/e2e has more.
var always = []string{"executor and shims", "keeper and agent"}

// Whatever is killed in whatever phase of its pods, what design section 5 tells comes true: PC-50, EX-112, EX-120.
func TestKill(t *testing.T) {
	for _, victims := range cases() {
		name := strings.Join(victims, " and ")
		if !all && !slices.Contains(always, name) {
			continue
		}
		t.Run(name, func(t *testing.T) { newScene(t, victims).play(victims) })
	}
}

// pids are the processes of a part on the first agent.
func pids(part string) ([]int, error) {
	words := map[string][]string{
		"executor": {cluster.ExecutorWords}, "keeper": {cluster.KeeperWords}, "containerd": {"/containerd --config"}, "agent": {"mesos-agent"},
	}
	if part == "shims" {
		return shims()
	}
	variable := suite.OfAgent(1)
	if part == "agent" {
		variable = "MESOS_HOSTNAME=" + node1
	}
	pid, err := suite.PartPID(variable, words[part]...)
	return []int{pid}, err
}

// shims are those of the first agent.
func shims() ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, file := range files {
		line, _ := os.ReadFile(file) // or it has ended
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && strings.Contains(string(line), "containerd-shim-runc-v2\x00") &&
			strings.Contains(string(line), filepath.Join(suite.StateDir, "a1")+"/") {
			found = append(found, pid)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("the first agent has no shim")
	}
	return found, nil
}

// scene is a pod in each phase.
type scene struct {
	*testing.T
	launching, starting, running, killing *corev1.Pod
	container                             string // of Mesos
}

// newScene starts the four pods and waits until each is in its phase. Containers end with the keeper, so pods want to be
// restarted then; else they do not, and a restart would be told.
func newScene(t *testing.T, victims []string) *scene {
	t.Helper()
	name := strings.Join(victims, "-")
	policy := corev1.RestartPolicyNever
	if slices.Contains(victims, "keeper") {
		policy = corev1.RestartPolicyAlways
	}
	s := &scene{T: t}
	pod := func(phase, script string) *corev1.Pod {
		p := cluster.OnNode(cluster.NewPod(phase+"-"+name, script+" # "+phase), node1)
		p.Spec.Containers[0].Resources.Requests = cluster.Requests("20m", "32Mi")
		p.Spec.RestartPolicy = policy
		return p
	}
	s.running = suite.Create(t, pod("running", cluster.Steady))
	stubborn := pod("killing", "trap '' TERM; while :; do sleep 1; done")
	grace := int64(12)
	stubborn.Spec.TerminationGracePeriodSeconds = &grace
	s.killing = suite.Create(t, stubborn)
	slow := pod("starting", cluster.Steady)
	wait := slow.Spec.Containers[0]
	wait.Name, wait.Command = "wait", []string{"sh", "-c", "while [ ! -e /tmp/go ]; do sleep 0.2; done # wait"}
	slow.Spec.InitContainers = []corev1.Container{wait}
	s.starting = suite.Create(t, slow)
	s.running = suite.WaitPhase(t, s.running.Name, corev1.PodRunning)
	s.killing = suite.WaitPhase(t, s.killing.Name, corev1.PodRunning)
	suite.WaitTask(t, s.running, "TASK_RUNNING")
	suite.WaitTask(t, s.killing, "TASK_RUNNING")
	s.starting = s.waitInit("")
	s.launching = suite.Create(t, pod("launching", cluster.Steady))
	cluster.Eventually(t, "the binding of "+s.launching.Name, func(context.Context) error {
		if !hold.has(s.launching.Name) {
			return errors.New("it has not come")
		}
		return nil
	})
	if err := suite.Client.CoreV1().Pods(cluster.Namespace).Delete(t.Context(), s.killing.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	suite.WaitTask(t, s.killing, "TASK_KILLING")
	s.container = filepath.Base(suite.Sandbox(t, node1))
	return s
}

// waitInit waits until the init container of the starting pod runs, another one than that with an id.
func (s *scene) waitInit(but string) *corev1.Pod {
	return suite.WaitPod(s.T, s.starting.Name, "its init container to run", func(p *corev1.Pod) string {
		for _, c := range p.Status.InitContainerStatuses {
			if c.State.Running != nil && c.ContainerID != but {
				return ""
			}
		}
		return "it does not run"
	})
}

// play kills, and checks what becomes of all.
func (s *scene) play(victims []string) {
	var doomed []int
	for _, part := range victims {
		found, err := pids(part)
		if err != nil {
			s.Fatal(err)
		}
		doomed = append(doomed, found...)
	}
	began := time.Now()
	for _, pid := range doomed {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			s.Fatal(err)
		}
	}
	hold.let(s.launching.Name)
	switch {
	case slices.Contains(victims, "keeper"):
		s.anew(began)
	case slices.Contains(victims, "shims"):
		s.failed()
	default:
		s.undisturbed()
	}
	s.launched(victims)
	s.killed()
	s.tidy(victims)
}

// undisturbed: the same containers, and the starting pod goes on.
func (s *scene) undisturbed() {
	before := s.starting.Status.InitContainerStatuses[0].ContainerID
	after := s.waitInit("")
	if now := after.Status.InitContainerStatuses[0]; now.ContainerID != before || now.RestartCount != 0 {
		s.Errorf("init container %s is now %s, %d restarts", before, now.ContainerID, now.RestartCount)
	}
	s.release()
	suite.WaitTask(s.T, suite.WaitPhase(s.T, s.starting.Name, corev1.PodRunning), "TASK_RUNNING")
	suite.SameContainer(s.T, s.running)
}

// release lets the starting pod go on, also when the executor is being started again.
func (s *scene) release() {
	cluster.Eventually(s.T, "the init container to be told", func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, cluster.Mesopod(), "kubectl", "--kubeconfig", suite.Kubeconfig(), "exec", s.starting.Name, "-c", "wait", "--", "touch", "/tmp/go").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
}

// failed: containers without a shim end, are not started again since their pods do not want that, and nothing of them stays.
func (s *scene) failed() {
	for _, pod := range []*corev1.Pod{s.running, s.starting} {
		suite.WaitPhase(s.T, pod.Name, corev1.PodFailed)
		suite.WaitTask(s.T, pod, "TASK_FAILED")
		s.noProcess(pod)
	}
}

// anew: everything of the dead executor ends within 5 s, and bound pods start again with the same UID.
func (s *scene) anew(began time.Time) {
	ctx, cancel := context.WithDeadline(s.Context(), began.Add(5*time.Second))
	defer cancel()
	if err := cluster.Poll(ctx, func(context.Context) error {
		if left := cluster.LeftOf(s.T, s.container, filepath.Join(suite.StateDir, "a1")); len(left) > 0 {
			return fmt.Errorf("%d things, the first of them %s", len(left), left[0])
		}
		return nil
	}); err != nil {
		s.Errorf("5 s after the keeper's end there still are: %v", err)
	}
	before := s.running.Status.ContainerStatuses[0].ContainerID
	again := suite.WaitPod(s.T, s.running.Name, "it to run again", func(p *corev1.Pod) string {
		if p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].ContainerID != before &&
			p.Status.ContainerStatuses[0].State.Running != nil {
			return ""
		}
		return "it does not: " + cluster.Describe(p)
	})
	if again.UID != s.running.UID {
		s.Errorf("pod %s is another one now", again.Name)
	}
	s.waitInit(s.starting.Status.InitContainerStatuses[0].ContainerID)
	s.release()
	suite.WaitPhase(s.T, s.starting.Name, corev1.PodRunning)
	for _, pod := range []*corev1.Pod{s.running, s.starting} {
		s.oneTask(pod, "TASK_RUNNING")
	}
}

// launched: the launch whose binding was under way comes to its end, by the same task or by another one.
func (s *scene) launched(victims []string) {
	s.launching = suite.WaitPhase(s.T, s.launching.Name, corev1.PodRunning)
	s.oneTask(s.launching, "TASK_RUNNING")
	if slices.Contains(victims, "keeper") || slices.Contains(victims, "agent") {
		return
	}
	if tasks, err := suite.TasksOf(s.Context(), s.launching); err != nil || len(tasks) != 1 {
		s.Errorf("pod %s has tasks %v, error %v; want the one", s.launching.Name, tasks, err)
	}
}

// killed: a pod that was being deleted goes, and its task ends.
func (s *scene) killed() {
	cluster.Eventually(s.T, "pod "+s.killing.Name+" to go", func(ctx context.Context) error {
		_, err := suite.Client.CoreV1().Pods(cluster.Namespace).Get(ctx, s.killing.Name, metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		return nil
	})
	s.oneTask(s.killing, "")
	s.noProcess(s.killing)
}

// tidy ends what still runs, and finds nothing left of it nor of what was killed.
func (s *scene) tidy(victims []string) {
	for _, pod := range []*corev1.Pod{s.launching, s.starting, s.running} {
		if err := suite.DeletePod(s.Context(), pod.Name); err != nil {
			s.Error(err)
		}
	}
	for _, pod := range []*corev1.Pod{s.launching, s.starting, s.running} {
		s.oneTask(pod, "")
		s.noProcess(pod)
	}
	// They go when the next containerd starts.
	if slices.ContainsFunc(victims, func(part string) bool { return slices.Contains([]string{"executor", "keeper", "containerd"}, part) }) {
		s.noSocket()
	}
}

// ended are the states of tasks that have ended. None of them is "lost": whatever was killed, somebody knows what became of
// the task. A launch that reached the agent while it could tell nobody is TASK_DROPPED.
var ended = []string{"TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_DROPPED"}

// oneTask waits until exactly one of the pod's tasks is in a state, none for "", and all others have ended.
func (s *scene) oneTask(pod *corev1.Pod, state string) {
	s.Helper()
	cluster.Eventually(s.T, fmt.Sprintf("tasks of %s, of which one is %q", pod.Name, state), func(ctx context.Context) error {
		tasks, err := suite.TasksOf(ctx, pod)
		if err != nil {
			return err
		}
		live := 0
		for _, task := range tasks {
			if task.State == state {
				live++
			} else if !slices.Contains(ended, task.State) {
				return fmt.Errorf("task %s is %s: %s", task.TaskID.Value, task.State, task.Last().Message)
			}
		}
		if state != "" && live != 1 || len(tasks) == 0 {
			return fmt.Errorf("%d of %d tasks are", live, len(tasks))
		}
		return nil
	})
}

// noProcess waits until no process is in a cgroup of the pod.
func (s *scene) noProcess(pod *corev1.Pod) {
	s.Helper()
	cluster.Eventually(s.T, "processes of "+pod.Name+" to end", func(context.Context) error {
		files, err := filepath.Glob("/proc/[0-9]*/cgroup")
		if err != nil {
			return err
		}
		for _, file := range files {
			text, _ := os.ReadFile(file) // or it has ended
			if strings.Contains(string(text), "/pod"+string(pod.UID)) {
				return fmt.Errorf("%s is there", filepath.Dir(file))
			}
		}
		return nil
	})
}

// noSocket waits until the first agent has no socket of a shim that is dead.
func (s *scene) noSocket() {
	s.Helper()
	cluster.Eventually(s.T, "sockets of dead shims to go", func(context.Context) error {
		files, err := filepath.Glob(filepath.Join(suite.StateDir, "a1", "s", "*"))
		if err != nil {
			return err
		}
		for _, file := range files {
			shim, err := net.Dial("unix", file)
			if errors.Is(err, syscall.ECONNREFUSED) {
				return fmt.Errorf("%s is there", file)
			}
			if err == nil {
				_ = shim.Close()
			}
		}
		return nil
	})
}

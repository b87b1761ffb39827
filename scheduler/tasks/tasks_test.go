package tasks_test

import (
	"math/rand/v2"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// TestEveryStateHasAKind: no state of Mesos is left out of the table.
func TestEveryStateHasAKind(t *testing.T) {
	for number, name := range mesos.TaskState_name {
		if tasks.KindOf(mesos.TaskState(number)) == tasks.Unheard {
			t.Errorf("%s has no kind", name)
		}
	}
	if tasks.KindOf(99) != tasks.Unheard || tasks.Next(mesos.TASK_RUNNING, 99) != tasks.Past {
		t.Errorf("a state of a later Mesos must change nothing")
	}
}

func TestNext(t *testing.T) {
	for _, test := range []struct {
		from, to mesos.TaskState
		want     tasks.Step
	}{
		{mesos.TASK_STAGING, mesos.TASK_STARTING, tasks.Take},
		{mesos.TASK_STAGING, mesos.TASK_RUNNING, tasks.Take},
		{mesos.TASK_STAGING, mesos.TASK_DROPPED, tasks.Take},
		{mesos.TASK_STARTING, mesos.TASK_STAGING, tasks.Past},
		{mesos.TASK_RUNNING, mesos.TASK_RUNNING, tasks.Same},
		{mesos.TASK_RUNNING, mesos.TASK_STARTING, tasks.Past},
		{mesos.TASK_RUNNING, mesos.TASK_KILLING, tasks.Take},
		{mesos.TASK_KILLING, mesos.TASK_RUNNING, tasks.Past}, // A late RUNNING does not revive the task.
		{mesos.TASK_KILLING, mesos.TASK_KILLED, tasks.Take},
		{mesos.TASK_KILLING, mesos.TASK_FINISHED, tasks.Take},
		{mesos.TASK_RUNNING, mesos.TASK_UNREACHABLE, tasks.Take},
		{mesos.TASK_UNREACHABLE, mesos.TASK_RUNNING, tasks.Take}, // Checklist 89.
		{mesos.TASK_UNREACHABLE, mesos.TASK_STAGING, tasks.Take},
		{mesos.TASK_UNREACHABLE, mesos.TASK_GONE, tasks.Take},
		{mesos.TASK_UNKNOWN, mesos.TASK_UNREACHABLE, tasks.Take},
		{mesos.TASK_FINISHED, mesos.TASK_FINISHED, tasks.Final},
		{mesos.TASK_FINISHED, mesos.TASK_RUNNING, tasks.Final},
		{mesos.TASK_LOST, mesos.TASK_RUNNING, tasks.Final},
		{mesos.TASK_GONE_BY_OPERATOR, mesos.TASK_RUNNING, tasks.Final},
	} {
		if got := tasks.Next(test.from, test.to); got != test.want {
			t.Errorf("%s then %s: step %d, want %d", test.from, test.to, got, test.want)
		}
	}
}

// TestTerminalIsFinal: whatever comes after a terminal state, the task stays as it is, and the count of live tasks
// never goes wrong.
func TestTerminalIsFinal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	for range 2000 {
		table := tasks.NewTable()
		task := table.Launch(pod, "A1")
		for range 12 {
			before := task.State
			_, step := table.Apply(task.ID, mesos.TaskState(r.IntN(16)))
			if tasks.Terminal(before) && (step != tasks.Final || task.State != before) {
				t.Fatalf("%s became %s", before, task.State)
			}
			if step != tasks.Take && task.State != before {
				t.Fatalf("step %d changed %s to %s", step, before, task.State)
			}
			want := 1
			if tasks.Terminal(task.State) {
				want = 0
			}
			if got := table.LiveOn("A1"); got != want {
				t.Fatalf("%d live tasks in %s", got, task.State)
			}
		}
	}
}

// TestAttempts: no attempt's number is given twice while the pod is known, and recovery goes on from the annotation.
func TestAttempts(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Annotations: map[string]string{
		messages.AnnotationTaskID: "u.3", messages.AnnotationAgentID: "A1",
	}}}
	table := tasks.NewTable()
	task := table.Recover(pod)
	if task == nil || task.Attempt != 3 || task.AgentID != "A1" || !task.Live() {
		t.Fatalf("recovered %+v", task)
	}
	if table.Recover(pod) != nil {
		t.Errorf("the task is recovered twice")
	}
	if got := table.Launch(pod, "A2").ID; got != "u.4" {
		t.Errorf("next task id %s, want u.4", got)
	}
	if got := table.Current("u").ID; got != "u.4" {
		t.Errorf("current task %s, want u.4", got)
	}
	table.Apply("u.4", mesos.TASK_DROPPED)
	if got := table.Current("u").ID; got != "u.3" {
		t.Errorf("current task %s, want u.3", got)
	}
	table.Forget("u") // u.3 lives on.
	if table.Get("u.4") != nil || table.Get("u.3") == nil || table.NextAttempt("u") != 5 {
		t.Errorf("a live task was forgotten, or an ended one was not")
	}
	table.Apply("u.3", mesos.TASK_KILLED)
	table.Drop("u.3")
	if table.Get("u.3") != nil || table.NextAttempt("u") != 1 {
		t.Errorf("something is left of a pod that is gone")
	}
}

func TestRecoverRefuses(t *testing.T) {
	for name, pod := range map[string]*corev1.Pod{
		"no annotation":    {ObjectMeta: metav1.ObjectMeta{UID: "u"}},
		"another's task":   {ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{messages.AnnotationTaskID: "v.1", messages.AnnotationAgentID: "A1"}}},
		"no agent":         {ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{messages.AnnotationTaskID: "u.1"}}},
		"ended":            {ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{messages.AnnotationTaskID: "u.1", messages.AnnotationAgentID: "A1"}}, Status: corev1.PodStatus{Phase: corev1.PodFailed}},
		"not a task id":    {ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{messages.AnnotationTaskID: "u", messages.AnnotationAgentID: "A1"}}},
		"attempt of zeros": {ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{messages.AnnotationTaskID: "u.01", messages.AnnotationAgentID: "A1"}}},
	} {
		if task := tasks.NewTable().Recover(pod); task != nil {
			t.Errorf("%s: recovered %+v", name, task)
		}
	}
}

// TestHeard: the number of an attempt that ended unseen is not given again; what is no task id is nothing.
func TestHeard(t *testing.T) {
	table := tasks.NewTable()
	for _, id := range []string{"u.4", "u.2", "strange"} {
		table.Heard(id)
	}
	if got := table.Highest("u"); got != 4 {
		t.Errorf("highest attempt %d, want 4", got)
	}
	if got := table.Launch(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, "A1").ID; got != "u.5" {
		t.Errorf("next task is %s, want u.5", got)
	}
}

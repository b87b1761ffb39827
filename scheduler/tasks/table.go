package tasks

import (
	"cmp"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
)

// Task is one attempt to run a pod. Only the Table writes State; the rest belongs to the core.
type Task struct {
	ID      string
	UID     types.UID
	Attempt int
	AgentID string
	// Namespace and Pod name the pod, for people; empty for a task whose pod was never seen.
	Namespace, Pod string
	State          mesos.TaskState
	// Killing: KILL was asked for, with Grace (negative: the executor's choice), and is repeated at NextKill.
	Killing  bool
	Grace    time.Duration
	NextKill time.Time
	// GivenUp: the pod was failed for this task's end; it is not started again.
	GivenUp bool
	// Verdict is what the pod's status has to say should nobody else report on the pod; set at the task's end.
	Verdict Verdict
}

// Verdict is a reason and a message for a pod that ended without a report, to be written at a time. Relaunch: the pod
// did not fail by itself and is started anew where it was, if it can be.
type Verdict struct {
	Reason, Message string
	At              time.Time
	Relaunch        bool
}

// Live tells that the task has not ended, as far as is known.
func (t *Task) Live() bool { return t != nil && !Terminal(t.State) }

// Table holds the tasks of all pods. The zero value is not usable; see NewTable.
type Table struct {
	byID     map[string]*Task
	byPod    map[types.UID][]*Task // rising attempts
	attempts map[types.UID]int     // highest attempt ever seen
	floors   map[types.UID]int     // attempts up to here may have been used by an earlier scheduler
	gone     map[types.UID]bool    // pods that left with live tasks
	live     map[string]int        // live tasks per agent
}

// NewTable makes an empty table.
func NewTable() *Table {
	return &Table{byID: map[string]*Task{}, byPod: map[types.UID][]*Task{}, attempts: map[types.UID]int{}, floors: map[types.UID]int{}, gone: map[types.UID]bool{}, live: map[string]int{}}
}

func (t *Table) insert(task *Task) *Task {
	t.byID[task.ID] = task
	if task.Live() {
		t.live[task.AgentID]++
	}
	all := append(t.byPod[task.UID], task)
	slices.SortFunc(all, func(a, b *Task) int { return cmp.Compare(a.Attempt, b.Attempt) })
	t.byPod[task.UID] = all
	t.attempts[task.UID] = max(t.attempts[task.UID], task.Attempt)
	return task
}

// NextAttempt is the number that the pod's next launch gets. No number is given twice as long as the pod is known.
func (t *Table) NextAttempt(uid types.UID) int { return max(t.attempts[uid], t.floors[uid]) + 1 }

// Floor keeps the numbers up to attempt from being given: an earlier scheduler may have given them to tasks that have
// ended without a trace. It says nothing of tasks that are yet to be met, so Highest stays.
func (t *Table) Floor(uid types.UID, attempt int) { t.floors[uid] = max(t.floors[uid], attempt) }

// Highest is the highest attempt of the pod that was ever seen; 0 for none.
func (t *Table) Highest(uid types.UID) int { return t.attempts[uid] }

// Heard notes the attempt of an ended task of a known pod, so that its number is not given again.
func (t *Table) Heard(id string) {
	if uid, attempt, err := messages.ParseTaskID(id); err == nil {
		t.attempts[uid] = max(t.attempts[uid], attempt)
	}
}

// Launch records a task of the next attempt, before it is sent.
func (t *Table) Launch(pod *corev1.Pod, agentID string) *Task {
	attempt := t.NextAttempt(pod.UID)
	return t.insert(&Task{
		ID: messages.TaskID(pod.UID, attempt), UID: pod.UID, Attempt: attempt, AgentID: agentID,
		Namespace: pod.Namespace, Pod: pod.Name, State: mesos.TASK_STAGING,
	})
}

// Recover records the task that the pod's annotations name, as running since the pod is bound. It returns nil when
// they name none, the task is known, or the pod has ended.
func (t *Table) Recover(pod *corev1.Pod) *Task {
	id, agentID := pod.Annotations[messages.AnnotationTaskID], pod.Annotations[messages.AnnotationAgentID]
	uid, attempt, err := messages.ParseTaskID(id)
	if err != nil || uid != pod.UID {
		return nil
	}
	t.attempts[uid] = max(t.attempts[uid], attempt)
	if t.byID[id] != nil || agentID == "" || Ended(pod) {
		return nil
	}
	return t.insert(&Task{
		ID: id, UID: uid, Attempt: attempt, AgentID: agentID,
		Namespace: pod.Namespace, Pod: pod.Name, State: mesos.TASK_STARTING,
	})
}

// Adopt records a task that only Mesos told of. It returns nil when the id is not one of ours.
func (t *Table) Adopt(id, agentID string, state mesos.TaskState, pod *corev1.Pod) *Task {
	uid, attempt, err := messages.ParseTaskID(id)
	if err != nil || t.byID[id] != nil {
		return nil
	}
	task := &Task{ID: id, UID: uid, Attempt: attempt, AgentID: agentID, State: state}
	if pod != nil {
		task.Namespace, task.Pod = pod.Namespace, pod.Name
	}
	return t.insert(task)
}

// Apply is a status of a task: its record, nil when there is none, and what the status means. The record's State is
// the new one after Take.
func (t *Table) Apply(id string, state mesos.TaskState) (*Task, Step) {
	task := t.byID[id]
	if task == nil {
		return nil, Past
	}
	step := Next(task.State, state)
	if step == Take {
		task.State = state
		if Terminal(state) {
			t.ended(task.AgentID)
		}
	}
	return task, step
}

func (t *Table) ended(agentID string) {
	if t.live[agentID]--; t.live[agentID] == 0 {
		delete(t.live, agentID)
	}
}

// LiveOn counts the live tasks of an agent.
func (t *Table) LiveOn(agentID string) int { return t.live[agentID] }

// Get returns the record of a task, or nil.
func (t *Table) Get(id string) *Task { return t.byID[id] }

// Current is the pod's live task with the highest attempt, or nil.
func (t *Table) Current(uid types.UID) *Task {
	all := t.byPod[uid]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Live() {
			return all[i]
		}
	}
	return nil
}

// OfPod returns the pod's live tasks, rising attempts.
func (t *Table) OfPod(uid types.UID) []*Task {
	var live []*Task
	for _, task := range t.byPod[uid] {
		if task.Live() {
			live = append(live, task)
		}
	}
	return live
}

// Live returns all live tasks that pass the filter (nil: all), by id.
func (t *Table) Live(keep func(*Task) bool) []*Task {
	var live []*Task
	for _, task := range t.byID {
		if task.Live() && (keep == nil || keep(task)) {
			live = append(live, task)
		}
	}
	slices.SortFunc(live, func(a, b *Task) int { return cmp.Compare(a.ID, b.ID) })
	return live
}

// EachLive calls f with each live task, in no order.
func (t *Table) EachLive(f func(*Task)) {
	for _, task := range t.byID {
		if task.Live() {
			f(task)
		}
	}
}

// Drop removes the record of an ended task whose pod is not known.
func (t *Table) Drop(id string) {
	task := t.byID[id]
	if task == nil || task.Live() {
		return
	}
	delete(t.byID, id)
	t.byPod[task.UID] = slices.DeleteFunc(t.byPod[task.UID], func(o *Task) bool { return o.ID == id })
	if len(t.byPod[task.UID]) == 0 {
		delete(t.byPod, task.UID)
		if t.gone[task.UID] {
			delete(t.gone, task.UID)
			delete(t.attempts, task.UID)
			delete(t.floors, task.UID)
		}
	}
}

// Forget removes what is known of a pod that left the API server, except live tasks: those stay until they end, and
// Drop removes them then.
func (t *Table) Forget(uid types.UID) {
	for _, task := range slices.Clone(t.byPod[uid]) {
		t.Drop(task.ID)
	}
	if len(t.byPod[uid]) == 0 {
		delete(t.attempts, uid)
		delete(t.floors, uid)
		return
	}
	t.gone[uid] = true
}

// Ended tells that the pod's phase is final.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

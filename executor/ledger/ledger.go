// Package ledger keeps the tasks and status updates that the agent has not acknowledged yet.
//
// Why it exists: Mesos loses what is on a broken connection. An executor that subscribes again sends along every
// task and update that is still open, and the agent tells repeats by their uuid (EX-120). So an update is recorded
// here first, sent afterwards, and kept until its acknowledgement. The ledger also is the one place that knows
// whether a task has ended: a terminal state is final (EX-78), and states never go back (EX-42).
//
// Order of calls: AcceptTask when a launch arrives, Record before each send, Acknowledge for each ACKNOWLEDGED,
// Unacknowledged at each SUBSCRIBE, Forget when a task may be dropped. KeepTask, KeepPod and KeepDeletion hold what a
// later process needs to go on: it is restarted under the eyes of nobody. The ledger is pure data without goroutines
// or locks; the core's loop owns it.
//
// Each change leaves a Record in the journal; Journal takes them out, and the shell writes them to disk before
// anything is acted on (AppendRecords). After a crash Decode reads them back, telling what is damaged, and Replay makes
// the ledger that was. Records say what is, not what changed, so that one that is lost takes no other with it.
package ledger

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// UUIDBytes is the length of an update's uuid: the agent refuses any other.
const UUIDBytes = 16

// Update is one status update of one task, in the executor's terms. The agent's connection turns it into a
// mesos.TaskStatus of source SOURCE_EXECUTOR.
type Update struct {
	// TaskID is the Mesos task id.
	TaskID string `json:"task"`
	// UUID is 16 raw bytes, fresh for each update and the same on each repeat.
	UUID []byte `json:"uuid"`
	// State is the task's state: never TASK_STAGING, which the agent refuses from an executor.
	State mesos.TaskState `json:"state"`
	// Reason is Mesos' own reason, nil for none.
	Reason *mesos.TaskStatus_Reason `json:"reason,omitempty"`
	// Message begins with a messages.Reason.
	Message string `json:"message,omitempty"`
	// Data is the status payload (messages.EncodeStatus), nil for none.
	Data []byte `json:"data,omitempty"`
	// Timestamp is when the update was made.
	Timestamp time.Time `json:"time"`
	// Healthy is the pod's readiness, nil when not known.
	Healthy *bool `json:"healthy,omitempty"`
	// PodIPs are the pod's addresses, the primary one first.
	PodIPs []string `json:"podIPs,omitempty"`
	// Labels tell of restarts (messages.StatusLabelRestarts), nil for none.
	Labels map[string]string `json:"labels,omitempty"`
}

// Clone is a copy that shares no memory with the update.
func (u Update) Clone() Update {
	u.UUID = bytes.Clone(u.UUID)
	u.Data = bytes.Clone(u.Data)
	u.PodIPs = slices.Clone(u.PodIPs)
	u.Labels = maps.Clone(u.Labels)
	if u.Reason != nil {
		reason := *u.Reason
		u.Reason = &reason
	}
	if u.Healthy != nil {
		healthy := *u.Healthy
		u.Healthy = &healthy
	}
	return u
}

// Ledger is the open tasks and updates. Make one with New.
type Ledger struct {
	tasks map[string]*task
	// accepted is the order in which tasks were accepted, for a stable replay.
	accepted []string
	// open is the unacknowledged updates of all tasks in the order in which they were recorded.
	open []Update
	// pods and deletions are kept for the core; graves are the ends of forgotten tasks, the newest last.
	pods      map[types.UID]Pod
	deletions map[string]Deletion
	graves    []Grave
	damaged   bool
	// journal is what changed since it was taken last.
	journal []Record
}

type task struct {
	// kept is the core's own knowledge. Launched in it: the agent launched it here, so it counts among the
	// unacknowledged tasks until an update of it is acknowledged.
	kept     Task
	last     Update
	recorded bool
}

// New is an empty ledger.
func New() *Ledger {
	return &Ledger{tasks: map[string]*task{}, pods: map[types.UID]Pod{}, deletions: map[string]Deletion{}}
}

// AcceptTask enters a task that the agent launched. A known task is errdefs.ErrConflict (EX-5).
func (l *Ledger) AcceptTask(id string) error {
	if id == "" {
		return fmt.Errorf("accept task: task id is empty: %w", errdefs.ErrInvalid)
	}
	if l.tasks[id] != nil {
		return fmt.Errorf("accept task %s: already in the ledger: %w", id, errdefs.ErrConflict)
	}
	t := l.enter(id)
	t.kept.Launched = true
	l.journal = append(l.journal, taskRecord(t.kept))
	return nil
}

func (l *Ledger) enter(id string) *task {
	t := &task{kept: Task{ID: id}}
	l.tasks[id] = t
	l.accepted = append(l.accepted, id)
	return t
}

// Record keeps an update until it is acknowledged; send it only afterwards. A task that was never accepted is
// entered by its first update: answers about unknown tasks are replayed too (EX-75, EX-89). An update after the
// terminal one, or one that goes back, is errdefs.ErrRefused; one that the agent would not take is
// errdefs.ErrInvalid. A refused update must not be sent.
func (l *Ledger) Record(u Update) error {
	switch {
	case u.TaskID == "":
		return fmt.Errorf("record update: task id is empty: %w", errdefs.ErrInvalid)
	case len(u.UUID) != UUIDBytes:
		return fmt.Errorf("record update of task %s: uuid has %d bytes, want %d: %w", u.TaskID, len(u.UUID), UUIDBytes, errdefs.ErrInvalid)
	case rank(u.State) == 0:
		return fmt.Errorf("record update of task %s: an executor does not send %s: %w", u.TaskID, u.State, errdefs.ErrInvalid)
	}
	t := l.tasks[u.TaskID]
	if t != nil && t.recorded {
		if IsTerminal(t.last.State) {
			return fmt.Errorf("record update of task %s: %s after %s: terminal is final: %w", u.TaskID, u.State, t.last.State, errdefs.ErrRefused)
		}
		if rank(u.State) < rank(t.last.State) {
			return fmt.Errorf("record update of task %s: %s after %s: states never go back: %w", u.TaskID, u.State, t.last.State, errdefs.ErrRefused)
		}
	}
	if t == nil {
		t = l.enter(u.TaskID)
	}
	t.last, t.recorded = u.Clone(), true
	l.open = append(l.open, t.last)
	l.journal = append(l.journal, updateRecord(t.last))
	return nil
}

// Acknowledge drops the update with this uuid and tells whether it was open. A repeat, or an acknowledgement of what
// the ledger does not know, is harmless.
func (l *Ledger) Acknowledge(taskID string, uuid []byte) bool {
	at := slices.IndexFunc(l.open, func(u Update) bool { return u.TaskID == taskID && bytes.Equal(u.UUID, uuid) })
	if at < 0 {
		return false
	}
	l.open = slices.Delete(l.open, at, at+1)
	l.tasks[taskID].kept.Acknowledged = true
	l.journal = append(l.journal, Record{Acknowledged: &Acknowledgement{TaskID: taskID, UUID: bytes.Clone(uuid)}})
	return true
}

// Unacknowledged is what goes along with SUBSCRIBE: the ids of launched tasks of which no update was acknowledged, in
// the order of their launch, and the open updates in the order in which they were recorded. Both are copies.
func (l *Ledger) Unacknowledged() (tasks []string, updates []Update) {
	for _, id := range l.accepted {
		if t := l.tasks[id]; t.kept.Launched && !t.kept.Acknowledged {
			tasks = append(tasks, id)
		}
	}
	for _, u := range l.open {
		updates = append(updates, u.Clone())
	}
	return tasks, updates
}

// Open is the number of unacknowledged updates of the task; with an empty id that of all tasks.
func (l *Ledger) Open(taskID string) int {
	if taskID == "" {
		return len(l.open)
	}
	n := 0
	for _, u := range l.open {
		if u.TaskID == taskID {
			n++
		}
	}
	return n
}

// Last is the newest update of the task, acknowledged or not.
func (l *Ledger) Last(taskID string) (Update, bool) {
	t := l.tasks[taskID]
	if t == nil || !t.recorded {
		return Update{}, false
	}
	return t.last.Clone(), true
}

// Ended tells whether the task has its terminal update.
func (l *Ledger) Ended(taskID string) bool {
	t := l.tasks[taskID]
	return t != nil && t.recorded && IsTerminal(t.last.State)
}

// Forget drops a task that ended and has no open update, and tells whether it did. A task that is still owed
// something stays.
func (l *Ledger) Forget(taskID string) bool {
	if !l.Ended(taskID) || l.Open(taskID) > 0 {
		return false
	}
	grave := Grave{TaskID: taskID, Unsure: l.tasks[taskID].kept.Unsure}
	l.bury(grave)
	l.journal = append(l.journal, Record{Forgotten: &grave})
	return true
}

// bury drops a task and remembers its end.
func (l *Ledger) bury(g Grave) {
	delete(l.tasks, g.TaskID)
	l.accepted = slices.DeleteFunc(l.accepted, func(id string) bool { return id == g.TaskID })
	l.graves = append(l.graves, g)
	if over := len(l.graves) - Graves; over > 0 {
		l.graves = slices.Delete(l.graves, 0, over)
	}
}

// IsTerminal tells whether no state follows this one.
func IsTerminal(s mesos.TaskState) bool { return rank(s) == rankTerminal }

const rankTerminal = 4

// rank orders the states that an executor sends: a task goes forward only and may skip. Zero is a state that no
// executor sends.
func rank(s mesos.TaskState) int {
	switch s {
	case mesos.TASK_STARTING:
		return 1
	case mesos.TASK_RUNNING:
		return 2
	case mesos.TASK_KILLING:
		return 3
	case mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_ERROR, mesos.TASK_LOST,
		mesos.TASK_DROPPED, mesos.TASK_GONE:
		return rankTerminal
	}
	return 0
}

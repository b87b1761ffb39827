package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Graves is how many ended tasks are remembered after they were forgotten.
const Graves = 4096

// Record is one entry of the journal: exactly one field is set.
type Record struct {
	// Task is a task as it is now.
	Task *Task `json:"task,omitempty"`
	// Update was recorded, and is open until it is acknowledged.
	Update *Update `json:"update,omitempty"`
	// Acknowledged is an update that the agent has.
	Acknowledged *Acknowledgement `json:"acknowledged,omitempty"`
	// Forgotten is a task that was dropped after its end.
	Forgotten *Grave `json:"forgotten,omitempty"`
	// Pod is a pod as it is now; PodGone is the UID of one that is not kept any longer.
	Pod     *Pod      `json:"pod,omitempty"`
	PodGone types.UID `json:"podGone,omitempty"`
	// Deletion is asked of the API server; DeletionDone is the task id of one that is not any longer.
	Deletion     *Deletion `json:"deletion,omitempty"`
	DeletionDone string    `json:"deletionDone,omitempty"`
	// Damaged tells that other records are lost, or, when false, that what they held was found out otherwise.
	Damaged *bool `json:"damaged,omitempty"`
}

// Task is what the core knows of a task beside its updates.
type Task struct {
	// ID is the Mesos task id; Seq is the order of launches.
	ID  string `json:"id"`
	Seq int    `json:"seq,omitempty"`
	// State is the core's name for where the task is, "" for one that nothing was kept of yet.
	State string `json:"state,omitempty"`
	// Launched: the agent launched it here. Acknowledged: the agent has acknowledged an update of it.
	Launched     bool `json:"launched,omitempty"`
	Acknowledged bool `json:"acknowledged,omitempty"`
	// Namespace, Name and UID are the pod's.
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	// Envelope is the pod as it was launched, kept until it is bound.
	Envelope *corev1.Pod `json:"envelope,omitempty"`
	// LaunchBy is when the launch grace ends, zero for never.
	LaunchBy time.Time `json:"launchBy,omitzero"`
	// Unsure: the pod may be bound although the task ended unbound.
	Unsure bool `json:"unsure,omitempty"`
	// StaticPods are the claims that a placeholder task accounts for, joined by commas.
	StaticPods string `json:"staticPods,omitempty"`
	// Killing is how a task that is being killed ends, nil for others.
	Killing *Killing `json:"killing,omitempty"`
}

// Killing is how and when a task that is being killed ends.
type Killing struct {
	State   mesos.TaskState          `json:"state"`
	Message string                   `json:"message,omitempty"`
	Reason  *mesos.TaskStatus_Reason `json:"reason,omitempty"`
	// Since is when the kill began, GraceEnds when the containers must have ended, ForceAt when patience ends; zero for
	// never.
	Since     time.Time `json:"since,omitzero"`
	GraceEnds time.Time `json:"graceEnds,omitzero"`
	ForceAt   time.Time `json:"forceAt,omitzero"`
	Forced    bool      `json:"forced,omitempty"`
}

// same compares by value, but an envelope, which nobody writes to, by its address.
func (t Task) same(o Task) bool {
	a, b := t.Killing, o.Killing
	t.Killing, o.Killing = nil, nil
	if t != o || (a == nil) != (b == nil) {
		return false
	}
	return a == nil || a.same(*b)
}

func (k Killing) same(o Killing) bool {
	a, b := k.Reason, o.Reason
	k.Reason, o.Reason = nil, nil
	return k == o && (a == nil) == (b == nil) && (a == nil || *a == *b)
}

// Pod is a pod of the kubelet's set.
type Pod struct {
	TaskID string `json:"task"`
	// Object is the API server's copy. Nobody writes to it.
	Object *corev1.Pod `json:"object"`
	// Fed: the kubelet may have it. Dropped: it was taken from the kubelet by force. APIGone: the object has gone.
	Fed     bool `json:"fed,omitempty"`
	Dropped bool `json:"dropped,omitempty"`
	APIGone bool `json:"apiGone,omitempty"`
	// DeletedAt and DeletedGrace (seconds) are a deletion of our own, zero for none.
	DeletedAt    time.Time `json:"deletedAt,omitzero"`
	DeletedGrace int64     `json:"deletedGrace,omitempty"`
}

// Deletion is a pod whose deletion was asked of the API server and not seen yet.
type Deletion struct {
	TaskID    string        `json:"task"`
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	UID       types.UID     `json:"uid"`
	Grace     time.Duration `json:"grace,omitempty"`
	// EvictUntil is up to when the pod is evicted rather than deleted, zero for a plain deletion.
	EvictUntil time.Time `json:"evictUntil,omitzero"`
}

// Acknowledgement names an update that the agent has.
type Acknowledgement struct {
	TaskID string `json:"task"`
	UUID   []byte `json:"uuid"`
}

// Grave is an ended task that was forgotten. Unsure: its pod may be bound all the same.
type Grave struct {
	TaskID string `json:"task"`
	Unsure bool   `json:"unsure,omitempty"`
}

func taskRecord(t Task) Record     { return Record{Task: &t} }
func updateRecord(u Update) Record { u = u.Clone(); return Record{Update: &u} }

// Urgent tells whether the record must be on the disk, beyond the reach of a power cut, before anything is acted on. Of
// the others each that is lost only makes something be done twice that may be done twice.
func (r Record) Urgent() bool {
	return r.Task != nil || r.Update != nil || r.Pod != nil || r.Deletion != nil || r.Damaged != nil
}

// String is the record in few words.
func (r Record) String() string {
	switch {
	case r.Task != nil:
		return "task " + cmp.Or(r.Task.ID, "?") + " " + cmp.Or(r.Task.State, "accepted")
	case r.Update != nil:
		return "update " + r.Update.TaskID + " " + r.Update.State.String()
	case r.Acknowledged != nil:
		return "acknowledged " + r.Acknowledged.TaskID
	case r.Forgotten != nil:
		return "forgotten " + r.Forgotten.TaskID
	case r.Pod != nil:
		text := "pod of " + r.Pod.TaskID
		if r.Pod.DeletedGrace > 0 {
			text += fmt.Sprintf(" deleted grace=%ds", r.Pod.DeletedGrace)
		}
		return text
	case r.PodGone != "":
		return "pod gone " + string(r.PodGone)
	case r.Deletion != nil:
		return "deletion of " + r.Deletion.TaskID
	case r.DeletionDone != "":
		return "deletion done " + r.DeletionDone
	case r.Damaged != nil:
		return fmt.Sprintf("damaged=%t", *r.Damaged)
	}
	return "nothing"
}

// KeepTask keeps what the core knows of a task, and enters it if it is new. Launched and Acknowledged are the ledger's
// own and are left as they are.
func (l *Ledger) KeepTask(k Task) {
	t := l.tasks[k.ID]
	if t == nil {
		t = l.enter(k.ID)
	}
	k.Launched, k.Acknowledged = t.kept.Launched, t.kept.Acknowledged
	if k.same(t.kept) {
		return
	}
	t.kept = k
	l.journal = append(l.journal, taskRecord(k))
}

// KeepPod keeps a pod of the kubelet's set. It compares nothing: the core knows what is worth keeping.
func (l *Ledger) KeepPod(p Pod) {
	l.pods[p.Object.UID] = p
	l.journal = append(l.journal, Record{Pod: &p})
}

// RenewPod takes a newer copy of a kept pod that asks the same of the kubelet, so that the older one can be freed. It
// leaves no record: what is on the disk is as good.
func (l *Ledger) RenewPod(object *corev1.Pod) {
	if p, known := l.pods[object.UID]; known {
		p.Object = object
		l.pods[object.UID] = p
	}
}

// DropPod drops a pod.
func (l *Ledger) DropPod(uid types.UID) {
	if _, known := l.pods[uid]; known {
		delete(l.pods, uid)
		l.journal = append(l.journal, Record{PodGone: uid})
	}
}

// KeepDeletion keeps a deletion that was asked for.
func (l *Ledger) KeepDeletion(d Deletion) {
	if l.deletions[d.TaskID] != d {
		l.deletions[d.TaskID] = d
		l.journal = append(l.journal, Record{Deletion: &d})
	}
}

// DropDeletion drops the deletion for a task.
func (l *Ledger) DropDeletion(taskID string) {
	if _, known := l.deletions[taskID]; known {
		delete(l.deletions, taskID)
		l.journal = append(l.journal, Record{DeletionDone: taskID})
	}
}

// Tasks are all tasks that something was kept of, in the order of their launch.
func (l *Ledger) Tasks() []Task {
	var all []Task
	for _, id := range l.accepted {
		all = append(all, l.tasks[id].kept)
	}
	slices.SortStableFunc(all, func(a, b Task) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// Pods are all pods that are kept, by UID.
func (l *Ledger) Pods() []Pod {
	all := make([]Pod, 0, len(l.pods))
	for _, p := range l.pods {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Pod) int { return cmp.Compare(a.Object.UID, b.Object.UID) })
	return all
}

// Deletions are all that are asked for, by task id.
func (l *Ledger) Deletions() []Deletion {
	all := make([]Deletion, 0, len(l.deletions))
	for _, d := range l.deletions {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Deletion) int { return cmp.Compare(a.TaskID, b.TaskID) })
	return all
}

// SetDamaged keeps that records are lost, or that it is of no matter any longer.
func (l *Ledger) SetDamaged(damaged bool) {
	if l.damaged != damaged {
		l.damaged = damaged
		l.journal = append(l.journal, Record{Damaged: &damaged})
	}
}

// Damaged tells whether records are lost.
func (l *Ledger) Damaged() bool { return l.damaged }

// Buried are the newest forgotten tasks, at most Graves, the newest last.
func (l *Ledger) Buried() []Grave { return slices.Clone(l.graves) }

// Journal takes out what changed since the last call. Written in this order to the disk, it makes up for a crash.
func (l *Ledger) Journal() []Record {
	taken := l.journal
	l.journal = nil
	return taken
}

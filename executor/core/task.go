package core

import (
	"errors"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/executor/podstate"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// State is where a task is; the package comment draws the ways between.
type State int

// The states.
const (
	Binding State = iota + 1
	Starting
	Running
	Killing
	Done
)

// String is the state's name.
func (s State) String() string {
	return [...]string{"", "Binding", "Starting", "Running", "Killing", "Done"}[s]
}

// MarshalText writes the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// task is one Mesos task.
type task struct {
	id    string
	seq   int
	state State
	// namespace, name and uid are the pod's; empty when the task data did not tell.
	namespace, name string
	uid             types.UID
	// claims are what a placeholder task accounts for, joined by commas; it has no pod.
	claims string

	// While Binding. calling: a Bind or Patch is out and its answer awaited, also while Killing. early is a copy of the
	// pod that the watch brought before the answer; vanished: the watch saw the pod leave before it.
	envelope *corev1.Pod
	calling  bool
	backoff  time.Duration
	retryAt  time.Time
	early    *corev1.Pod
	vanished bool
	// unsure: the answer to a call is unknown, so the pod may be bound although the task ends unbound (EX-37).
	unsure bool
	// launchBy is when the launch grace ends, zero for never or no more.
	launchBy time.Time

	// said is what Mesos was told of the pod last; status is the payload to that.
	said   podstate.Status
	status corev1.PodStatus

	// While Killing. graceEnds is when the containers must have ended, forceAt when patience ends.
	ending                       ending
	killedAt, graceEnds, forceAt time.Time
	forced, noted                bool
}

func (t *task) live() bool { return t.state != Done }

// ending is how a task that is being killed will be reported.
type ending struct {
	state  mesos.TaskState
	reason messages.Reason
	mesos  *mesos.TaskStatus_Reason
}

var (
	endKilled   = ending{state: mesos.TASK_KILLED, reason: messages.ReasonKilled}
	endDeleted  = ending{state: mesos.TASK_KILLED, reason: messages.ReasonDeleted}
	endShutdown = ending{state: mesos.TASK_KILLED, reason: messages.ReasonShutdown}
	endLaunch   = ending{state: mesos.TASK_LOST, reason: messages.ReasonLaunchFailed, mesos: reasonOf(mesos.REASON_CONTAINER_LAUNCH_FAILED)}
	endLostAck  = ending{state: mesos.TASK_LOST, reason: messages.ReasonLostAck}
	endVanished = ending{state: mesos.TASK_LOST, reason: messages.ReasonDisappeared}
	endKubelet  = ending{state: mesos.TASK_LOST, reason: messages.ReasonKubeletFailed, mesos: reasonOf(mesos.REASON_EXECUTOR_TERMINATED)}
)

func reasonOf(r mesos.TaskStatus_Reason) *mesos.TaskStatus_Reason { return &r }

// record makes an update, keeps it and sends it, in this order. While disconnected it is kept only: onConnected sends
// it then (EX-109, EX-118, EX-120).
func (c *Core) record(now time.Time, u ledger.Update, why string) bool {
	u.UUID, u.Timestamp = c.cfg.NewUUID(), now
	if err := c.ledger.Record(u); err != nil {
		c.note(u.TaskID, "update not sent: "+err.Error())
		return false
	}
	if c.connected {
		c.do(SendUpdate{Update: u.Clone(), Why: why})
	} else {
		c.note(u.TaskID, u.State.String()+" waits for the agent: "+why)
	}
	return true
}

// report is record for a task with a pod: it adds what Mesos was told of the pod before, since every update replaces
// what is shown.
func (c *Core) report(now time.Time, t *task, u ledger.Update, why string) {
	u.TaskID = t.id
	if u.PodIPs == nil {
		u.PodIPs = t.said.PodIPs
	}
	if u.Data == nil && t.name != "" {
		data, err := messages.EncodeStatus(t.namespace, t.name, t.status)
		if err != nil {
			c.note(t.id, err.Error())
		}
		u.Data = data
	}
	c.record(now, u, why)
}

// finish records a terminal update and ends the task. The pod stays fed only while its API object needs the kubelet.
func (c *Core) finish(now time.Time, t *task, u ledger.Update, why string) {
	c.report(now, t, u, why)
	t.state = Done
	t.launchBy, t.retryAt, t.forceAt = time.Time{}, time.Time{}, time.Time{}
	t.envelope, t.early = nil, nil
	if p := c.podOf(t); p != nil {
		deleting := p.object.DeletionTimestamp != nil || c.deletions[t.id] != nil
		if p.apiGone || p.dropped || !p.fed || !deleting && (p.mark != nil || u.State == mesos.TASK_LOST) {
			c.drop(p, "pod has ended")
		}
	}
}

func (c *Core) finishAs(now time.Time, t *task, e ending, why string) {
	c.finish(now, t, ledger.Update{State: e.state, Reason: e.mesos, Message: string(e.reason)}, why)
}

// onConnected sends all that is open again: what was recorded while the subscription was on its way is in no
// SUBSCRIBE call, and the agent tells repeats by their uuid. The kubelet's set is left alone (PC-50).
func (c *Core) onConnected(ev Connected) {
	c.connected, c.taskKilling = true, ev.TaskKilling
	_, open := c.ledger.Unacknowledged()
	for _, u := range open {
		c.do(SendUpdate{Update: u, Why: "not acknowledged before the agent connected"})
	}
}

func (c *Core) onAcknowledged(ev Acknowledged) {
	if !c.ledger.Acknowledge(ev.TaskID, ev.UUID) {
		c.note(ev.TaskID, "acknowledgement of no open update, ignored")
		return
	}
	t := c.tasks[ev.TaskID]
	if t == nil || t.live() || c.ledger.Open(t.id) > 0 {
		return
	}
	if c.ledger.Forget(t.id) {
		c.ended.bury(t.id, fate{unsure: t.unsure})
		delete(c.tasks, t.id)
	}
}

// repeat answers a question about a task that has ended: its last update once more if that is open (EX-78).
func (c *Core) repeat(id, question string) {
	if last, ok := c.ledger.Last(id); ok && c.ledger.Open(id) > 0 && c.connected {
		c.do(SendUpdate{Update: last, Why: question + " of an ended task, last update again"})
		return
	}
	c.note(id, question+" of an ended task, its end was acknowledged")
}

// graveyard remembers ended tasks after their last acknowledgement, so that a late event about one is not taken for
// an unknown task. It keeps the newest ones only.
type graveyard struct {
	fates map[string]fate
	order []string
}

// fate is what matters of an ended task. unsure: its bind may have come through after all (EX-37).
type fate struct{ unsure bool }

const graves = 4096

func (g *graveyard) bury(id string, f fate) {
	if _, known := g.fates[id]; !known {
		g.order = append(g.order, id)
	}
	g.fates[id] = f
	for len(g.order) > graves {
		delete(g.fates, g.order[0])
		g.order = g.order[1:]
	}
}

// nextBackoff doubles from 100 ms to 5 s (EX-22).
func nextBackoff(last time.Duration) time.Duration {
	const first, most = 100 * time.Millisecond, 5 * time.Second
	return min(max(2*last, first), most)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// worthRetry tells whether the same call may succeed later.
func worthRetry(err error) bool {
	return errors.Is(err, errdefs.ErrUnavailable) || errors.Is(err, errdefs.ErrLost)
}

package core

import (
	"errors"
	"fmt"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// deletion is a pod whose deletion was asked of the API server. retryAt is zero while the answer is awaited.
type deletion struct {
	namespace, name string
	uid             types.UID
	grace           time.Duration
	backoff         time.Duration
	retryAt         time.Time
	// evictUntil is up to when the pod is evicted, which disruption budgets may refuse; then it is deleted. Zero for a
	// plain deletion.
	evictUntil time.Time
}

// effect asks for the deletion, or while there is time for it for an eviction.
func (d *deletion) effect(now time.Time, taskID, why string) Effect {
	ask := DeletePod{TaskID: taskID, Namespace: d.namespace, Name: d.name, UID: d.uid, Grace: d.grace, Why: why}
	if d.evicts(now) {
		return EvictPod(ask)
	}
	return ask
}

func (d *deletion) evicts(now time.Time) bool { return now.Before(d.evictUntil) }

func (c *Core) delete(t *task, grace time.Duration, why string) {
	d := &deletion{namespace: t.namespace, name: t.name, uid: t.uid, grace: grace}
	c.deletions[t.id] = d
	c.do(d.effect(time.Time{}, t.id, why))
}

// evict asks for the pod's eviction up to a moment, and for its deletion from then on.
func (c *Core) evict(now time.Time, t *task, grace time.Duration, until time.Time, why string) {
	d := &deletion{namespace: t.namespace, name: t.name, uid: t.uid, grace: grace, evictUntil: until}
	c.deletions[t.id] = d
	c.do(d.effect(now, t.id, why))
}

// onDeleteFailed tries again until the pod is seen deleted. Meanwhile the kubelet ends a live pod by a deletion
// timestamp of ours: a kill does not wait for the API server.
func (c *Core) onDeleteFailed(now time.Time, ev DeleteFailed) {
	d := c.deletions[ev.TaskID]
	if d == nil {
		c.note(ev.TaskID, fmt.Sprintf("deletion failed after the pod went: %v", ev.Err))
		return
	}
	if errors.Is(ev.Err, errdefs.ErrNotFound) || errors.Is(ev.Err, errdefs.ErrConflict) {
		c.note(ev.TaskID, fmt.Sprintf("nothing left to delete: %v", ev.Err))
		c.onPodGone(now, d.uid)
		return
	}
	d.backoff = nextBackoff(d.backoff)
	d.retryAt = now.Add(d.backoff)
	if d.evicts(now) {
		d.retryAt = earlier(d.retryAt, d.evictUntil)
		c.note(ev.TaskID, fmt.Sprintf("eviction again in %s, deletion in %s: %v", d.retryAt.Sub(now), d.evictUntil.Sub(now), ev.Err))
		return
	}
	c.note(ev.TaskID, fmt.Sprintf("deletion again in %s: %v", d.backoff, ev.Err))
	if p := c.pods[d.uid]; p != nil && !p.dropped {
		p.markDeleted(now, d.grace)
		c.feed("deletion without the API server")
	}
}

func (c *Core) onKill(now time.Time, ev Kill) {
	t := c.tasks[ev.TaskID]
	switch {
	case c.exit.begun:
		c.note(ev.TaskID, "kill while shutting down, every pod ends already")
	case t == nil && c.known(ev.TaskID), t != nil && !t.live():
		c.repeat(ev.TaskID, "kill")
	case t == nil:
		c.answerUnknown(now, ev.TaskID, messages.ReasonUnknownTask, "kill of a task that is not known here")
	case t.state == Binding:
		c.killBinding(now, t, endKilled, "killed while binding")
	case t.placeholder():
		c.killPlaceholder(now, t, endKilled, "kill asked by the scheduler")
	case t.state == Killing:
		c.shorten(now, t, ev.Grace)
	default:
		c.kill(now, t, ev.Grace)
	}
}

// answerUnknown ends a task that the executor does not know, or its scheduler asks for ever (EX-75, EX-89).
func (c *Core) answerUnknown(now time.Time, id string, reason messages.Reason, why string) {
	if id == "" {
		c.note("", why+", ignored: it has no id")
		return
	}
	t := c.enter(id)
	u := ledger.Update{State: mesos.TASK_LOST, Reason: reasonOf(mesos.REASON_TASK_UNKNOWN), Message: string(reason)}
	c.finish(now, t, u, why)
}

// killBinding ends a task whose pod no kubelet has: at once, or when the call that is out has its answer.
func (c *Core) killBinding(now time.Time, t *task, e ending, why string) {
	if t.calling {
		c.beginKill(now, t, e, 0, why)
		return
	}
	c.finishAs(now, t, e, why)
}

// kill ends the pod through the API server, with the shorter of the pod's and the kill policy's grace (EX-76, EX-79); a longer
// kill policy makes it a drain.
func (c *Core) kill(now time.Time, t *task, asked *time.Duration) {
	p := c.podOf(t)
	if p == nil || !p.fed {
		c.delete(t, 0, "killed before the kubelet had it")
		c.finishAs(now, t, endKilled, "killed before the kubelet had it")
		return
	}
	grace := gracePeriod(p.object)
	if asked != nil && *asked > grace {
		c.drain(now, t, grace, *asked)
		return
	}
	if asked != nil {
		grace = max(*asked, 0)
	}
	c.beginKill(now, t, endKilled, grace, "kill asked by the scheduler")
	c.delete(t, grace, "kill asked by the scheduler")
}

// drain is a kill with more time than the pod asks for its end, as when an operator drains the agent: what is left over is
// for disruption budgets, which may have the pod wait until another one has taken its place.
func (c *Core) drain(now time.Time, t *task, grace, asked time.Duration) {
	why := fmt.Sprintf("kill with %s, the pod asks for %s", asked, grace)
	c.drained = true
	c.beginKill(now, t, endKilled, asked, why)
	c.evict(now, t, grace, now.Add(asked-grace), why)
}

// shorten lets a further kill bring the end nearer, counted from the first one; never put it off.
func (c *Core) shorten(now time.Time, t *task, asked *time.Duration) {
	p := c.podOf(t)
	if asked == nil || p == nil || t.forced {
		c.note(t.id, "kill of a task that is being killed")
		return
	}
	ends := t.killedAt.Add(max(*asked, 0))
	if !ends.Before(t.graceEnds) {
		c.note(t.id, "kill of a task that is being killed, no earlier end")
		return
	}
	t.graceEnds, t.forceAt = ends, ends.Add(c.cfg.KillMargin)
	left := max(ends.Sub(now), 0)
	if p.mark != nil {
		p.markDeleted(now, left)
		c.feed("a shorter grace period")
	}
	c.delete(t, left, "a further kill shortens the grace period")
}

// beginKill turns a task to Killing and arms the moment at which patience ends.
func (c *Core) beginKill(now time.Time, t *task, e ending, grace time.Duration, why string) {
	t.state, t.ending = Killing, e
	t.launchBy, t.retryAt = time.Time{}, time.Time{}
	t.killedAt, t.graceEnds = now, now.Add(grace)
	t.forceAt = t.graceEnds.Add(c.cfg.KillMargin)
	if c.taskKilling {
		u := ledger.Update{State: mesos.TASK_KILLING, Message: string(e.reason)}
		c.report(now, t, u, why)
	}
}

// endHere ends a live pod by a deletion timestamp of ours and leaves its API object to others.
func (c *Core) endHere(now time.Time, t *task, e ending, why string) {
	p := c.podOf(t)
	if p == nil || !p.fed {
		c.finishAs(now, t, e, why)
		return
	}
	grace := gracePeriod(p.object)
	c.beginKill(now, t, e, grace, why)
	p.markDeleted(now, grace)
	c.feed(why)
}

// force is what is done when a pod outlives its grace period and the margin: it leaves the API server and the
// kubelet's set, and its containers are ended at the runtime, again and again. The task ends only when the kubelet shows that it
// is gone.
func (c *Core) force(now time.Time, t *task) {
	t.forceAt = time.Time{}
	if t.placeholder() {
		c.finishAs(now, t, t.ending, "static pods are still there after their grace period")
		return
	}
	p := c.podOf(t)
	if p == nil {
		// Nobody answered the call to bind. It may still come through; the watch will tell.
		t.unsure = true
		why := "the API server did not answer in time"
		if !t.calling {
			why = "the executor was restarted before the API server answered"
		}
		c.finishAs(now, t, t.ending, why)
		return
	}
	why := fmt.Sprintf("containers still there %s after the grace period", c.cfg.KillMargin)
	if t.forced {
		why = fmt.Sprintf("containers still there %s after they were ended by force", c.cfg.KillMargin)
	} else if !p.apiGone && (p.mark == nil || c.deletions[t.id] != nil) {
		c.delete(t, 0, why)
	}
	again := t.forced
	t.forced, p.dropped = true, true
	if !p.fed {
		c.finishAs(now, t, t.ending, "the kubelet never had the pod")
		return
	}
	if !again {
		c.feed(why)
	}
	c.do(StopContainers{TaskID: t.id, UID: t.uid, Why: why})
	t.forceAt = now.Add(c.cfg.KillMargin)
}

// onMessage acts on a framework message (EX-83 to EX-89).
func (c *Core) onMessage(now time.Time, ev Message) {
	if c.exit.begun || !c.connected {
		c.note("", "framework message while shutting down or not connected, ignored")
		return
	}
	m, err := messages.DecodeFrameworkMessage(ev.Data)
	switch {
	case err != nil:
		c.note("", "ignored: "+err.Error())
	case m.Kind == messages.Suicide:
		if held := c.heldBy(); held != "" {
			c.note("", "asked to end, refused by "+held+c.liveTasks())
			return
		}
		c.asked = true
	case m.Kind == messages.TaskLost:
		c.lose(now, m.TaskID)
	}
}

func (c *Core) lose(now time.Time, id string) {
	const why = "the scheduler takes the task for lost"
	t := c.tasks[id]
	switch {
	case t == nil && c.known(id), t != nil && !t.live():
		c.repeat(id, "task-lost")
	case t == nil:
		c.answerUnknown(now, id, messages.ReasonLostAck, why)
	case t.placeholder():
		c.killPlaceholder(now, t, endLostAck, why)
	case t.state == Binding:
		c.killBinding(now, t, endLostAck, why)
	case t.state == Killing:
		c.note(id, why+", it is being killed already")
	default:
		c.endHere(now, t, endLostAck, why)
	}
}

func (c *Core) liveTasks() string {
	var b strings.Builder
	for _, t := range c.sorted() {
		if t.live() {
			b.WriteString(" " + t.id)
		}
	}
	return b.String()
}

// markDeleted sets a deletion of our own on the copy that the kubelet gets. A shorter one replaces a longer one.
func (p *pod) markDeleted(now time.Time, grace time.Duration) {
	seconds := max(int64(grace/time.Second), 1) // the kubelet's least
	if p.mark == nil || p.mark.graceSeconds > seconds {
		p.mark = &mark{at: metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)), graceSeconds: seconds}
	}
}

package core

import (
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/executor/podstate"
	"github.com/mesopod/mesopod/messages"
)

// apiWait is how long a restarted executor waits for the API server's copies of the pods, from the moment at which the
// kubelet takes pods. Then the ledger's copies have to do.
const apiWait = 5 * time.Second

// once is a moment that has passed, whatever the time is: what has it for a deadline is done in the first step.
var once = time.Unix(1, 0)

// recovery is what a restarted executor has yet to find out.
type recovery struct {
	// hold: the kubelet gets no set, since that would end the pods which it does not name (PC-50). by is when it gets one
	// for want of an answer from the API server; zero while the kubelet takes none.
	hold bool
	by   time.Time
	// damaged: records were lost. Then a pod here that names a task of its own is taken for ours, and only the API
	// server can name them all.
	damaged bool
	// torso are tasks of which too little was left.
	torso map[string]bool
	// listed: the API server has told all pods of this node. fed: this kubelet had a set.
	listed, fed bool
}

// restore takes over what an earlier process of this executor knew. Everything that was under way is done again with
// the first step; it is harmless to do it twice.
func (c *Core) restore() {
	damaged := c.ledger.Damaged()
	c.recovery = recovery{damaged: damaged, torso: map[string]bool{}}
	for _, g := range c.ledger.Buried() {
		c.ended.bury(g.TaskID, fate{unsure: g.Unsure})
	}
	for _, p := range c.ledger.Pods() {
		c.restorePod(p)
	}
	for _, k := range c.ledger.Tasks() {
		c.seq = max(c.seq, k.Seq)
		c.restoreTask(k)
	}
	for _, d := range c.ledger.Deletions() {
		c.deletions[d.TaskID] = &deletion{namespace: d.Namespace, name: d.Name, uid: d.UID, grace: d.Grace, retryAt: once, evictUntil: d.EvictUntil}
	}
	c.recovery.hold = len(c.pods) > 0 || damaged || len(c.recovery.torso) > 0
}

func (c *Core) restorePod(k ledger.Pod) {
	kept := keptPod(k)
	p := &pod{
		object: k.Object, taskID: k.TaskID, apiGone: k.APIGone, fed: k.Fed, dropped: k.Dropped,
		kept: &kept, unconfirmed: true,
	}
	if k.DeletedGrace > 0 {
		p.mark = &mark{at: metav1.NewTime(k.DeletedAt), graceSeconds: k.DeletedGrace}
	}
	c.pods[k.Object.UID] = p
}

func (c *Core) restoreTask(k ledger.Task) {
	if c.ledger.Ended(k.ID) && c.ledger.Forget(k.ID) {
		c.ended.bury(k.ID, fate{unsure: k.Unsure})
		return
	}
	t := &task{
		id: k.ID, seq: k.Seq, state: stateOf(k.State), namespace: k.Namespace, name: k.Name, uid: k.UID,
		envelope: k.Envelope, launchBy: k.LaunchBy, unsure: k.Unsure, claims: k.StaticPods,
	}
	if c.ledger.Ended(k.ID) {
		t.state, t.launchBy, t.envelope = Done, time.Time{}, nil
	}
	c.remember(t)
	p := c.podOf(t)
	switch t.state {
	case Done:
	case Running:
		if p == nil && !t.placeholder() {
			c.recovery.torso[t.id] = true
			return
		}
	case Binding:
		if t.envelope == nil {
			c.recovery.torso[t.id] = true
			return
		}
		t.retryAt, t.unsure = once, true
	case Killing:
		if k.Killing == nil || p == nil && c.recovery.damaged && !t.placeholder() {
			c.recovery.torso[t.id] = true
			return
		}
		t.ending = ending{state: k.Killing.State, reason: messages.Reason(k.Killing.Message), mesos: k.Killing.Reason}
		t.killedAt, t.graceEnds, t.forceAt, t.forced = k.Killing.Since, k.Killing.GraceEnds, k.Killing.ForceAt, k.Killing.Forced
		if p == nil && !t.placeholder() {
			t.forceAt = once // killed while binding: nobody waits for that answer any more
		}
	default:
		if p == nil || t.state == 0 {
			c.recovery.torso[t.id] = true
			return
		}
	}
	c.tasks[t.id] = t
}

// remember reads from the last update what Mesos was told.
func (c *Core) remember(t *task) {
	last, ok := c.ledger.Last(t.id)
	if !ok {
		return
	}
	if status, err := messages.DecodeStatus(last.Data); err == nil {
		t.status = status.Status
	}
	t.said = podstate.Status{PodIPs: last.PodIPs}
	if last.State == mesos.TASK_RUNNING {
		t.said.Stage, t.said.State = podstate.Up, last.State
		t.said.Message, t.said.Healthy, t.said.Labels = last.Message, last.Healthy, last.Labels
	}
}

func stateOf(name string) State {
	for s := Binding; s <= Done; s++ {
		if s.String() == name {
			return s
		}
	}
	return 0
}

// onPodsListed: the API server has told all pods of this node, each by PodChanged. What went while nobody looked shows
// by its absence.
func (c *Core) onPodsListed(now time.Time, ev PodsListed) {
	if c.recovery.listed {
		return
	}
	c.recovery.listed = true
	there := map[types.UID]bool{}
	for _, uid := range ev.UIDs {
		there[uid] = true
	}
	for id, d := range c.deletions {
		if !there[d.uid] && !d.retryAt.IsZero() {
			delete(c.deletions, id)
		}
	}
	for _, p := range c.sortedPods() {
		if p.unconfirmed && !there[p.object.UID] {
			c.onPodGone(now, p.object.UID)
		}
		p.unconfirmed = false
	}
	for _, id := range sortedKeys(c.recovery.torso) {
		t := c.enter(id)
		c.finishAs(now, t, endVanished, "its records are lost, and no pod here names it")
	}
	c.recovery.torso, c.recovery.damaged = nil, false
	c.ledger.SetDamaged(false)
	c.release("the API server has told all pods of this node")
}

// release lets the kubelet have its first set.
func (c *Core) release(why string) {
	if !c.recovery.hold {
		return
	}
	c.recovery.hold = false
	c.feed("first set after a restart: " + why)
}

// expireHold gives up waiting for the API server.
func (c *Core) expireHold(now time.Time) {
	r := &c.recovery
	switch {
	case !r.hold || !c.kubeletReady:
	case r.damaged || len(r.torso) > 0:
		// The ledger does not name every pod that lives. To wait harms none of them.
	case r.by.IsZero():
		r.by = now.Add(apiWait)
	case !now.Before(r.by):
		c.release(fmt.Sprintf("the API server told nothing for %s", apiWait))
	}
}

// adoptable tells whether a pod that names no task of ours is one whose records are lost.
func (c *Core) adoptable(id string, object *corev1.Pod) bool {
	if c.recovery.torso[id] {
		return true
	}
	ended := object.Status.Phase == corev1.PodSucceeded || object.Status.Phase == corev1.PodFailed
	return c.recovery.damaged && !c.known(id) && object.Spec.NodeName == c.cfg.Node && !ended
}

// adopt takes a pod whose records are lost for what it says it is.
func (c *Core) adopt(now time.Time, id string, object *corev1.Pod) {
	const why = "its records are lost, the pod here names it"
	delete(c.recovery.torso, id)
	t := c.enter(id)
	t.namespace, t.name, t.uid = object.Namespace, object.Name, object.UID
	t.state = Starting
	c.remember(t)
	if c.pods[t.uid] == nil {
		c.pods[t.uid] = &pod{object: object}
	}
	p := c.pods[t.uid]
	p.object, p.taskID, p.fed, p.unconfirmed = object, id, true, false
	switch last, ok := c.ledger.Last(id); {
	case !ok:
		if err := c.ledger.AcceptTask(id); err != nil {
			c.note(id, err.Error())
		}
		c.report(now, t, ledger.Update{State: mesos.TASK_STARTING, Message: string(messages.ReasonBound)}, why)
	case last.State == mesos.TASK_KILLING:
		c.beginKill(now, t, endDeleted, gracePeriod(object), why)
		p.markDeleted(now, gracePeriod(object))
		c.feed(why)
	case last.State == mesos.TASK_RUNNING:
		t.state = Running
	}
	c.deletionSeen(now, t, object)
}

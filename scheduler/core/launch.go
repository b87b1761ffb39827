package core

import (
	"fmt"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// launch is a Bind that is not answered, a task of an earlier scheduler whose pod is not bound yet, or the way of a pod
// with a node of its own back to it.
type launch struct {
	request uint64
	adopted bool // nobody waits for an answer
	// assigned: the pod had its node before; its executor writes the task's id onto it.
	assigned bool
	pod      *corev1.Pod
	node     string
	agentID  string
	role     string // that it takes its resources from; empty for an adopted one
	task     string // empty until the ACCEPT is sent
	// deadline ends the wait: for offers before the ACCEPT, for the binding after it.
	deadline time.Time
}

// batch are the launches of one agent in one role that wait for their ACCEPT, in order of their Binds.
type batch struct {
	agentID, role string

	first   time.Time
	due     time.Time // zero while starved
	starved bool      // no offers to launch on; the next offer of the agent makes the batch due
	uids    []types.UID
}

// slot is the key of a batch. No agent id has a blank in it.
func slot(agentID, role string) string { return agentID + " " + role }

func (c *Core) onReserve(ev Reserve) {
	refuse := func(why string) { c.do(ReserveDone{Request: ev.Request, Refusal: why}) }
	uid := ev.Pod.UID
	if !c.open() {
		refuse("the scheduler is not connected to Mesos, or not ready yet")
		return
	}
	if l := c.launches[uid]; l != nil {
		refuse("an earlier launch of the pod is not over")
		return
	}
	if c.holder(uid) != nil {
		refuse("an earlier task of the pod is not over")
		return
	}
	if pod := c.pods[uid]; pod != nil && pod.Spec.NodeName != "" {
		refuse("the pod has a node already")
		return
	}
	need, err := c.need(ev.Pod)
	if err != nil {
		refuse(err.Error())
		return
	}
	c.release(uid)
	id := c.nodes[ev.Node]
	view := c.view(id)
	role, why := procure.Choose(view, need)
	if why != "" {
		refuse(why)
		return
	}
	c.pool.Claim(offers.Claim{UID: uid, AgentID: id, Role: role, Need: procure.Settle(view, role, need.On(view.Limits))})
	delete(c.waiting, uid)
	c.dirty[id] = true
	c.do(ReserveDone{Request: ev.Request})
}

// need is what a pod takes, as its namespace is now.
func (c *Core) need(pod *corev1.Pod) (procure.Need, error) {
	return procure.NeedOf(pod, c.namespaces[pod.Namespace], c.procure)
}

// release ends what is reserved for a pod.
func (c *Core) release(uid types.UID) {
	if id, found := c.pool.Release(uid); found {
		c.dirty[id] = true
	}
}

func (c *Core) onUnreserve(ev Unreserve) {
	if l := c.launches[ev.UID]; l != nil && l.task == "" && !l.adopted {
		c.resolve(ev.UID, fmt.Errorf("the reservation was given back before the launch: %w", errdefs.ErrConflict), "unreserved before the launch was sent")
		return
	}
	c.release(ev.UID)
}

func (c *Core) onBind(ev Bind) {
	refuse := func(kind error, why string) {
		c.do(BindDone{Request: ev.Request, Err: fmt.Errorf("%s: %w", why, kind), Why: why})
	}
	uid := ev.Pod.UID
	if c.launches[uid] != nil {
		refuse(errdefs.ErrConflict, "another launch of the pod is under way")
		return
	}
	claim, reserved := c.pool.Claimed(uid)
	id := claim.AgentID
	if !reserved || c.agents[id] == nil || c.agents[id].node != ev.Node {
		c.release(uid)
		refuse(errdefs.ErrUnavailable, "the pod's reservation on the node is gone, its offer was taken back")
		return
	}
	if pod := c.pods[uid]; pod != nil && pod.DeletionTimestamp != nil {
		c.release(uid)
		refuse(errdefs.ErrConflict, "the pod is being deleted")
		return
	}
	c.join(uid, &launch{request: ev.Request, pod: ev.Pod, node: ev.Node, agentID: id, role: claim.Role, deadline: c.now.Add(c.cfg.OfferWait)})
}

// holder is a task that keeps the pod from another launch, or nil: one that runs, or that Mesos has yet to end. A task
// that is to be killed and that nobody can see does not: should it return, it finds the pod bound by another, or is
// killed.
func (c *Core) holder(uid types.UID) *tasks.Task {
	for _, task := range c.tasks.OfPod(uid) {
		if !task.Killing || tasks.KindOf(task.State) != tasks.Away {
			return task
		}
	}
	return nil
}

func (c *Core) enterLaunch(uid types.UID, l *launch) {
	c.launches[uid] = l
	c.floors.launches.lower(l.deadline)
}

// join puts a launch into the batch of its agent and role.
func (c *Core) join(uid types.UID, l *launch) {
	c.enterLaunch(uid, l)
	c.gate.touched[uid] = true
	b := c.batches[slot(l.agentID, l.role)]
	if b == nil {
		b = &batch{agentID: l.agentID, role: l.role, first: c.now}
		c.batches[slot(l.agentID, l.role)] = b
	}
	b.uids = append(b.uids, uid)
	if len(c.pool.HoldsIn(l.agentID, l.role)) == 0 {
		b.starve()
		return
	}
	if b.starved {
		b.first, b.starved = c.now, false
	}
	b.due = earlier(c.now.Add(c.cfg.BatchWindow), b.first.Add(10*c.cfg.BatchWindow))
}

func (b *batch) starve() { b.starved, b.due = true, time.Time{} }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// dueBatches sends the batches whose window is over.
func (c *Core) dueBatches() {
	if !c.connected || !c.idStored {
		return
	}
	for _, key := range due(c.batches, c.now, func(b *batch) time.Time { return b.due }) {
		if b := c.batches[key]; b != nil {
			c.flush(b)
		}
	}
}

// flush launches what the held offers of the batch's agent and role cover, on all of them, in one ACCEPT.
func (c *Core) flush(b *batch) {
	a, agentID, role := c.agents[b.agentID], b.agentID, b.role
	infos, sent := c.prepare(b)
	alone := len(sent) == 0
	if b = c.batches[slot(agentID, role)]; b != nil && alone { // gone if no pod of it is left
		b.starve()
	}
	if len(infos) == 0 {
		return
	}
	for _, uid := range sent {
		l := c.launches[uid]
		l.task = c.tasks.Launch(l.pod, agentID).ID
		l.deadline = c.now.Add(c.cfg.LaunchTimeout)
		c.unbatch(l, uid)
		if l.assigned {
			c.launched(uid)
		}
	}
	offerIDs := c.pool.Take(agentID, role, sent)
	c.do(Accept{AgentID: agentID, Node: a.node, Role: role, OfferIDs: offerIDs, Tasks: infos, RefuseSeconds: 0, Why: launchWhy(a.node, len(sent), len(infos))})
	c.revive.of(role).used, a.ended = true, a.ended && alone
	c.dirty[agentID] = true
	if b := c.batches[slot(agentID, role)]; b != nil {
		b.starve()
	}
}

// prepare makes the tasks of a batch, as far as the held offers go, each with what it takes from them.
func (c *Core) prepare(b *batch) (infos []mesos.TaskInfo, sent []types.UID) {
	a := c.agents[b.agentID]
	c.pool.SetExecutor(b.agentID, c.paid(b.agentID)) // what of it changed in this step counts
	held := c.pool.HoldsIn(b.agentID, b.role)
	stock := c.pool.Stock(b.agentID, b.role)
	fitting := c.pool.Fitting(b.agentID, b.role, b.uids)
	if a == nil || len(held) == 0 || len(fitting) == 0 && !c.executorRuns(b.agentID) {
		return nil, nil
	}
	executor := c.executorInfo(b.agentID, stock)
	for _, uid := range fitting {
		l := c.launches[uid]
		claim, _ := c.pool.Claimed(uid)
		taken, enough := stock.Take(claim.Need)
		if !enough { // Fitting counted the same resources
			c.resolve(uid, fmt.Errorf("the offers of agent %s hold less than they sum up to: %w", l.node, errdefs.ErrUnavailable), "the offers hold too little")
			continue
		}
		info, err := procure.Task(c.procure, procure.Launch{
			AgentID: b.agentID, Node: l.node, OfferIDs: held, Attempt: c.tasks.NextAttempt(uid), Pod: l.pod,
			Need: claim.Need, Role: b.role, Resources: taken, Limits: a.info.Limits, Executor: executor,
		})
		if err != nil {
			c.resolve(uid, err, "the pod cannot be put into a launch")
			continue
		}
		infos, sent = append(infos, info), append(sent, uid)
	}
	if len(infos) > 0 || c.executorRuns(b.agentID) {
		if info := c.placeholderTask(b, stock, executor); info != nil {
			infos = append(infos, *info)
		}
	}
	return infos, sent
}

func launchWhy(node string, pods, all int) string {
	why := fmt.Sprintf("pods to launch on %s: %d", node, pods)
	if all > pods {
		why += ", and the task for its static pods"
	}
	return why
}

// unbatch takes a pod out of its batch; an empty batch goes.
func (c *Core) unbatch(l *launch, uid types.UID) {
	key := slot(l.agentID, l.role)
	b := c.batches[key]
	if b == nil {
		return
	}
	b.uids = slices.DeleteFunc(b.uids, func(o types.UID) bool { return o == uid })
	if len(b.uids) == 0 {
		delete(c.batches, key)
	}
}

// resolve ends a launch: it answers the Bind, and gives back what was reserved and not sent.
func (c *Core) resolve(uid types.UID, err error, why string) {
	l := c.launches[uid]
	if l == nil {
		return
	}
	delete(c.launches, uid)
	c.gate.touched[uid] = true
	c.unbatch(l, uid)
	c.release(uid)
	switch {
	case l.assigned:
		if err != nil {
			c.note(l.task, why)
			c.assign(c.pods[uid])
		}
	case !l.adopted:
		c.do(BindDone{Request: l.request, Err: err, Why: why})
	case err != nil:
		c.note(l.task, why)
	}
}

// dueLaunches gives up launches that took too long.
func (c *Core) dueLaunches() {
	for _, uid := range dueAbove(&c.floors.launches, c.launches, c.now, func(l *launch) time.Time { return l.deadline }) {
		l := c.launches[uid]
		if l.task == "" {
			c.resolve(uid, fmt.Errorf("no offer of agent %s came back in %s: %w", l.node, c.cfg.OfferWait, errdefs.ErrUnavailable), "waited too long for an offer")
			continue
		}
		why := "the pod was not seen bound in time"
		err := fmt.Errorf("launch on node %s: %s: %w", l.node, why, errdefs.ErrUnavailable)
		if task := c.tasks.Get(l.task); task.Live() {
			c.kill(task, -1, why)
		}
		c.resolve(uid, err, why)
	}
}

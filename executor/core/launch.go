package core

import (
	"errors"
	"fmt"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/executor/suicide"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// refusal is why a launch is not even tried, and how Mesos hears of it.
type refusal struct {
	state   mesos.TaskState
	message string
	mesos   mesos.TaskStatus_Reason
	why     string
}

// failed is a refusal whose message is the reason alone: schedulers match on it. The cause goes to the log.
func failed(reason messages.Reason, why string) *refusal {
	return &refusal{mesos.TASK_FAILED, string(reason), mesos.REASON_CONTAINER_LAUNCH_FAILED, oneLine(why)}
}

// invalid is a refusal for which a retry cannot help; its message tells people what to change.
func invalid(reason messages.Reason, detail string) *refusal {
	detail = oneLine(detail)
	return &refusal{mesos.TASK_ERROR, reason.Detail(detail), mesos.REASON_TASK_INVALID, detail}
}

// oneLine joins the lines of several faults: logs and web pages show a message on one.
func oneLine(text string) string { return strings.ReplaceAll(text, "\n", "; ") }

func (c *Core) onLaunch(now time.Time, ev Launch) {
	switch {
	case ev.TaskID == "":
		c.note("", "launch without a task id, ignored")
		return
	case c.exit.begun:
		c.note(ev.TaskID, "launch while shutting down, ignored")
		return
	case c.known(ev.TaskID):
		c.note(ev.TaskID, "launch seen before, dropped")
		return
	}
	launch, no := c.check(ev)
	if no != nil || launch.Pod != nil { // a placeholder is no work
		c.watch.Rearm(now)
		c.drained, c.static.parked = false, ""
	}
	t := c.accept(ev.TaskID)
	if launch.Pod != nil {
		t.namespace, t.name, t.uid = launch.Pod.Namespace, launch.Pod.Name, launch.Pod.UID
	}
	if no != nil {
		c.finish(now, t, ledger.Update{State: no.state, Reason: &no.mesos, Message: no.message}, no.why)
		return
	}
	if launch.Pod == nil {
		c.account(now, t, launch.StaticPods)
		return
	}
	t.state, t.envelope = Binding, launch.Pod
	if c.cfg.LaunchGrace > 0 {
		t.launchBy = now.Add(c.cfg.LaunchGrace)
	}
	c.dropFinishedNamesake(t)
	c.call(t, "launch accepted, not seen before")
}

// known tells whether the task was launched or spoken of before (EX-5, EX-11).
func (c *Core) known(id string) bool {
	_, buried := c.ended.fates[id]
	return buried || c.tasks[id] != nil
}

// accept enters a task that the agent launched. Even one that is refused at once is entered: until its update is
// acknowledged the agent must hear of it at each SUBSCRIBE.
func (c *Core) accept(id string) *task {
	t := c.enter(id)
	if err := c.ledger.AcceptTask(id); err != nil {
		c.note(id, err.Error())
	}
	return t
}

func (c *Core) enter(id string) *task {
	c.seq++
	t := &task{id: id, seq: c.seq, state: Done}
	c.tasks[id] = t
	return t
}

// check reads a launch and refuses what must not be tried. It never asks the API server.
func (c *Core) check(ev Launch) (messages.Launch, *refusal) {
	if !c.connected {
		r := failed(messages.ReasonUnregistered, "the executor is not connected to the agent")
		r.mesos = mesos.REASON_EXECUTOR_UNREGISTERED
		return messages.Launch{}, r
	}
	launch, err := messages.DecodeLaunch(ev.Data)
	switch {
	case errors.Is(err, messages.ErrEncoding):
		return messages.Launch{}, failed(messages.ReasonBadData, err.Error())
	case err != nil:
		return messages.Launch{}, invalid(messages.ReasonBadData, err.Error())
	}
	pod := launch.Pod
	if pod == nil {
		pod = &corev1.Pod{} // a placeholder: only what follows of task and node
	}
	host, own := pod.Annotations[messages.AnnotationBindingHost], pod.Annotations[messages.AnnotationTaskID]
	switch {
	case launch.TaskID != ev.TaskID:
		return launch, failed(messages.ReasonBindingFailed, fmt.Sprintf("the envelope is for task %q", launch.TaskID))
	case launch.Pod == nil && launch.Node == c.cfg.Node:
		return launch, nil
	case launch.Pod != nil && own != ev.TaskID:
		return launch, failed(messages.ReasonBindingFailed, fmt.Sprintf("annotation %s of the pod is %q", messages.AnnotationTaskID, own))
	case launch.Node != c.cfg.Node:
		return launch, failed(messages.ReasonWrongNode, fmt.Sprintf("placed on node %s, this is %s", launch.Node, c.cfg.Node))
	case pod.Spec.NodeName != "" && pod.Spec.NodeName != c.cfg.Node:
		return launch, failed(messages.ReasonWrongNode, fmt.Sprintf("pod has node %s, this is %s", pod.Spec.NodeName, c.cfg.Node))
	case host != "" && host != c.cfg.Node:
		return launch, failed(messages.ReasonWrongNode, fmt.Sprintf("annotation %s is %s, this is %s", messages.AnnotationBindingHost, host, c.cfg.Node))
	case pod.Spec.NodeName == "" && host == "":
		return launch, failed(messages.ReasonBindingFailed, fmt.Sprintf("annotation %s of the pod is missing", messages.AnnotationBindingHost))
	}
	for _, other := range c.sorted() {
		if other.live() && other.namespace == pod.Namespace && other.name == pod.Name {
			return launch, invalid(messages.ReasonDuplicate, fmt.Sprintf("task %s has pod %s/%s here", other.id, pod.Namespace, pod.Name))
		}
	}
	return launch, nil
}

// dropFinishedNamesake takes an ended pod of the same full name from the kubelet, which would ignore the second of
// two. Its API object has gone, or the new one could not exist.
func (c *Core) dropFinishedNamesake(t *task) {
	for _, p := range c.sortedPods() {
		if p.object.Namespace == t.namespace && p.object.Name == t.name {
			c.drop(p, "a new pod has its name")
		}
	}
}

// call asks the API server to bind the pod, or to patch one that has its node already.
func (c *Core) call(t *task, why string) {
	t.calling = true
	annotations := messages.OurAnnotations(t.envelope.Annotations)
	if t.envelope.Spec.NodeName == "" {
		c.do(Bind{TaskID: t.id, Namespace: t.namespace, Name: t.name, UID: t.uid, Node: c.cfg.Node, Annotations: annotations, Why: why})
		return
	}
	c.do(Patch{TaskID: t.id, Namespace: t.namespace, Name: t.name, UID: t.uid, Node: c.cfg.Node, Annotations: annotations, Why: why})
}

func (c *Core) onBound(now time.Time, ev Bound) {
	t := c.tasks[ev.TaskID]
	if t == nil || !t.calling || !t.live() {
		c.boundLate(ev, t)
		return
	}
	t.calling, t.unsure = false, false
	switch {
	case t.state == Killing:
		c.unbind(now, t)
		return
	case ev.Pod == nil || ev.Pod.UID != t.uid:
		c.refuseBinding(now, t, "the API server answered with another pod")
		return
	case ev.Pod.Spec.NodeName != "" && ev.Pod.Spec.NodeName != c.cfg.Node:
		c.finish(now, t, failedUpdate(messages.ReasonWrongNode), "pod is bound to "+ev.Pod.Spec.NodeName)
		return
	case t.vanished:
		c.finishAs(now, t, endDeleted, "the pod was deleted before it could start")
		return
	}
	c.start(now, t, newest(ev.Pod, t.early))
}

// boundLate is an answer that came after the task's end, or twice.
func (c *Core) boundLate(ev Bound, t *task) {
	if ev.Pod == nil || t != nil && t.live() {
		c.note(ev.TaskID, "bound, but nobody waits for it")
		return
	}
	c.strangeBound(ev.TaskID, t, ev.Pod)
}

// start tells Mesos of the pod first and the kubelet then, so that no later state can come before TASK_STARTING
// (EX-38, EX-42). The kubelet gets the API server's copy with its node set (EX-24).
func (c *Core) start(now time.Time, t *task, object *corev1.Pod) {
	bound := *object
	bound.Spec.NodeName = c.cfg.Node
	object = &bound
	if _, err := messages.EncodeStatus(t.namespace, t.name, t.status); err != nil {
		u := failedUpdate(messages.ReasonBindingFailed)
		u.Message = err.Error()
		c.finish(now, t, u, "the status payload cannot be encoded")
		c.delete(t, 0, "bound here with nobody to run it")
		return
	}
	t.state, t.early, t.envelope = Starting, nil, nil
	c.report(now, t, ledger.Update{State: mesos.TASK_STARTING, Message: string(messages.ReasonBound)}, "bound here")
	c.pods[t.uid] = &pod{object: object, taskID: t.id}
	c.feed("pod " + object.Namespace + "/" + object.Name + " is bound here")
	c.deletionSeen(now, t, object)
}

func failedUpdate(reason messages.Reason) ledger.Update {
	return ledger.Update{State: mesos.TASK_FAILED, Reason: reasonOf(mesos.REASON_CONTAINER_LAUNCH_FAILED), Message: string(reason)}
}

func (c *Core) refuseBinding(now time.Time, t *task, why string) {
	reason := messages.ReasonBindingFailed
	if t.envelope.Spec.NodeName != "" {
		reason = messages.ReasonPatchFailed
	}
	c.finish(now, t, failedUpdate(reason), why)
}

func (c *Core) onBindFailed(now time.Time, ev BindFailed) {
	t := c.tasks[ev.TaskID]
	if t == nil || !t.calling || !t.live() {
		c.note(ev.TaskID, fmt.Sprintf("binding failed, but nobody waits for it: %v", ev.Err))
		return
	}
	t.calling, t.unsure = false, worthRetry(ev.Err)
	why := fmt.Sprintf("%v", ev.Err)
	switch {
	case t.state == Killing:
		c.finishAs(now, t, t.ending, "killed while binding, which failed: "+why)
	case t.unsure:
		t.backoff = nextBackoff(t.backoff)
		t.retryAt = now.Add(t.backoff)
		c.note(t.id, fmt.Sprintf("again in %s: %s", t.backoff, why))
	case errors.Is(ev.Err, errdefs.ErrConflict) && t.envelope.Spec.NodeName == "":
		c.finish(now, t, failedUpdate(messages.ReasonWrongNode), why)
	default:
		c.refuseBinding(now, t, why)
	}
}

// unbind ends a task that was killed while its pod was being bound: the pod would stay bound here for ever with
// nobody running it (EX-35 to EX-37).
func (c *Core) unbind(now time.Time, t *task) {
	if !t.vanished {
		c.delete(t, 0, "killed while binding, no container was started")
	}
	c.finishAs(now, t, t.ending, "killed while binding, no container was started")
}

// launchGraceOver ends a launch that takes too long (EX-54, EX-55).
func (c *Core) launchGraceOver(now time.Time, t *task) {
	t.launchBy = time.Time{}
	why := fmt.Sprintf("not running %s after its launch", c.cfg.LaunchGrace)
	switch {
	case t.state == Binding && t.calling:
		c.beginKill(now, t, endLaunch, 0, why)
	case t.state == Binding:
		c.finishAs(now, t, endLaunch, why)
	default:
		c.endHere(now, t, endLaunch, why)
	}
}

// onConfigured takes other times over. Launches under way get what the new grace gives them; the idle time starts anew.
func (c *Core) onConfigured(ev Configured) {
	for _, t := range c.tasks {
		switch {
		case t.launchBy.IsZero():
		case ev.LaunchGrace == 0:
			t.launchBy = time.Time{}
		default:
			t.launchBy = t.launchBy.Add(ev.LaunchGrace - c.cfg.LaunchGrace)
		}
	}
	c.static.pods, c.static.told = ev.Static, true
	c.cfg.LaunchGrace, c.cfg.SuicideTimeout = ev.LaunchGrace, ev.SuicideTimeout
	c.watch = suicide.New(ev.SuicideTimeout)
}

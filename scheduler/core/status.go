package core

import (
	"fmt"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// Reasons in the status of pods that fail for another cause than their containers; those that are not here are "Task" and
// Mesos' state.
const (
	// ReasonExecutorTerminated: the pod lost its executor.
	ReasonExecutorTerminated = "ExecutorTerminated"
	// ReasonLaunchTimeout: the pod did not run within the launch grace period.
	ReasonLaunchTimeout = "LaunchTimeout"
)

// onStatus applies an update, then acknowledges it. An update that comes before the pods are known waits: without an
// acknowledgement Mesos sends it again.
func (c *Core) onStatus(ev StatusUpdate) {
	status := &ev.Status
	id := status.TaskID.Value
	if !c.podsSynced {
		c.note(id, "status before the pods are listed; Mesos sends it again")
		return
	}
	delete(c.reconciliation.awaiting, id)
	if strings.HasPrefix(id, markerPrefix) {
		return
	}
	c.apply(status)
	c.observeDraining(status)
	if len(status.UUID) > 0 {
		c.do(Acknowledge{AgentID: status.GetAgentID().GetValue(), TaskID: id, UUID: status.UUID, Why: tasks.Name(status.GetState()) + " is applied"})
	}
}

func (c *Core) apply(status *mesos.TaskStatus) {
	id, state := status.TaskID.Value, status.GetState()
	if key, is := messages.ParsePlaceholderID(id); is {
		c.onPlaceholder(status, key)
		return
	}
	task := c.tasks.Get(id)
	if task == nil {
		if task = c.meet(status); task == nil {
			return
		}
	}
	c.dirty[task.AgentID] = true
	c.gate.touched[task.UID] = true
	before := task.State
	_, step := c.tasks.Apply(id, state)
	if a := c.agents[task.AgentID]; a != nil && step != tasks.Final && provesExecutor(status) {
		a.executor = !a.ended
	}
	switch step {
	case tasks.Final:
		if tasks.KindOf(before) == tasks.Vanished && tasks.KindOf(state) == tasks.Live {
			c.do(Kill{TaskID: id, AgentID: task.AgentID, Grace: -1, Why: "the task was given up as " + tasks.Name(before) + " and has come back"})
			return
		}
		c.note(id, fmt.Sprintf("%s after %s is ignored, the task has ended", tasks.Name(state), tasks.Name(before)))
	case tasks.Past:
		c.note(id, fmt.Sprintf("%s after %s is of the past", tasks.Name(state), tasks.Name(before)))
	case tasks.Take:
		switch {
		case tasks.Terminal(state):
			c.end(task, before, status)
		case tasks.KindOf(state) == tasks.Away:
			c.note(id, tasks.Name(state)+": the pod is kept, it may still run")
			if state == mesos.TASK_UNREACHABLE {
				c.lostAgent(task.AgentID, "Mesos does not reach agent "+task.AgentID)
			} else {
				c.askSurvey("Mesos does not know task " + id + ", nor perhaps its agent")
			}
		case c.agents[task.AgentID] != nil && tasks.KindOf(before) == tasks.Away:
			c.agents[task.AgentID].gone = false
		}
	}
}

func fromExecutor(status *mesos.TaskStatus) bool {
	return status.Source != nil && *status.Source == mesos.SOURCE_EXECUTOR
}

// provesExecutor: the executor sent the status, and not on its way out.
func provesExecutor(status *mesos.TaskStatus) bool {
	return fromExecutor(status) && status.GetMessage() != string(messages.ReasonShutdown) && status.GetState() != mesos.TASK_LOST
}

// meet makes a record for a task that only Mesos knows: a launch of an earlier scheduler goes on, an orphan is killed.
// It returns nil when there is nothing to apply.
func (c *Core) meet(status *mesos.TaskStatus) *tasks.Task {
	id, state, agentID := status.TaskID.Value, status.GetState(), status.GetAgentID().GetValue()
	uid, _, err := messages.ParseTaskID(id)
	if err != nil {
		c.note(id, "status of a task that is not ours")
		return nil
	}
	pod := c.pods[uid]
	if tasks.Terminal(state) || tasks.KindOf(state) == tasks.Unheard {
		if pod != nil {
			c.tasks.Heard(id)
		}
		c.note(id, tasks.Name(state)+" of a task that is not known")
		return nil
	}
	assigned := c.resumes(pod, id, agentID)
	task := c.tasks.Adopt(id, agentID, state, pod)
	why := ""
	switch {
	case pod == nil:
		why = "no pod has this task"
	case tasks.Ended(pod):
		why = "the task's pod has ended"
	case assigned:
		c.unassign(uid)
	case pod.Spec.NodeName != "":
		why = "the pod is bound by another task"
	case c.launches[uid] != nil:
		why = "a later launch of the pod is under way"
	case pod.DeletionTimestamp != nil:
		why = "the task's pod is being deleted"
	}
	if why != "" {
		c.kill(task, -1, why)
		return task
	}
	delete(c.waiting, uid)
	c.release(uid)
	l := &launch{adopted: true, assigned: assigned, pod: pod, agentID: agentID, task: id, deadline: c.now.Add(c.cfg.LaunchTimeout)}
	if assigned {
		l.node = pod.Spec.NodeName
	}
	c.enterLaunch(uid, l)
	c.note(id, "a launch of an earlier scheduler goes on")
	return task
}

// lose ends a task that Mesos will not report on.
func (c *Core) lose(task *tasks.Task, why string) {
	before := task.State
	state, source, reason := mesos.TASK_LOST, mesos.SOURCE_MASTER, mesos.REASON_AGENT_REMOVED
	if _, step := c.tasks.Apply(task.ID, state); step == tasks.Take {
		c.end(task, before, &mesos.TaskStatus{TaskID: mesos.TaskID{Value: task.ID}, State: &state, Source: &source, Reason: &reason, Message: &why})
	}
}

// end draws the consequences of a task's end, once per task.
func (c *Core) end(task *tasks.Task, before mesos.TaskState, status *mesos.TaskStatus) {
	delete(c.killing, task.ID)
	c.gate.touched[task.UID] = true
	c.dirty[task.AgentID] = true
	c.endLaunch(task, before, status)
	pod := c.pods[task.UID]
	if pod == nil {
		c.tasks.Drop(task.ID)
	} else {
		task.Verdict = c.verdict(task, status)
		c.judge(pod, task)
		c.assign(pod)
	}
	if a := c.agents[task.AgentID]; a != nil && a.gone && c.tasks.LiveOn(task.AgentID) == 0 {
		c.askSurvey("the last task of agent " + task.AgentID + ", which Mesos lost, has ended")
	}
}

// endLaunch answers a Bind whose task has ended. A task that its executor had started has bound the pod: the news of it
// is on its way.
func (c *Core) endLaunch(task *tasks.Task, before mesos.TaskState, status *mesos.TaskStatus) {
	l := c.launches[task.UID]
	if l == nil || l.task != task.ID {
		return
	}
	state := status.GetState()
	started := before == mesos.TASK_STARTING || before == mesos.TASK_RUNNING || state == mesos.TASK_FINISHED
	if started {
		l.deadline = earlier(l.deadline, c.now.Add(reportWait))
		c.floors.launches.lower(l.deadline)
		return
	}
	kind := errdefs.ErrUnavailable
	if state == mesos.TASK_ERROR {
		kind = errdefs.ErrRefused
	}
	why := "the task ended before the pod was bound: " + describe(status)
	c.resolve(task.UID, fmt.Errorf("launch on node %s: %s: %w", l.node, why, kind), why)
}

// describe is a status in words: "FAILED (REASON_EXECUTOR_TERMINATED): abnormal executor termination".
func describe(status *mesos.TaskStatus) string {
	text := tasks.Name(status.GetState())
	if status.Reason != nil {
		text += " (" + status.Reason.String() + ")"
	}
	if message := status.GetMessage(); message != "" {
		text += ": " + message
	}
	return text
}

// verdict is what the pod's status says should nobody else report: at once when the executor cannot, after a while when
// its kubelet ought to.
func (c *Core) verdict(task *tasks.Task, status *mesos.TaskStatus) tasks.Verdict {
	state := status.GetState()
	v := tasks.Verdict{Reason: "Task" + camel(tasks.Name(state)), Message: "Mesos task " + task.ID + ": " + describe(status), At: c.now}
	if strings.HasPrefix(status.GetMessage(), string(messages.ReasonLaunchFailed)) {
		v.Reason, v.Message = ReasonLaunchTimeout, v.Message+"; the pod's earlier events tell what it waited for: an image, a volume, or its probes"
	}
	v.Relaunch = executorDied(status)
	switch {
	case v.Relaunch && status.GetReason() != mesos.REASON_RECONCILIATION:
		if state == mesos.TASK_FAILED {
			v.Reason = ReasonExecutorTerminated
		}
	case tasks.KindOf(state) == tasks.Reported && fromExecutor(status),
		status.Reason != nil && status.GetReason() == mesos.REASON_RECONCILIATION:
		v.At = c.now.Add(reportWait)
	}
	return v
}

// executorDied tells of a task that ended with its executor, or that never reached one: no kubelet saw its pod fail.
func executorDied(status *mesos.TaskStatus) bool {
	if status.Reason != nil {
		switch status.GetReason() {
		case mesos.REASON_EXECUTOR_TERMINATED, mesos.REASON_EXECUTOR_UNREGISTERED, mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT,
			mesos.REASON_EXECUTOR_REREGISTRATION_TIMEOUT:
			return true
		case mesos.REASON_CONTAINER_LIMITATION, mesos.REASON_CONTAINER_LIMITATION_MEMORY, mesos.REASON_CONTAINER_LIMITATION_DISK:
			// From the agent: the executor's container. From the executor: a container of the pod, or an eviction.
			return !fromExecutor(status)
		case mesos.REASON_AGENT_REMOVED:
			return false
		}
	}
	switch status.GetState() {
	case mesos.TASK_LOST, mesos.TASK_GONE, mesos.TASK_DROPPED:
		return !fromExecutor(status)
	}
	return false
}

// camel turns GONE_BY_OPERATOR into GoneByOperator.
func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.Split(strings.ToLower(name), "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// judge starts a bound pod anew, or fails it, whose task has ended and on which nobody reports. It is called at the
// task's end, at each change of the pod, and when the verdict's time has come. A pod that is not bound, or on which the
// executor has yet to write the task's id, keeps the verdict: the news may be seen later than the task's end.
func (c *Core) judge(pod *corev1.Pod, task *tasks.Task) {
	if pod.Spec.NodeName == "" || task.Verdict.Reason == "" {
		return
	}
	if l := c.launches[task.UID]; l != nil && l.task == task.ID {
		return
	}
	mine := pod.Annotations[messages.AnnotationTaskID] == task.ID
	if mine && !tasks.Ended(pod) && c.now.Before(task.Verdict.At) {
		c.verdicts[task.ID] = task
		c.floors.verdicts.lower(task.Verdict.At)
		return
	}
	verdict := task.Verdict
	delete(c.verdicts, task.ID)
	task.Verdict = tasks.Verdict{}
	if !mine {
		return
	}
	if tasks.Ended(pod) {
		c.addReason(pod, task, verdict)
		return
	}
	state := tasks.Name(task.State)
	switch {
	case pod.DeletionTimestamp != nil:
		c.do(DeletePod{Pod: pod, Why: "the pod is being deleted, its task ended as " + state + " and no kubelet is left to finish it"})
	case verdict.Relaunch && c.placeable(pod) && c.mayReturn(pod, task):
		c.do(PodEvent{Pod: pod, Type: corev1.EventTypeWarning, Reason: "Relaunching",
			Note: verdict.Message + "; the pod is started anew on node " + pod.Spec.NodeName})
		c.assign(pod)
	default:
		task.GivenUp = true
		c.failPod(pod, verdict.Reason, verdict.Message, "the task ended as "+state+" and nobody else reports on the pod")
	}
}

// failPod fails a pod and says so in an event: its status may be written over, and events are where people look.
func (c *Core) failPod(pod *corev1.Pod, reason, message, why string) {
	c.do(PodEvent{Pod: pod, Type: corev1.EventTypeWarning, Reason: reason, Note: message})
	c.do(FailPod{Pod: pod, Reason: reason, Message: message, Why: why})
}

// addReason tells why a pod failed whose kubelet has said so already, and does not know the reason: the executor gave it
// up.
func (c *Core) addReason(pod *corev1.Pod, task *tasks.Task, verdict tasks.Verdict) {
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "" || verdict.Relaunch || tasks.KindOf(task.State) != tasks.Vanished {
		return
	}
	task.GivenUp = true
	c.failPod(pod, verdict.Reason, verdict.Message, "the kubelet failed the pod, and does not know why: "+tasks.Name(task.State))
}

// mayReturn tells that the agent of a task is not known to be gone: the pod's node is still its.
func (c *Core) mayReturn(pod *corev1.Pod, task *tasks.Task) bool {
	id, known := c.nodes[pod.Spec.NodeName]
	return !known || id == task.AgentID
}

// resumes tells that a task which only Mesos knows is the launch of an assigned pod by an earlier scheduler: its
// executor has yet to write its id onto the pod.
func (c *Core) resumes(pod *corev1.Pod, id, agentID string) bool {
	if !c.placeable(pod) {
		return false
	}
	if on, known := c.nodes[pod.Spec.NodeName]; known && on != agentID {
		return false
	}
	_, attempt, err := messages.ParseTaskID(id)
	l := c.launches[pod.UID]
	return err == nil && attempt > c.tasks.Highest(pod.UID) && (l == nil || l.assigned && l.task == "")
}

// dueVerdicts looks again at pods whose reporters had their time.
func (c *Core) dueVerdicts() {
	for _, id := range dueAbove(&c.floors.verdicts, c.verdicts, c.now, func(t *tasks.Task) time.Time { return t.Verdict.At }) {
		task := c.verdicts[id]
		if pod := c.pods[task.UID]; pod != nil {
			c.judge(pod, task)
		} else {
			delete(c.verdicts, id)
		}
		if c.verdicts[id] != nil {
			c.floors.verdicts.lower(task.Verdict.At)
		}
	}
}

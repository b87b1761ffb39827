package core

import (
	"fmt"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
)

// The life of an executor. The next state comes from the executor or, Ended, from the end of its container.
const (
	executorStarting = iota
	executorRunning
	executorEnding
	executorEnded
)

// agentExecutor is an executor on an agent.
type agentExecutor struct {
	a         *agent
	f         *agentFramework
	info      *mesos.ExecutorInfo
	custom    bool // not made for a task with a command
	container string
	state     int
	stream    string
	restored  bool // by a restarted agent, and not subscribed since
	ever      bool // was sent a task
	tasks     map[string]*agentTask
	order     []string // of arrival
	grace     *timer
	script    *scripted
	// What to tell of its tasks when the container ends; zero says that it ended.
	why       mesos.TaskStatus_Reason
	lostState mesos.TaskState
	lostText  string
}

// agentTask is a task on an agent, until its last status is acknowledged.
type agentTask struct {
	info   *mesos.TaskInfo // without data once it was delivered
	queued bool
	group  bool
	state  mesos.TaskState
	// status is the last one, for the master after a restart.
	status *mesos.TaskStatus
}

func (e *agentExecutor) id() string { return e.info.ExecutorID.Value }

func (e *agentExecutor) send(event *executor.Event) {
	if e.script != nil {
		e.script.receive(event)
		return
	}
	if e.stream != "" {
		e.a.c.emit(SendExecutor{e.stream, event})
	}
}

func (e *agentExecutor) containerOf() Container {
	return Container{Agent: e.a.cfg.Name, AgentID: e.a.id, ID: e.container, Executor: e.info, Framework: e.f.info}
}

// run starts tasks, together if they are a group.
func (a *agent) run(framework *mesos.FrameworkInfo, tasks []mesos.TaskInfo, group bool) {
	f := a.frameworks[framework.ID.GetValue()]
	if f == nil {
		f = &agentFramework{info: framework, executors: map[string]*agentExecutor{}, streams: map[string]*updates{}}
		a.frameworks[framework.ID.GetValue()] = f
	}
	if f.ending {
		return
	}
	id := executorOf(&tasks[0])
	e := f.executors[id]
	if e == nil {
		e = a.newExecutor(f, &tasks[0])
	}
	if e.state >= executorEnding {
		for i := range tasks {
			a.refuse(f, &tasks[i], mesos.REASON_EXECUTOR_TERMINATED, "Executor terminating or terminated")
		}
		return
	}
	for i := range tasks {
		info := tasks[i]
		info.Executor = nil
		e.tasks[info.TaskID.Value] = &agentTask{info: &info, queued: true, group: group, state: mesos.TASK_STAGING}
		e.order = append(e.order, info.TaskID.Value)
	}
	if e.state == executorRunning {
		e.launchQueued()
	}
	a.checkpoint()
	if e.state == executorStarting && e.container == "" {
		e.start()
	}
}

func (a *agent) newExecutor(f *agentFramework, task *mesos.TaskInfo) *agentExecutor {
	e := &agentExecutor{a: a, f: f, tasks: map[string]*agentTask{}}
	if task.Executor != nil {
		info := *task.Executor
		e.info, e.custom = &info, true
	} else {
		command := *task.Command
		e.info = &mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: task.TaskID.Value}, FrameworkID: f.info.ID, Command: &command,
			Name: ptr("Command Executor (Task: " + task.TaskID.Value + ") (Command: " + command.GetValue() + ")")}
	}
	f.executors[e.id()] = e
	return e
}

func (e *agentExecutor) start() {
	e.container = e.a.c.uuidText()
	if s := e.a.cfg.Script; s != nil {
		e.script = newScripted(e, *s)
		return
	}
	e.a.checkpoint()
	e.a.c.emit(StartContainer{e.containerOf()})
	container := e.container
	e.a.later(e.a.c.cfg.ExecutorRegistration, func() {
		if e.state == executorStarting && e.container == container {
			e.why, e.lostText = mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT, "Executor did not register within "+e.a.c.cfg.ExecutorRegistration.String()
			e.destroy()
		}
	})
}

// launchQueued delivers what waited.
func (e *agentExecutor) launchQueued() {
	var group []mesos.TaskInfo
	for _, id := range e.order {
		t := e.tasks[id]
		if t == nil || !t.queued {
			continue
		}
		t.queued = false
		e.ever = true
		full := *t.info
		if e.custom {
			full.Executor = e.info
		}
		t.info.Data = nil
		if t.group {
			group = append(group, full)
			continue
		}
		e.send(&executor.Event{Type: executor.Event_LAUNCH, Launch: &executor.Event_Launch{Task: full}})
	}
	if len(group) > 0 {
		e.send(&executor.Event{Type: executor.Event_LAUNCH_GROUP, LaunchGroup: &executor.Event_LaunchGroup{TaskGroup: mesos.TaskGroupInfo{Tasks: group}}})
	}
}

// destroy kills the executor's container; its end is told by ContainerEnded.
func (e *agentExecutor) destroy() {
	if e.state == executorEnded {
		return
	}
	e.state = executorEnding
	if e.script != nil {
		e.a.c.mail = append(e.a.c.mail, func() { e.ended(9) })
		return
	}
	e.a.c.emit(DestroyContainer{e.containerOf()})
}

// shutdown asks the executor to end, and destroys it after its grace.
func (e *agentExecutor) shutdown() {
	if e.state >= executorEnding {
		return
	}
	if e.state == executorStarting {
		e.destroy()
		return
	}
	e.state = executorEnding
	e.send(&executor.Event{Type: executor.Event_SHUTDOWN})
	e.grace = e.a.later(e.graceOf(), e.destroy)
}

func (e *agentExecutor) graceOf() time.Duration {
	if g := e.info.ShutdownGracePeriod; g != nil {
		return time.Duration(g.Nanoseconds)
	}
	return e.a.c.cfg.ExecutorGrace
}

// ContainerEnded tells that an executor ended, with its raw wait status, or that it could not be started, and why.
func (c *Cluster) ContainerEnded(now time.Time, name, container string, status int32, failed string) []Effect {
	return c.do(now, func() {
		a := c.agents[name]
		if a == nil || !a.up {
			return
		}
		for _, f := range a.frameworks {
			for _, e := range f.executors {
				if e.container != container || e.state == executorEnded {
					continue
				}
				if failed != "" {
					e.why, e.lostText = mesos.REASON_CONTAINER_LAUNCH_FAILED, failed
				}
				e.ended(status)
				return
			}
		}
	})
}

// ended tells the scheduler of all that the executor has not told.
func (e *agentExecutor) ended(status int32) {
	if e.state == executorEnded {
		return
	}
	e.state = executorEnded
	e.grace.stop()
	if e.stream != "" {
		e.a.c.emit(CloseExecutor{e.stream})
		e.stream = ""
	}
	reason, state, text := mesos.REASON_EXECUTOR_TERMINATED, mesos.TASK_FAILED, "Executor terminated"
	if e.lostText != "" {
		reason, text = e.why, e.lostText
	}
	if e.lostState != mesos.TASK_STAGING && e.lostState != 0 {
		state = e.lostState
		if !capabilitiesOf(e.f.info).partitionAware {
			state = mesos.TASK_LOST
		}
	}
	framework, executorID := e.f.info.ID.GetValue(), e.id()
	if !e.f.ending {
		for _, id := range slices.Clone(e.order) {
			if t := e.tasks[id]; t != nil && !terminal(t.state) {
				e.a.generate(e, t, state, reason, text)
			}
		}
	}
	if e.script != nil && e.script.script.Acts {
		e.a.c.emit(Act{Step: ActLeave, Agent: e.a.cfg.Name, Node: e.a.cfg.Hostname, Framework: framework})
	}
	if e.custom {
		e.a.toMaster(func(m *master, n *node) { m.executorEnded(n, framework, executorID, status) })
	}
	e.a.tidy(e.f)
	e.a.checkpoint()
}

// kill passes a KILL on, or answers it where the executor cannot.
func (a *agent) kill(framework, id string, policy *mesos.KillPolicy) {
	f := a.frameworks[framework]
	var e *agentExecutor
	if f != nil {
		for _, one := range f.executors {
			if one.tasks[id] != nil {
				e = one
			}
		}
	}
	if e == nil {
		a.dropped(framework, f, id)
		return
	}
	t := e.tasks[id]
	switch {
	case t.queued:
		for _, other := range slices.Clone(e.order) {
			if one := e.tasks[other]; one != nil && one.queued && (one == t || t.group && one.group) {
				a.generate(e, one, mesos.TASK_KILLED, mesos.REASON_TASK_KILLED_DURING_LAUNCH, "Task killed while it was queued")
			}
		}
		a.checkpoint()
	case e.state == executorRunning:
		e.send(&executor.Event{Type: executor.Event_KILL, Kill: &executor.Event_Kill{TaskID: mesos.TaskID{Value: id}, KillPolicy: policy}})
	}
}

// dropped answers a KILL of a task that the agent does not know.
func (a *agent) dropped(framework string, f *agentFramework, id string) {
	state := mesos.TASK_LOST
	if f != nil && capabilitiesOf(f.info).partitionAware {
		state = mesos.TASK_DROPPED
	}
	status := mesos.TaskStatus{TaskID: mesos.TaskID{Value: id}, State: &state, Source: mesos.SOURCE_AGENT.Enum(), AgentID: &mesos.AgentID{Value: a.id},
		Reason: mesos.REASON_EXECUTOR_TERMINATED.Enum(), Message: ptr("Attempted to kill an unknown task"), Timestamp: ptr(seconds(a.c.now)), UUID: a.c.uuid()}
	a.toMaster(func(m *master, n *node) { m.statusUpdate(n, framework, status, state) })
}

// refuse answers for a task that cannot be started here.
func (a *agent) refuse(f *agentFramework, info *mesos.TaskInfo, reason mesos.TaskStatus_Reason, why string) {
	state := mesos.TASK_LOST
	if capabilitiesOf(f.info).partitionAware {
		state = mesos.TASK_DROPPED
	}
	status := mesos.TaskStatus{TaskID: info.TaskID, State: &state, Source: mesos.SOURCE_AGENT.Enum(), AgentID: &mesos.AgentID{Value: a.id},
		Reason: &reason, Message: &why, Timestamp: ptr(seconds(a.c.now)), UUID: a.c.uuid()}
	a.update(f, status)
}

func (a *agent) message(framework, executorID string, data []byte) {
	if f := a.frameworks[framework]; f != nil && f.executors[executorID] != nil {
		f.executors[executorID].send(&executor.Event{Type: executor.Event_MESSAGE, Message: &executor.Event_Message{Data: data}})
	}
}

// shown is the task as the agent tells it to a new master.
func (t *agentTask) shown(f *agentFramework, e *agentExecutor, agentID string) *mesos.Task {
	task := &mesos.Task{
		Name: t.info.Name, TaskID: t.info.TaskID, FrameworkID: *f.info.ID, AgentID: mesos.AgentID{Value: agentID}, State: ptr(t.state),
		Resources: t.info.Resources, Labels: t.info.Labels, Discovery: t.info.Discovery, Container: t.info.Container,
		HealthCheck: t.info.HealthCheck, KillPolicy: t.info.KillPolicy, User: &f.info.User,
	}
	if e.custom {
		task.ExecutorID = &e.info.ExecutorID
	}
	if t.status != nil {
		task.Statuses = []mesos.TaskStatus{*t.status}
	}
	if s := f.streams[t.info.TaskID.Value]; s != nil && len(s.pending) > 0 {
		task.StatusUpdateState, task.StatusUpdateUUID = s.pending[0].State, s.pending[0].UUID
	}
	return task
}

func portOf(address string) int32 {
	var port int32
	for i := len(address) - 1; i >= 0; i-- {
		if address[i] == ':' {
			_, _ = fmt.Sscan(address[i+1:], &port) // no number is no port
			break
		}
	}
	return port
}

package core

import (
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/allocator"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// taskOf is what the master keeps of a task: all but its data.
func taskOf(f *framework, info *mesos.TaskInfo) *mesos.Task {
	t := &mesos.Task{
		Name: info.Name, TaskID: info.TaskID, FrameworkID: mesos.FrameworkID{Value: f.id}, AgentID: info.AgentID,
		State: ptr(mesos.TASK_STAGING), Resources: info.Resources, Labels: info.Labels, Discovery: info.Discovery,
		Container: info.Container, HealthCheck: info.HealthCheck, KillPolicy: info.KillPolicy, User: &f.info.User,
	}
	if info.Executor != nil {
		t.ExecutorID = &info.Executor.ExecutorID
		if info.Executor.Command.GetUser() != "" {
			t.User = info.Executor.Command.User
		}
	}
	return t
}

func (m *master) addTask(f *framework, n *node, info *mesos.TaskInfo, role string, needs resources.Bag) *task {
	for i := range info.Resources {
		if info.Resources[i].AllocationInfo == nil {
			info.Resources[i].AllocationInfo = &mesos.Resource_AllocationInfo{Role: &role}
		}
	}
	if info.Executor != nil {
		for i := range info.Executor.Resources {
			if info.Executor.Resources[i].AllocationInfo == nil {
				info.Executor.Resources[i].AllocationInfo = &mesos.Resource_AllocationInfo{Role: &role}
			}
		}
	}
	t := &task{info: taskOf(f, info), role: role, resources: needs, agent: n, framework: f.id, latest: mesos.TASK_STAGING, forwarded: mesos.TASK_STAGING}
	f.tasks[info.TaskID.Value] = t
	n.tasks[taskKey{f.id, info.TaskID.Value}] = t
	return t
}

// withdraw takes back a task that was not sent to its agent.
func (m *master) withdraw(f *framework, t *task) {
	delete(f.tasks, t.info.TaskID.Value)
	delete(t.agent.tasks, taskKey{f.id, t.info.TaskID.Value})
	if t.info.ExecutorID != nil {
		key := executorKey{f.id, t.info.ExecutorID.Value}
		if _, runs := t.agent.executors[key]; runs && !t.agent.busy(key) {
			delete(t.agent.executors, key)
		}
	}
}

// busy tells whether an executor has tasks.
func (n *node) busy(key executorKey) bool {
	for _, t := range n.tasks {
		if t.framework == key.framework && t.info.ExecutorID.GetValue() == key.id {
			return true
		}
	}
	return false
}

// reported is the state that the scheduler was told last.
func (t *task) reported() mesos.TaskState {
	if t.uuid == nil {
		return t.latest
	}
	return t.forwarded
}

func (f *framework) sortedTasks() []*task {
	list := make([]*task, 0, len(f.tasks))
	for _, t := range f.tasks {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *task) int { return compare(a.info.TaskID.Value, b.info.TaskID.Value) })
	return list
}

// statusUpdate is what an agent tells of a task: the next status to acknowledge, and the newest state.
func (m *master) statusUpdate(n *node, framework string, status mesos.TaskStatus, latest mesos.TaskState) {
	f := m.frameworks[framework]
	if f == nil {
		return
	}
	t := f.tasks[status.TaskID.Value]
	if t != nil && t.agent == n {
		t.note(status, latest)
		if terminal(t.latest) {
			m.free(f, t)
		}
	}
	f.send(update(status))
}

// note keeps a status for the master's pages; a repeated state replaces the one before.
func (t *task) note(status mesos.TaskStatus, latest mesos.TaskState) {
	kept := status
	kept.Data = nil
	if n := len(t.info.Statuses); n > 0 && t.info.Statuses[n-1].GetState() == status.GetState() {
		t.info.Statuses[n-1] = kept
	} else {
		t.info.Statuses = append(t.info.Statuses, kept)
	}
	if !terminal(t.latest) {
		t.latest = latest
		t.info.State = &t.latest
	}
	if status.UUID != nil {
		t.forwarded, t.uuid = status.GetState(), status.UUID
		t.info.StatusUpdateState, t.info.StatusUpdateUUID = &t.forwarded, t.uuid
	}
}

// free gives the resources of an ended task back.
func (m *master) free(f *framework, t *task) {
	if t.freed {
		return
	}
	t.freed = true
	m.alloc.Recover(m.c.now, allocator.Grant{Framework: f.id, Role: t.role, Agent: t.agent.id, Resources: t.resources}, 0)
}

// removeTask moves a task to the ended ones.
func (m *master) removeTask(f *framework, t *task) {
	m.free(f, t)
	delete(f.tasks, t.info.TaskID.Value)
	delete(t.agent.tasks, taskKey{f.id, t.info.TaskID.Value})
	f.ended = append(f.ended, t)
	if over := len(f.ended) - m.c.cfg.Completed; over > 0 {
		f.ended = slices.Delete(f.ended, 0, over)
	}
}

func (m *master) acknowledge(f *framework, ack *scheduler.Call_Acknowledge) {
	n := m.agents[ack.AgentID.Value]
	if n == nil || !n.connected {
		return
	}
	if t := f.tasks[ack.TaskID.Value]; t != nil && slices.Equal(t.uuid, ack.UUID) && terminal(t.forwarded) {
		m.removeTask(f, t)
	}
	m.tell(n, func(a *agent) { a.acknowledged(f.id, ack.TaskID.Value, ack.UUID) })
	m.checkDrained(n)
}

// executorEnded is told by an agent whose executor has ended.
func (m *master) executorEnded(n *node, framework, executor string, status int32) {
	key := executorKey{framework, executor}
	e := n.executors[key]
	if e == nil {
		return
	}
	m.removeExecutor(n, key, e)
	if f := m.frameworks[framework]; f != nil {
		f.send(&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{
			AgentID: n.info.ID, ExecutorID: &mesos.ExecutorID{Value: executor}, Status: &status,
		}})
	}
}

func (m *master) removeExecutor(n *node, key executorKey, e *runningExecutor) {
	delete(n.executors, key)
	m.alloc.Recover(m.c.now, allocator.Grant{Framework: key.framework, Role: e.role, Agent: n.id, Resources: e.resources}, 0)
}

// message is what an executor tells its scheduler.
func (m *master) message(n *node, framework, executor string, data []byte) {
	if f := m.frameworks[framework]; f != nil {
		f.send(&scheduler.Event{Type: scheduler.Event_MESSAGE, Message: &scheduler.Event_Message{
			AgentID: *n.info.ID, ExecutorID: mesos.ExecutorID{Value: executor}, Data: data,
		}})
	}
}

// lose ends the tasks of an agent from the master's point of view, with a state for frameworks that know of partitions.
func (m *master) lose(f *framework, t *task, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string, since time.Time) {
	if !f.caps.partitionAware {
		state = mesos.TASK_LOST
	}
	status := mesos.TaskStatus{
		TaskID: t.info.TaskID, AgentID: &t.info.AgentID, State: &state, Source: mesos.SOURCE_MASTER.Enum(), Reason: &reason,
		Message: &message, Timestamp: ptr(seconds(m.c.now)), ExecutorID: t.info.ExecutorID,
	}
	if !since.IsZero() {
		status.UnreachableTime = &mesos.TimeInfo{Nanoseconds: since.UnixNano()}
	}
	was := t.latest
	t.uuid = nil
	t.note(status, state)
	if !terminal(was) {
		f.send(update(status))
	}
	m.free(f, t)
	delete(f.tasks, t.info.TaskID.Value)
	delete(t.agent.tasks, taskKey{f.id, t.info.TaskID.Value})
	if terminal(was) {
		f.ended = append(f.ended, t)
		return
	}
	if !since.IsZero() {
		t.unreachable = since
		f.gone[t.info.TaskID.Value] = t
		return
	}
	f.ended = append(f.ended, t)
}

package core

import (
	"net/http"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
)

// updates are the statuses of one task that are not acknowledged, the oldest first. One at a time is with the scheduler.
type updates struct {
	a       *agent
	f       *agentFramework
	pending []mesos.TaskStatus
	seen    [][]byte // uuids of all statuses, to know duplicates
	done    bool     // a terminal status is among them
	retry   *timer
	pause   time.Duration
}

// forward sends the oldest status now, and again until it is acknowledged.
func (s *updates) forward() {
	s.retry.stop()
	s.pause = s.a.c.cfg.UpdateRetry
	s.send()
}

func (s *updates) send() {
	if len(s.pending) == 0 {
		return
	}
	status, latest, framework := s.pending[0], s.pending[len(s.pending)-1].GetState(), s.f.info.ID.GetValue()
	s.a.toMaster(func(m *master, n *node) { m.statusUpdate(n, framework, status, latest) })
	s.retry = s.a.later(s.pause, func() {
		s.pause = min(2*s.pause, s.a.c.cfg.UpdateRetryMax)
		s.send()
	})
}

// update enters a status.
func (a *agent) update(f *agentFramework, status mesos.TaskStatus) {
	id := status.TaskID.Value
	s := f.streams[id]
	if s == nil {
		s = &updates{a: a, f: f}
		f.streams[id] = s
	}
	s.pending = append(s.pending, status)
	s.seen = append(s.seen, status.UUID)
	s.done = s.done || terminal(status.GetState())
	if len(s.pending) == 1 {
		s.forward()
		return
	}
	// The master learns the newest state at once, though the scheduler gets one status after the other.
	framework, latest := f.info.ID.GetValue(), status.GetState()
	a.toMaster(func(m *master, n *node) {
		if f := m.frameworks[framework]; f != nil && f.tasks[id] != nil && f.tasks[id].agent == n && !terminal(f.tasks[id].latest) {
			t := f.tasks[id]
			t.latest = latest
			if terminal(latest) {
				m.free(f, t)
			}
		}
	})
}

// generate makes a status on behalf of an executor.
func (a *agent) generate(e *agentExecutor, t *agentTask, state mesos.TaskState, reason mesos.TaskStatus_Reason, text string) {
	t.state, t.queued = state, false
	if a.draining != nil && state == mesos.TASK_KILLED {
		reason = mesos.REASON_AGENT_DRAINING
	}
	status := mesos.TaskStatus{TaskID: t.info.TaskID, State: &state, Source: mesos.SOURCE_AGENT.Enum(), AgentID: &mesos.AgentID{Value: a.id},
		ExecutorID: &e.info.ExecutorID, Reason: &reason, Message: &text, Timestamp: ptr(seconds(a.c.now)), UUID: a.c.uuid()}
	t.status = &status
	a.update(e.f, status)
}

// acknowledged ends the oldest status of a task.
func (a *agent) acknowledged(framework, id string, uuid []byte) {
	f := a.frameworks[framework]
	if f == nil || f.streams[id] == nil {
		return
	}
	s := f.streams[id]
	if len(s.pending) == 0 || !slices.Equal(s.pending[0].UUID, uuid) {
		return
	}
	last := terminal(s.pending[0].GetState())
	s.pending = s.pending[1:]
	s.retry.stop()
	if last {
		delete(f.streams, id)
		for _, e := range f.executors {
			if e.tasks[id] != nil {
				delete(e.tasks, id)
				e.order = slices.DeleteFunc(e.order, func(one string) bool { return one == id })
			}
		}
		a.tidy(f)
	} else {
		s.forward()
	}
	a.checkpoint()
}

// RefuseExecutor tells what is wrong with an executor's call before it is carried out, nil if nothing.
func (c *Cluster) RefuseExecutor(name string, call *executor.Call) *Refusal {
	a := c.agents[name]
	if a == nil || !a.up {
		return refuse(http.StatusServiceUnavailable, "Agent is not up")
	}
	if why := malformedExecutor(call); why != "" {
		return refuse(http.StatusBadRequest, "Failed to validate executor::Call: %s", why)
	}
	if call.Type == executor.Call_HEARTBEAT {
		return nil
	}
	if a.recovering && call.Type != executor.Call_SUBSCRIBE {
		return refuse(http.StatusServiceUnavailable, "Agent has not finished recovery")
	}
	f := a.frameworks[call.FrameworkID.Value]
	if f == nil {
		return refuse(http.StatusBadRequest, "Framework cannot be found")
	}
	e := f.executors[call.ExecutorID.Value]
	switch {
	case e == nil:
		return refuse(http.StatusBadRequest, "Executor cannot be found")
	case call.Type != executor.Call_SUBSCRIBE && e.stream == "":
		return refuse(http.StatusForbidden, "Executor is not subscribed")
	case call.Type > executor.Call_HEARTBEAT:
		return refuse(http.StatusNotImplemented, "Call %d is not known", call.Type)
	}
	return nil
}

// validUUID tells whether the bytes are a uuid of one of the five versions.
func validUUID(id []byte) bool { return len(id) == 16 && id[6]>>4 >= 1 && id[6]>>4 <= 5 }

func malformedExecutor(call *executor.Call) string {
	switch {
	case call.Type == executor.Call_UNKNOWN:
		return "Expecting 'type' to be present"
	case call.Type == executor.Call_HEARTBEAT:
		return ""
	case call.ExecutorID.Value == "":
		return "Expecting 'executor_id' to be present"
	case call.FrameworkID.Value == "":
		return "Expecting 'framework_id' to be present"
	case call.Type == executor.Call_SUBSCRIBE && call.Subscribe == nil:
		return "Expecting 'subscribe' to be present"
	case call.Type == executor.Call_MESSAGE && call.Message == nil:
		return "Expecting 'message' to be present"
	case call.Type != executor.Call_UPDATE:
		return ""
	case call.Update == nil:
		return "Expecting 'update' to be present"
	}
	status := &call.Update.Status
	switch {
	case len(status.UUID) == 0:
		return "Expecting 'uuid' to be present"
	case !validUUID(status.UUID):
		return "Not a valid UUID"
	case status.ExecutorID != nil && status.ExecutorID.Value != call.ExecutorID.Value:
		return "ExecutorID in Call: " + call.ExecutorID.Value + " does not match ExecutorID in TaskStatus: " + status.ExecutorID.Value
	case status.Source == nil || *status.Source != mesos.SOURCE_EXECUTOR:
		return "Received Call from executor " + call.ExecutorID.Value + " with invalid source, expecting 'SOURCE_EXECUTOR'"
	case status.GetState() == mesos.TASK_STAGING:
		return "Received TASK_STAGING from executor " + call.ExecutorID.Value + " which is not allowed"
	}
	return ""
}

// ExecutorSubscribe is a SUBSCRIBE that RefuseExecutor let pass, on a stream with a new id.
func (c *Cluster) ExecutorSubscribe(now time.Time, name, stream string, call *executor.Call) []Effect {
	return c.do(now, func() {
		a := c.agents[name]
		f := a.frameworks[call.FrameworkID.Value]
		if f == nil || f.executors[call.ExecutorID.Value] == nil {
			c.emit(CloseExecutor{stream})
			return
		}
		f.executors[call.ExecutorID.Value].subscribe(stream, call.Subscribe)
	})
}

func (e *agentExecutor) subscribe(stream string, s *executor.Call_Subscribe) {
	c := e.a.c
	if e.state >= executorEnding || e.f.ending {
		c.emit(SendExecutor{stream, &executor.Event{Type: executor.Event_SHUTDOWN}})
		c.emit(CloseExecutor{stream})
		return
	}
	if e.stream != "" {
		c.emit(CloseExecutor{e.stream})
	}
	e.stream, e.state, e.restored = stream, executorRunning, false
	for i := range s.UnacknowledgedUpdates {
		e.a.executorUpdate(e, s.UnacknowledgedUpdates[i].Status)
	}
	known := map[string]bool{}
	for i := range s.UnacknowledgedTasks {
		known[s.UnacknowledgedTasks[i].TaskID.Value] = true
	}
	lost := mesos.TASK_LOST
	if capabilitiesOf(e.f.info).partitionAware {
		lost = mesos.TASK_DROPPED
	}
	queued := false
	for _, id := range slices.Clone(e.order) {
		t := e.tasks[id]
		if t == nil {
			continue
		}
		queued = queued || t.queued
		if t.state == mesos.TASK_STAGING && !t.queued && !known[id] {
			e.a.generate(e, t, lost, mesos.REASON_AGENT_RESTARTED, "Task launched during agent restart")
		}
	}
	if !e.ever && !queued {
		// Everything it was started for was killed meanwhile.
		c.emit(SendExecutor{stream, &executor.Event{Type: executor.Event_SHUTDOWN}})
		e.state = executorEnding
		e.grace = e.a.later(e.graceOf(), e.destroy)
		return
	}
	info := *e.a.info
	info.ID = &mesos.AgentID{Value: e.a.id}
	e.send(&executor.Event{Type: executor.Event_SUBSCRIBED, Subscribed: &executor.Event_Subscribed{
		ExecutorInfo: *e.info, FrameworkInfo: *e.f.info, AgentInfo: info, ContainerID: &mesos.ContainerID{Value: e.container},
	}})
	e.launchQueued()
	e.a.checkpoint()
}

// ExecutorGone tells that an executor's stream broke.
func (c *Cluster) ExecutorGone(now time.Time, name, stream string) []Effect {
	return c.do(now, func() {
		if a := c.agents[name]; a != nil {
			for _, f := range a.frameworks {
				for _, e := range f.executors {
					if e.stream == stream {
						e.stream = ""
					}
				}
			}
		}
	})
}

// ExecutorCall carries out a call that RefuseExecutor let pass.
func (c *Cluster) ExecutorCall(now time.Time, name string, call *executor.Call) []Effect {
	return c.do(now, func() {
		a := c.agents[name]
		f := a.frameworks[call.FrameworkID.Value]
		if f == nil || f.executors[call.ExecutorID.Value] == nil {
			return
		}
		e := f.executors[call.ExecutorID.Value]
		switch call.Type {
		case executor.Call_UPDATE:
			a.executorUpdate(e, call.Update.Status)
		case executor.Call_MESSAGE:
			data := call.Message.Data
			framework, id := f.info.ID.GetValue(), e.id()
			a.toMaster(func(m *master, n *node) { m.message(n, framework, id, data) })
		}
	})
}

// executorUpdate takes a status of an executor. It is acknowledged to the executor once it is kept here.
func (a *agent) executorUpdate(e *agentExecutor, status mesos.TaskStatus) {
	id := status.TaskID.Value
	if status.AgentID != nil && status.AgentID.Value != a.id || e.f.ending {
		return
	}
	acknowledge := &executor.Event{Type: executor.Event_ACKNOWLEDGED,
		Acknowledged: &executor.Event_Acknowledged{TaskID: status.TaskID, UUID: status.UUID}}
	t, s := e.tasks[id], e.f.streams[id]
	duplicate := s != nil && slices.ContainsFunc(s.seen, func(uuid []byte) bool { return slices.Equal(uuid, status.UUID) })
	if t == nil || terminal(t.state) || duplicate {
		e.send(acknowledge)
		return
	}
	status.AgentID, status.Source = &mesos.AgentID{Value: a.id}, mesos.SOURCE_EXECUTOR.Enum()
	if status.Timestamp == nil {
		status.Timestamp = ptr(seconds(a.c.now))
	}
	a.dress(e, &status)
	t.state = status.GetState()
	if a.draining != nil && (t.state == mesos.TASK_KILLING || t.state == mesos.TASK_KILLED) {
		status.Reason = mesos.REASON_AGENT_DRAINING.Enum()
		if t.state == mesos.TASK_KILLED && a.draining.GetMarkGone() && capabilitiesOf(e.f.info).partitionAware {
			t.state = mesos.TASK_GONE_BY_OPERATOR
			status.State = ptr(t.state)
		}
	}
	kept := status
	kept.Data = nil
	t.status = &kept
	a.update(e.f, status)
	a.checkpoint()
	e.send(acknowledge)
}

// dress adds what the agent knows of the container.
func (a *agent) dress(e *agentExecutor, status *mesos.TaskStatus) {
	container := mesos.ContainerStatus{}
	if status.ContainerStatus != nil {
		container = *status.ContainerStatus
	}
	if container.ContainerID == nil {
		container.ContainerID = &mesos.ContainerID{Value: e.container}
	}
	if len(container.NetworkInfos) == 0 {
		host := hostOf(a.cfg.Address)
		container.NetworkInfos = []mesos.NetworkInfo{{IPAddresses: []mesos.NetworkInfo_IPAddress{{IPAddress: &host}}}}
	}
	status.ContainerStatus = &container
}

func hostOf(address string) string {
	for i := len(address) - 1; i >= 0; i-- {
		if address[i] == ':' {
			return address[:i]
		}
	}
	return address
}

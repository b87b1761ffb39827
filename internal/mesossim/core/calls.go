package core

import (
	"fmt"
	"net/http"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/constraints"
)

// Refusal is an answer that is no success: an HTTP status and the master's or agent's words.
type Refusal struct {
	Code int
	Text string
}

func refuse(code int, format string, args ...any) *Refusal {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

// Refuse tells what is wrong with a scheduler's call before it is carried out, nil if nothing. stream is the header
// Mesos-Stream-Id. The order of the checks is the master's.
func (c *Cluster) Refuse(call *scheduler.Call, stream string) *Refusal {
	if c.m == nil {
		return refuse(http.StatusServiceUnavailable, "No leader elected")
	}
	if why := malformed(call); why != "" {
		return refuse(http.StatusBadRequest, "Failed to validate scheduler::Call: %s", why)
	}
	if call.Type == scheduler.Call_SUBSCRIBE {
		if stream != "" {
			return refuse(http.StatusBadRequest, "Subscribe calls should not include the 'Mesos-Stream-Id' header")
		}
		return nil
	}
	f := c.m.frameworks[call.FrameworkID.GetValue()]
	switch {
	case f == nil:
		return refuse(http.StatusBadRequest, "Framework cannot be found")
	case !f.connected:
		return refuse(http.StatusForbidden, "Framework is not subscribed")
	case stream == "":
		return refuse(http.StatusBadRequest, "All non-subscribe calls should include the 'Mesos-Stream-Id' header")
	case stream != f.stream:
		return refuse(http.StatusBadRequest, "The stream ID '%s' included in this request didn't match the stream ID currently associated with framework ID '%s'", stream, f.id)
	}
	return nil
}

// malformed names the part of a call that is missing.
func malformed(call *scheduler.Call) string {
	missing := func(member bool, name string) string {
		if !member {
			return fmt.Sprintf("Expecting '%s' to be present", name)
		}
		return ""
	}
	if call.Type == scheduler.Call_UNKNOWN {
		return "Expecting 'type' to be present"
	}
	if call.Type == scheduler.Call_SUBSCRIBE {
		if call.Subscribe == nil || call.Subscribe.FrameworkInfo == nil {
			return "Expecting 'subscribe' to be present"
		}
		if inner := call.Subscribe.FrameworkInfo.ID; inner.GetValue() != call.FrameworkID.GetValue() {
			return "'framework_id' differs from 'subscribe.framework_info.id'"
		}
		return ""
	}
	if call.FrameworkID == nil {
		return "Expecting 'framework_id' to be present"
	}
	switch call.Type {
	case scheduler.Call_ACCEPT:
		return missing(call.Accept != nil, "accept")
	case scheduler.Call_DECLINE:
		return missing(call.Decline != nil, "decline")
	case scheduler.Call_ACCEPT_INVERSE_OFFERS:
		return missing(call.AcceptInverseOffers != nil, "accept_inverse_offers")
	case scheduler.Call_DECLINE_INVERSE_OFFERS:
		return missing(call.DeclineInverseOffers != nil, "decline_inverse_offers")
	case scheduler.Call_KILL:
		return missing(call.Kill != nil, "kill")
	case scheduler.Call_SHUTDOWN:
		return missing(call.Shutdown != nil, "shutdown")
	case scheduler.Call_RECONCILE:
		return missing(call.Reconcile != nil, "reconcile")
	case scheduler.Call_MESSAGE:
		return missing(call.Message != nil, "message")
	case scheduler.Call_REQUEST:
		return missing(call.Request != nil, "request")
	case scheduler.Call_UPDATE_FRAMEWORK:
		return missing(call.UpdateFramework != nil, "update_framework")
	case scheduler.Call_ACKNOWLEDGE:
		if call.Acknowledge == nil {
			return "Expecting 'acknowledge' to be present"
		}
		if !validUUID(call.Acknowledge.UUID) {
			return "Not a valid UUID"
		}
	}
	return ""
}

// Call carries out a call that Refuse let pass; wanted are the offer constraints of an UPDATE_FRAMEWORK. A refusal is one of
// those that only carrying it out can tell.
func (c *Cluster) Call(now time.Time, call *scheduler.Call, wanted constraints.Set) (effects []Effect, refused *Refusal) {
	effects = c.do(now, func() {
		if c.m == nil {
			return
		}
		if f := c.m.frameworks[call.FrameworkID.GetValue()]; f != nil {
			refused = c.m.call(f, call, wanted)
		}
	})
	return effects, refused
}

func (m *master) call(f *framework, call *scheduler.Call, wanted constraints.Set) *Refusal {
	switch call.Type {
	case scheduler.Call_ACCEPT:
		m.accept(f, call.Accept)
	case scheduler.Call_DECLINE:
		for _, id := range call.Decline.OfferIDs {
			if o := f.offers[id.Value]; o != nil {
				m.drop(o, refusal(call.Decline.Filters))
			}
		}
	case scheduler.Call_REVIVE:
		m.alloc.Revive(f.id, call.Revive.GetRoles())
		m.allocate()
	case scheduler.Call_SUPPRESS:
		m.alloc.Suppress(f.id, call.Suppress.GetRoles())
	case scheduler.Call_ACKNOWLEDGE:
		m.acknowledge(f, call.Acknowledge)
	case scheduler.Call_KILL:
		m.kill(f, call.Kill)
	case scheduler.Call_RECONCILE:
		m.reconcile(f, call.Reconcile.Tasks)
	case scheduler.Call_TEARDOWN:
		m.removeFramework(f)
	case scheduler.Call_SHUTDOWN:
		if n := m.agents[call.Shutdown.AgentID.Value]; n != nil {
			m.tell(n, func(a *agent) { a.shutdownExecutor(f.id, call.Shutdown.ExecutorID.Value) })
		}
	case scheduler.Call_MESSAGE:
		if n := m.agents[call.Message.AgentID.Value]; n != nil {
			m.tell(n, func(a *agent) { a.message(f.id, call.Message.ExecutorID.Value, call.Message.Data) })
		}
	case scheduler.Call_ACCEPT_INVERSE_OFFERS:
		m.answerInverse(f, call.AcceptInverseOffers.InverseOfferIDs, true)
	case scheduler.Call_DECLINE_INVERSE_OFFERS:
		m.answerInverse(f, call.DeclineInverseOffers.InverseOfferIDs, false)
	case scheduler.Call_UPDATE_FRAMEWORK:
		return m.updateFramework(f, call.UpdateFramework, wanted)
	case scheduler.Call_REQUEST, scheduler.Call_RECONCILE_OPERATIONS, scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS:
		// The default allocator ignores requests; operations give no feedback here.
	default:
		return refuse(http.StatusNotImplemented, "Call %d is not known", call.Type)
	}
	return nil
}

const (
	defaultRefusal = 5 * time.Second
	maxRefusal     = 365 * 24 * time.Hour
)

// refusal is how long resources that were not used shall stay away.
func refusal(f *mesos.Filters) time.Duration {
	switch {
	case f == nil || f.RefuseSeconds == nil || *f.RefuseSeconds < 0:
		return defaultRefusal
	case *f.RefuseSeconds > maxRefusal.Seconds():
		return maxRefusal
	}
	return time.Duration(*f.RefuseSeconds * float64(time.Second))
}

func (m *master) updateFramework(f *framework, u *scheduler.Call_UpdateFramework, wanted constraints.Set) *Refusal {
	info := u.FrameworkInfo
	if info.ID.GetValue() != f.id {
		return refuse(http.StatusBadRequest, "'framework_id' differs from 'update_framework.framework_info.id'")
	}
	if why := m.validateFramework(&info, u.SuppressedRoles, wanted); why != "" {
		return refuse(http.StatusBadRequest, "%s", why)
	}
	if info.User != f.info.User || info.GetCheckpoint() != f.info.GetCheckpoint() {
		return refuse(http.StatusBadRequest, "Updating 'FrameworkInfo.user' or 'FrameworkInfo.checkpoint' is unsupported")
	}
	f.info, f.caps, f.roles, f.wanted = &info, capabilitiesOf(&info), rolesOf(&info), wanted
	m.alloc.SetFramework(f.id, f.wants(u.SuppressedRoles))
	for _, o := range f.offers {
		m.rescind(o)
	}
	for _, n := range m.sortedAgents() {
		if n.runs(f.id) {
			m.tell(n, func(a *agent) { a.frameworkUpdated(f.info) })
		}
	}
	m.allocate()
	return nil
}

// kill passes a KILL on, or answers what became of the task.
func (m *master) kill(f *framework, k *scheduler.Call_Kill) {
	t := f.tasks[k.TaskID.Value]
	if t == nil {
		m.reconcile(f, []scheduler.Call_Reconcile_Task{{TaskID: k.TaskID, AgentID: k.AgentID}})
		return
	}
	if k.AgentID != nil && k.AgentID.Value != t.agent.id {
		return
	}
	if !t.agent.connected {
		t.agent.killed[taskKey{f.id, k.TaskID.Value}] = k
		return
	}
	m.tell(t.agent, func(a *agent) { a.kill(f.id, k.TaskID.Value, k.KillPolicy) })
}

// reconcile answers for the named tasks, for all whose end is not acknowledged if none is named.
func (m *master) reconcile(f *framework, tasks []scheduler.Call_Reconcile_Task) {
	if len(tasks) == 0 {
		for _, t := range f.sortedTasks() {
			m.answer(f, t.info.TaskID, t.info.AgentID, t.reported(), "Reconciliation: Latest task state", time.Time{})
		}
		return
	}
	for _, one := range tasks {
		m.reconcileOne(f, one)
	}
}

func (m *master) reconcileOne(f *framework, one scheduler.Call_Reconcile_Task) {
	agent := mesos.AgentID{}
	if one.AgentID != nil {
		agent = *one.AgentID
	}
	lost := func(state mesos.TaskState, message string, since time.Time) {
		if !f.caps.partitionAware {
			state = mesos.TASK_LOST
		}
		m.answer(f, one.TaskID, agent, state, message, since)
	}
	t, id := f.tasks[one.TaskID.Value], agent.Value
	if t != nil {
		m.answer(f, one.TaskID, t.info.AgentID, t.reported(), "Reconciliation: Latest task state", time.Time{})
		return
	}
	if g := f.gone[one.TaskID.Value]; g != nil {
		lost(g.latest, "Reconciliation: Task is unreachable", g.unreachable)
		return
	}
	_, recovering := m.recovered[id]
	switch {
	case recovering || id == "" && len(m.recovered) > 0: // wait for the agent
	case m.agents[id] != nil:
		lost(mesos.TASK_GONE, "Reconciliation: Task is unknown to the agent", time.Time{})
	case !m.c.reg.unreachable[id].IsZero():
		lost(mesos.TASK_UNREACHABLE, "Reconciliation: Task is unreachable", m.c.reg.unreachable[id])
	case !m.c.reg.gone[id].IsZero():
		lost(mesos.TASK_GONE_BY_OPERATOR, "Reconciliation: Task is gone", time.Time{})
	default:
		lost(mesos.TASK_UNKNOWN, "Reconciliation: Task is unknown", time.Time{})
	}
}

// answer tells the state of a task without uuid, as answer to a question.
func (m *master) answer(f *framework, id mesos.TaskID, agent mesos.AgentID, state mesos.TaskState, message string, since time.Time) {
	status := mesos.TaskStatus{
		TaskID: id, State: &state, Source: mesos.SOURCE_MASTER.Enum(), Reason: mesos.REASON_RECONCILIATION.Enum(),
		Message: &message, Timestamp: ptr(seconds(m.c.now)),
	}
	if agent.Value != "" {
		status.AgentID = &agent
	}
	if t := f.tasks[id.Value]; t != nil {
		status.ExecutorID = t.info.ExecutorID
		if n := len(t.info.Statuses); n > 0 {
			status.Healthy, status.CheckStatus = t.info.Statuses[n-1].Healthy, t.info.Statuses[n-1].CheckStatus
			status.ContainerStatus = t.info.Statuses[n-1].ContainerStatus
		}
	}
	if !since.IsZero() {
		status.UnreachableTime = &mesos.TimeInfo{Nanoseconds: since.UnixNano()}
	}
	f.send(update(status))
}

func update(status mesos.TaskStatus) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: status}}
}

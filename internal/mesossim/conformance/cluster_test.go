package conformance

import (
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/maintenance"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

func reconcileCall(tasks ...scheduler.Call_Reconcile_Task) *scheduler.Call {
	return &scheduler.Call{Type: scheduler.Call_RECONCILE, Reconcile: &scheduler.Call_Reconcile{Tasks: tasks}}
}

func ask(task, agent string) scheduler.Call_Reconcile_Task {
	one := scheduler.Call_Reconcile_Task{TaskID: mesos.TaskID{Value: task}}
	if agent != "" {
		one.AgentID = &mesos.AgentID{Value: agent}
	}
	return one
}

func reconciles(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, o := f.running(first, "e", "t1")
	for _, c := range []struct {
		task, agent string
		want        mesos.TaskState
	}{
		{"t1", o.AgentID.Value, mesos.TASK_RUNNING}, {"t1", "", mesos.TASK_RUNNING}, {"nobody", o.AgentID.Value, mesos.TASK_GONE},
		{"nobody", "nowhere", mesos.TASK_UNKNOWN}, {"nobody", "", mesos.TASK_UNKNOWN},
	} {
		f.call(reconcileCall(ask(c.task, c.agent)))
		got := f.update(c.task, c.want)
		if got.GetReason() != mesos.REASON_RECONCILIATION || len(got.UUID) != 0 || got.Data != nil || got.Labels != nil || got.GetSource() != mesos.SOURCE_MASTER {
			t.Errorf("%v: %v", c, got)
		}
	}
	// The answer is what the scheduler was told last, not what the executor has said meanwhile.
	e.say("t1", mesos.TASK_FINISHED)
	status := f.update("t1", mesos.TASK_FINISHED)
	f.call(reconcileCall(ask("t1", "")))
	f.update("t1", mesos.TASK_FINISHED)
	// Implicitly: all whose end nobody has acknowledged.
	f.call(reconcileCall())
	f.update("t1", mesos.TASK_FINISHED)
	f.ack(status)
	f.call(reconcileCall())
	f.never("an answer for an ended task", 300*time.Millisecond, func(ev *scheduler.Event) bool { return ev.Update != nil })
}

func filters(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	f.call(decline(1.5, o))
	began := time.Now()
	f.offer(first)
	if took := time.Since(began); took < 1400*time.Millisecond {
		t.Errorf("offered again after %v", took)
	}
}

func offered(e *scheduler.Event) bool { return e.Offers != nil }

func suppresses(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	f.call(decline(3600, o))
	f.never("an offer that was declined", time.Second, offered)
	f.call(&scheduler.Call{Type: scheduler.Call_REVIVE, Revive: &scheduler.Call_Revive{}})
	o = f.offer(first)
	f.call(&scheduler.Call{Type: scheduler.Call_SUPPRESS, Suppress: &scheduler.Call_Suppress{}})
	f.call(decline(0, o))
	f.never("an offer while suppressed", time.Second, offered)
	f.call(&scheduler.Call{Type: scheduler.Call_REVIVE, Revive: &scheduler.Call_Revive{Roles: []string{"*"}}})
	o = f.offer(first)
	f.call(decline(0, o))
	// Suppressed roles hold until the next subscription, and may be told there.
	next := f.again("*")
	next.never("an offer though suppressed at SUBSCRIBE", time.Second, offered)
	next.call(&scheduler.Call{Type: scheduler.Call_REVIVE})
	next.call(decline(0, next.offer(first)))
}

// withoutCapabilities: the older names of states, one role, and the older notation of resources.
func withoutCapabilities(t *testing.T, s system) {
	f := newFramework(t, s, func(f *fw) { f.info.Capabilities, f.info.Roles = nil, nil })
	o := f.offer(first)
	for _, r := range o.Resources {
		if r.AllocationInfo != nil || r.GetRole() != "*" || len(r.Reservations) > 0 {
			t.Errorf("resource %v", r)
		}
	}
	f.call(reconcileCall(ask("nobody", o.AgentID.Value)))
	f.update("nobody", mesos.TASK_LOST)
	f.call(decline(0, o))
	info := f.task(o, "t", f.executorInfo("e"))
	f.call(launchCall(o, info))
	if got := f.update("t", mesos.TASK_LOST); got.GetReason() != mesos.REASON_INVALID_OFFERS {
		t.Errorf("UPDATE %v", got)
	}
}

// reserves: a reservation shows in the next offer, only to its role, and goes again.
func reserves(t *testing.T, s system) {
	f := newFramework(t, s, func(f *fw) { f.info.Roles = []string{"held"}; f.info.Principal = ptr("p") })
	o := f.offer(first)
	reserved := scalar("cpus", 1)
	reserved.AllocationInfo.Role = ptr("held")
	reserved.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_DYNAMIC.Enum(), Role: ptr("held"), Principal: ptr("p")}}
	operation := func(o mesos.Offer, op mesos.Offer_Operation) {
		zero := 0.0
		f.call(&scheduler.Call{Type: scheduler.Call_ACCEPT, Accept: &scheduler.Call_Accept{OfferIDs: []mesos.OfferID{o.ID},
			Operations: []mesos.Offer_Operation{op}, Filters: &mesos.Filters{RefuseSeconds: &zero}}})
	}
	amount := func(o mesos.Offer) (sum float64) {
		for _, r := range o.Resources {
			if len(r.Reservations) > 0 {
				sum += r.GetScalar().GetValue()
			}
		}
		return sum
	}
	operation(o, mesos.Offer_Operation{Type: mesos.Offer_Operation_RESERVE, Reserve: &mesos.Offer_Operation_Reserve{Resources: []mesos.Resource{reserved}}})
	o = f.offer(first)
	if got := amount(o); got != 1 {
		t.Errorf("reserved %v, want 1: %v", got, o.Resources)
	}
	operation(o, mesos.Offer_Operation{Type: mesos.Offer_Operation_UNRESERVE, Unreserve: &mesos.Offer_Operation_Unreserve{Resources: []mesos.Resource{reserved}}})
	o = f.offer(first)
	if got := amount(o); got != 0 {
		t.Errorf("reserved %v, want 0: %v", got, o.Resources)
	}
}

func agentCall(t *testing.T, s system, kind master.Call_Type, id string) int {
	t.Helper()
	call := &master.Call{Type: kind}
	switch agent := (mesos.AgentID{Value: id}); kind {
	case master.Call_DRAIN_AGENT:
		call.DrainAgent = &master.Call_DrainAgent{AgentID: agent}
	case master.Call_REACTIVATE_AGENT:
		call.ReactivateAgent = &master.Call_ReactivateAgent{AgentID: agent}
	case master.Call_DEACTIVATE_AGENT:
		call.DeactivateAgent = &master.Call_DeactivateAgent{AgentID: agent}
	case master.Call_MARK_AGENT_GONE:
		call.MarkAgentGone = &master.Call_MarkAgentGone{AgentID: agent}
	}
	code, _ := operate(t, s, call)
	return code
}

// drains: tasks get a KILL, the states tell why, and the agent is drained only after the last acknowledgement.
func drains(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, o := f.running(first, "e", "t")
	if code := agentCall(t, s, master.Call_DRAIN_AGENT, "nobody"); code != 400 {
		t.Errorf("draining an unknown agent: %d", code)
	}
	if code := agentCall(t, s, master.Call_DRAIN_AGENT, o.AgentID.Value); code != 200 {
		t.Fatalf("DRAIN_AGENT: %d", code)
	}
	drained := func() (mesos.DrainState, bool) {
		_, answer := operate(t, s, &master.Call{Type: master.Call_GET_AGENTS})
		for _, a := range answer.GetGetAgents().GetAgents() {
			if a.AgentInfo.ID.GetValue() == o.AgentID.Value && a.DrainInfo != nil {
				return a.DrainInfo.State, a.GetDeactivated()
			}
		}
		return 0, false
	}
	e.next(executor.Event_KILL)
	if code := agentCall(t, s, master.Call_REACTIVATE_AGENT, o.AgentID.Value); code == 200 {
		t.Error("a draining agent was reactivated")
	}
	e.say("t", mesos.TASK_KILLED)
	status := f.update("t", mesos.TASK_KILLED)
	if status.GetReason() != mesos.REASON_AGENT_DRAINING {
		t.Errorf("UPDATE %v", status)
	}
	if state, off := drained(); state != mesos.DrainState_DRAINING || !off {
		t.Errorf("before the acknowledgement: %v, deactivated %v", state, off)
	}
	f.ack(status)
	eventually(t, "agent drained", func() bool { state, _ := drained(); return state == mesos.DrainState_DRAINED })
	f.call(&scheduler.Call{Type: scheduler.Call_REVIVE})
	f.never("an offer of a drained agent", 500*time.Millisecond, func(ev *scheduler.Event) bool {
		return ev.Offers != nil && ev.Offers.Offers[0].AgentID.Value == o.AgentID.Value
	})
	if code := agentCall(t, s, master.Call_REACTIVATE_AGENT, o.AgentID.Value); code != 200 {
		t.Fatalf("REACTIVATE_AGENT: %d", code)
	}
	f.offer(first)
}

func deactivates(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, o := f.running(first, "e", "t")
	o = f.offer(first)
	if code := agentCall(t, s, master.Call_DEACTIVATE_AGENT, o.AgentID.Value); code != 200 {
		t.Fatalf("DEACTIVATE_AGENT: %d", code)
	}
	if got := f.next(scheduler.Event_RESCIND).Rescind; got.OfferID.Value != o.ID.Value {
		t.Errorf("RESCIND %v", got)
	}
	e.say("t", mesos.TASK_FINISHED)
	f.ack(f.update("t", mesos.TASK_FINISHED))
	if code := agentCall(t, s, master.Call_REACTIVATE_AGENT, o.AgentID.Value); code != 200 {
		t.Fatalf("REACTIVATE_AGENT: %d", code)
	}
	f.offer(first)
}

// maintains: a window shows in offers, and asks who runs something there to leave.
func maintains(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	f.running(first, "e", "t")
	schedule := func(windows ...maintenance.Window) {
		t.Helper()
		if code, _ := operate(t, s, &master.Call{Type: master.Call_UPDATE_MAINTENANCE_SCHEDULE,
			UpdateMaintenanceSchedule: &master.Call_UpdateMaintenanceSchedule{Schedule: maintenance.Schedule{Windows: windows}}}); code != 200 {
			t.Fatalf("UPDATE_MAINTENANCE_SCHEDULE: %d", code)
		}
	}
	start := time.Now().Add(time.Hour).UnixNano()
	window := maintenance.Window{MachineIDs: []mesos.MachineID{{Hostname: ptr("first.test"), IP: ptr("127.0.0.1")}},
		Unavailability: mesos.Unavailability{Start: mesos.TimeInfo{Nanoseconds: start}}}
	f.offer(first) // held, so that it is rescinded
	schedule(window)
	inverse := f.next(scheduler.Event_INVERSE_OFFERS).InverseOffers.InverseOffers
	if len(inverse) != 1 || inverse[0].Unavailability.Start.Nanoseconds != start {
		t.Errorf("INVERSE_OFFERS %v", inverse)
	}
	f.call(&scheduler.Call{Type: scheduler.Call_DECLINE_INVERSE_OFFERS,
		DeclineInverseOffers: &scheduler.Call_DeclineInverseOffers{InverseOfferIDs: []mesos.OfferID{inverse[0].OfferID}}})
	f.mu.Lock()
	f.read = 0 // the offer may have come before
	f.mu.Unlock()
	f.await("offer with unavailability", patience, func(e *scheduler.Event) bool {
		return e.Offers != nil && e.Offers.Offers[0].Hostname == "first.test" && e.Offers.Offers[0].Unavailability != nil &&
			e.Offers.Offers[0].Unavailability.Start.Nanoseconds == start
	})
	schedule()
	if code, _ := operate(t, s, &master.Call{Type: master.Call_START_MAINTENANCE, StartMaintenance: &master.Call_StartMaintenance{
		Machines: window.MachineIDs}}); code != 400 {
		t.Errorf("START_MAINTENANCE of a machine without a window: %d", code)
	}
}

// afterRestart waits for the update of a task that comes after TASK_RUNNING, whose acknowledgement the agent may have missed when it
// went: then it sends TASK_RUNNING again, and nothing else before that is acknowledged.
func (f *fw) afterRestart(id string, state mesos.TaskState) mesos.TaskStatus {
	f.t.Helper()
	got := f.next(scheduler.Event_UPDATE).Update.Status
	if got.GetState() == mesos.TASK_RUNNING && state != mesos.TASK_RUNNING {
		f.ack(got)
		return f.update(id, state)
	}
	if got.TaskID.Value != id || got.GetState() != state {
		f.t.Fatalf("UPDATE %v, want %s %v", got, id, state)
	}
	return got
}

// restartsAgent: the agent's process ends and comes back; executor and task go on, nothing is told twice.
func restartsAgent(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, o := f.running(second, "e", "t")
	before := getAgents(t, s)[second].AgentInfo.ID.GetValue()
	s.stopAgent(t, second)
	s.startAgent(t, second)
	missed := e.status("t", mesos.TASK_FINISHED)
	eventually(t, "executor subscribed again", func() bool { return e.trySubscribe(nil, []mesos.TaskStatus{missed}) == 200 })
	e.next(executor.Event_SUBSCRIBED)
	got := f.afterRestart("t", mesos.TASK_FINISHED)
	if string(got.UUID) != string(missed.UUID) {
		t.Errorf("UPDATE %v", got)
	}
	eventually(t, "agent registered again", func() bool { return getAgents(t, s)[second].AgentInfo.ID.GetValue() == before })
	f.ack(got)
	if before != o.AgentID.Value {
		t.Errorf("agent %s, offered as %s", before, o.AgentID.Value)
	}
}

// restartsAgentAlone: an executor that does not come back in time is killed, and its task gone.
func restartsAgentAlone(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	f.running(second, "e", "t")
	s.stopAgent(t, second)
	s.startAgent(t, second)
	got := f.afterRestart("t", mesos.TASK_GONE)
	if got.GetReason() != mesos.REASON_EXECUTOR_REREGISTRATION_TIMEOUT {
		t.Errorf("UPDATE %v", got)
	}
	f.ack(got)
	waitForAgents(t, s)
}

// losesAgent: a silent agent is unreachable after its pings; when it is back its tasks are what they were.
func losesAgent(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, o := f.running(second, "e", "t")
	s.cut(t, second, true)
	status := f.update("t", mesos.TASK_UNREACHABLE)
	if status.GetReason() != mesos.REASON_AGENT_REMOVED || status.UnreachableTime == nil || len(status.UUID) != 0 {
		t.Errorf("UPDATE %v", status)
	}
	if got := f.next(scheduler.Event_FAILURE).Failure; got.AgentID.GetValue() != o.AgentID.Value || got.ExecutorID != nil {
		t.Errorf("FAILURE %v", got)
	}
	f.call(reconcileCall(ask("t", o.AgentID.Value)))
	f.update("t", mesos.TASK_UNREACHABLE)
	s.cut(t, second, false)
	if got := f.update("t", mesos.TASK_RUNNING); got.GetReason() != mesos.REASON_AGENT_REREGISTERED || len(got.UUID) != 0 {
		t.Errorf("UPDATE %v", got)
	}
	waitForAgents(t, s)
	e.say("t", mesos.TASK_FINISHED)
	f.ack(f.update("t", mesos.TASK_FINISHED))
}

// marksGone is the last: the agent does not come back under its id.
func marksGone(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	_, o := f.running(second, "e", "t")
	if code := agentCall(t, s, master.Call_MARK_AGENT_GONE, o.AgentID.Value); code != 200 {
		t.Fatalf("MARK_AGENT_GONE: %d", code)
	}
	if got := f.update("t", mesos.TASK_GONE_BY_OPERATOR); got.GetReason() != mesos.REASON_AGENT_REMOVED_BY_OPERATOR {
		t.Errorf("UPDATE %v", got)
	}
	f.call(reconcileCall(ask("t", o.AgentID.Value)))
	f.update("t", mesos.TASK_GONE_BY_OPERATOR)
}

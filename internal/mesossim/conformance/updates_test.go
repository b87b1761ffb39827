package conformance

import (
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// retriesUpdate: a status comes again after 10 s, the same, until it is acknowledged; then no more.
func retriesUpdate(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, _ := f.running(first, "e", "t")
	e.say("t", mesos.TASK_FAILED)
	one := f.update("t", mesos.TASK_FAILED)
	began := time.Now()
	two := f.update("t", mesos.TASK_FAILED)
	if string(one.UUID) != string(two.UUID) || time.Since(began) < 8*time.Second {
		t.Errorf("again after %v: %v", time.Since(began), two)
	}
	f.ack(two)
	f.ack(two) // twice does no harm
}

// replaysUnacknowledged: who subscribes anew gets what nobody acknowledged, at once.
func replaysUnacknowledged(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, _ := f.running(first, "e", "t")
	e.say("t", mesos.TASK_FINISHED)
	one := f.update("t", mesos.TASK_FINISHED)
	f.cancel()
	<-f.closed
	next := f.again()
	next.next(scheduler.Event_SUBSCRIBED)
	began := time.Now()
	two := next.update("t", mesos.TASK_FINISHED)
	if string(one.UUID) != string(two.UUID) || time.Since(began) > 8*time.Second {
		t.Errorf("after %v: %v", time.Since(began), two)
	}
	next.ack(two)
}

// oneAtATime: the next status of a task waits for the acknowledgement of the one before.
func oneAtATime(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	f.call(launchCall(o, f.task(o, "t", f.executorInfo("e"))))
	e := f.executor("e")
	e.subscribe()
	e.next(executor.Event_LAUNCH)
	e.say("t", mesos.TASK_STARTING)
	e.say("t", mesos.TASK_RUNNING)
	starting := f.update("t", mesos.TASK_STARTING)
	f.never("TASK_RUNNING", 500*time.Millisecond, func(ev *scheduler.Event) bool { return ev.Update != nil })
	f.ack(starting)
	f.ack(f.update("t", mesos.TASK_RUNNING))
}

// terminalIsFinal: what follows the end of a task is taken, acknowledged to the executor and dropped.
func terminalIsFinal(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, _ := f.running(first, "e", "t")
	e.next(executor.Event_ACKNOWLEDGED)
	e.say("t", mesos.TASK_FINISHED)
	e.next(executor.Event_ACKNOWLEDGED)
	late := e.say("t", mesos.TASK_RUNNING)
	if ack := e.next(executor.Event_ACKNOWLEDGED).Acknowledged; string(ack.UUID) != string(late.UUID) {
		t.Errorf("ACKNOWLEDGED %v", ack)
	}
	f.ack(f.update("t", mesos.TASK_FINISHED))
	f.never("an update after the end", 500*time.Millisecond, func(ev *scheduler.Event) bool { return ev.Update != nil })
}

// executorResubscribes: the newest subscription wins; updates come along once each; a task that it does not name is lost.
func executorResubscribes(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, _ := f.running(first, "e", "t1")
	o := f.offer(first)
	lost := f.task(o, "lost", f.executorInfo("e"))
	f.call(launchCall(o, lost))
	e.next(executor.Event_LAUNCH)
	closed := e.closed
	done := e.status("t1", mesos.TASK_FINISHED)
	if code := e.trySubscribe(nil, []mesos.TaskStatus{done}); code != 200 {
		t.Fatalf("SUBSCRIBE: %d", code)
	}
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("the old stream stays open")
	}
	e.next(executor.Event_SUBSCRIBED)
	seen := map[string]mesos.TaskStatus{}
	for len(seen) < 2 {
		status := f.next(scheduler.Event_UPDATE).Update.Status
		if _, again := seen[status.TaskID.Value]; again {
			t.Errorf("twice: %v", status)
		}
		seen[status.TaskID.Value] = status
		f.ack(status)
	}
	if got := seen["t1"]; got.GetState() != mesos.TASK_FINISHED || string(got.UUID) != string(done.UUID) {
		t.Errorf("t1: %v", got)
	}
	if got := seen["lost"]; got.GetState() != mesos.TASK_DROPPED || got.GetReason() != mesos.REASON_AGENT_RESTARTED {
		t.Errorf("lost: %v", got)
	}
}

func killCall(task string, agent *mesos.AgentID, seconds int64) *scheduler.Call {
	call := &scheduler.Call{Type: scheduler.Call_KILL, Kill: &scheduler.Call_Kill{TaskID: mesos.TaskID{Value: task}, AgentID: agent}}
	if seconds >= 0 {
		call.Kill.KillPolicy = &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: seconds * int64(time.Second)}}
	}
	return call
}

func kills(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, o := f.running(first, "e", "t")
	f.call(killCall("t", &mesos.AgentID{Value: "wrong"}, -1)) // ignored
	f.call(killCall("t", &o.AgentID, 7))
	kill := e.next(executor.Event_KILL).Kill
	if kill.TaskID.Value != "t" || kill.KillPolicy.GetGracePeriod().GetNanoseconds() != 7*int64(time.Second) {
		t.Errorf("KILL %v", kill)
	}
	f.call(killCall("t", nil, -1))
	if kill := e.next(executor.Event_KILL).Kill; kill.KillPolicy != nil {
		t.Errorf("KILL without a policy has one: %v", kill)
	}
	e.say("t", mesos.TASK_KILLING)
	f.ack(f.update("t", mesos.TASK_KILLING))
	e.say("t", mesos.TASK_KILLED)
	f.ack(f.update("t", mesos.TASK_KILLED))
}

// killsBeforeDelivery: the agent answers for a task that still waits, and an executor left without any is shut down.
func killsBeforeDelivery(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	f.call(launchCall(o, f.task(o, "t", f.executorInfo("e"))))
	e := f.executor("e")
	f.call(killCall("t", &o.AgentID, -1))
	got := f.update("t", mesos.TASK_KILLED)
	if got.GetReason() != mesos.REASON_TASK_KILLED_DURING_LAUNCH || got.GetSource() != mesos.SOURCE_AGENT {
		t.Errorf("UPDATE %v", got)
	}
	f.ack(got)
	if code := e.trySubscribe(nil, nil); code == 200 {
		e.next(executor.Event_SHUTDOWN)
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, event := range e.events {
			if event.Type == executor.Event_SUBSCRIBED {
				t.Error("SUBSCRIBED before SHUTDOWN")
			}
		}
	}
	waitIdle(t, s)
}

func killsUnknown(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	f.call(killCall("nobody", &o.AgentID, -1))
	if got := f.update("nobody", mesos.TASK_GONE); got.GetReason() != mesos.REASON_RECONCILIATION || len(got.UUID) != 0 {
		t.Errorf("UPDATE %v", got)
	}
}

// shutsDown: SHUTDOWN reaches the executor; at the end of its grace the container goes and its tasks fail.
func shutsDown(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, o := f.running(first, "e", "t1")
	f.call(&scheduler.Call{Type: scheduler.Call_SHUTDOWN, Shutdown: &scheduler.Call_Shutdown{ExecutorID: mesos.ExecutorID{Value: "e"}, AgentID: o.AgentID}})
	e.next(executor.Event_SHUTDOWN)
	began := time.Now()
	status := f.update("t1", mesos.TASK_FAILED)
	if status.GetReason() != mesos.REASON_EXECUTOR_TERMINATED || time.Since(began) < grace/2 {
		t.Errorf("after %v: %v", time.Since(began), status)
	}
	f.ack(status)
}

// executorEnds: whatever its exit code, tasks that run fail, and FAILURE tells the raw wait status.
func executorEnds(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	info := f.executorInfo("e")
	info.Command.Value = ptr("exit 3")
	f.call(launchCall(o, f.task(o, "t", info)))
	var status mesos.TaskStatus
	failed, told := false, false
	for !failed || !told {
		event := f.await("FAILURE and UPDATE", patience, func(e *scheduler.Event) bool { return e.Failure != nil || e.Update != nil })
		if event.Update != nil {
			status, told = event.Update.Status, true
			f.ack(status)
			continue
		}
		failed = true
		if event.Failure.ExecutorID.GetValue() != "e" || event.Failure.GetStatus() != 3<<8 || event.Failure.AgentID.GetValue() != o.AgentID.Value {
			t.Errorf("FAILURE %v", event.Failure)
		}
	}
	if status.GetState() != mesos.TASK_FAILED || status.GetReason() != mesos.REASON_EXECUTOR_TERMINATED || status.GetSource() != mesos.SOURCE_AGENT {
		t.Errorf("UPDATE %v", status)
	}
	waitIdle(t, s)
}

func neverSubscribes(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	f.call(launchCall(o, f.task(o, "t", f.executorInfo("e"))))
	got := f.update("t", mesos.TASK_FAILED)
	if got.GetReason() != mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT {
		t.Errorf("UPDATE %v", got)
	}
	f.ack(got)
}

func messages(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, o := f.running(first, "e", "t")
	f.call(&scheduler.Call{Type: scheduler.Call_MESSAGE, Message: &scheduler.Call_Message{AgentID: o.AgentID,
		ExecutorID: mesos.ExecutorID{Value: "e"}, Data: []byte("down")}})
	if got := e.next(executor.Event_MESSAGE).Message; string(got.Data) != "down" {
		t.Errorf("MESSAGE %v", got)
	}
	call := e.make(executor.Call_MESSAGE)
	call.Message = &executor.Call_Message{Data: []byte("up")}
	if code, text := e.try(call); code != 202 {
		t.Fatalf("MESSAGE: %d: %s", code, text)
	}
	if got := f.next(scheduler.Event_MESSAGE).Message; string(got.Data) != "up" || got.ExecutorID.Value != "e" || got.AgentID.Value != o.AgentID.Value {
		t.Errorf("MESSAGE %v", got)
	}
}

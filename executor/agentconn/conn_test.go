package agentconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"go.uber.org/goleak"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

func TestMain(m *testing.M) {
	// glog flushes in a goroutine that it starts when it is imported.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

func starting(id string) ledger.Update {
	return ledger.Update{
		TaskID: id, UUID: []byte("0123456789abcdef"), State: mesos.TASK_STARTING, Message: "create-binding-success",
		Timestamp: time.Unix(1700000000, 500000000), PodIPs: []string{"10.0.0.7"}, Labels: map[string]string{"b": "2", "a": "1"},
	}
}

func (o *owner) expect(want ...core.Event) {
	o.t.Helper()
	for _, w := range want {
		if diff := cmp.Diff(w, next(o.t, "event", o.events), cmpopts.EquateEmpty()); diff != "" {
			o.t.Fatalf("event (-want +got):\n%s", diff)
		}
	}
}

// EX-101, EX-120: SUBSCRIBED, LAUNCH, UPDATE and ACKNOWLEDGED in their order, with all that the agent needs in them.
func TestLaunchUpdateAcknowledge(t *testing.T) {
	update := starting("t1")
	sent := make(chan struct{})
	a := newAgent(t, func(s *stream) {
		s.send(subscribed(), launch("t1", "data"))
		s.until(sent)
		s.send(acknowledged("t1", update.UUID))
		s.hold()
	})
	a.updateStatus = func(*executor.Call) int { close(sent); return http.StatusAccepted }
	o := run(t, a.url(), func(c *Config) { c.Token = "secret" })

	want := Agent{ID: "S0", Hostname: "a1", Resources: messages.Resources{CPUs: 4, MemMB: 2048}}
	if diff := cmp.Diff(want, next(t, "agent", o.agents)); diff != "" {
		t.Errorf("agent (-want +got):\n%s", diff)
	}
	o.expect(core.Connected{TaskKilling: true}, core.Launch{TaskID: "t1", Data: []byte("data")})
	o.conn.Send(update)
	call := next(t, "update", a.updates)
	o.expect(core.Acknowledged{TaskID: "t1", UUID: update.UUID})

	got := call.Update.Status
	if call.FrameworkID.Value != "fw" || call.ExecutorID.Value != "ex" || got.AgentID != nil || got.ExecutorID.GetValue() != "ex" {
		t.Errorf("wrong ids in %v", call)
	}
	if got.GetState() != mesos.TASK_STARTING || got.GetSource() != mesos.SOURCE_EXECUTOR || got.GetMessage() != update.Message ||
		string(got.UUID) != string(update.UUID) || got.GetTimestamp() != 1700000000.5 {
		t.Errorf("wrong status %v", got)
	}
	if ip := got.ContainerStatus.NetworkInfos[0].IPAddresses[0].GetIPAddress(); ip != "10.0.0.7" {
		t.Errorf("address %q", ip)
	}
	if l := got.Labels.Labels; len(l) != 2 || l[0].Key != "a" || *l[1].Value != "2" {
		t.Errorf("labels %v", l)
	}
	for _, h := range a.headers {
		if h.Get("Authorization") != "Bearer secret" || h.Get("Accept") != protobufType {
			t.Errorf("headers %v", h)
		}
	}
}

// EX-109, EX-120: what was not acknowledged goes along when the stream breaks and is made anew.
func TestReplayOnReconnect(t *testing.T) {
	update := starting("t1")
	cut := make(chan struct{})
	a := newAgent(t,
		func(s *stream) { s.send(subscribed(), launch("t1", "")); s.until(cut) },
		func(s *stream) { s.send(subscribed()); s.hold() })
	o := run(t, a.url(), nil)
	first := next(t, "subscription", a.subscribes)
	if len(first.Subscribe.UnacknowledgedTasks)+len(first.Subscribe.UnacknowledgedUpdates) != 0 {
		t.Errorf("first subscription carries %v", first.Subscribe)
	}
	o.expect(core.Connected{TaskKilling: true}, core.Launch{TaskID: "t1"})
	o.record([]string{"t1"}, update)
	o.conn.Send(update)
	next(t, "update", a.updates)
	close(cut)
	o.expect(core.Disconnected{}, core.Connected{TaskKilling: true})
	second := next(t, "subscription", a.subscribes).Subscribe
	if len(second.UnacknowledgedTasks) != 1 || second.UnacknowledgedTasks[0].TaskID.Value != "t1" || second.UnacknowledgedTasks[0].AgentID.Value != "S0" {
		t.Errorf("tasks %v", second.UnacknowledgedTasks)
	}
	if len(second.UnacknowledgedUpdates) != 1 || string(second.UnacknowledgedUpdates[0].Status.UUID) != string(update.UUID) {
		t.Errorf("updates %v", second.UnacknowledgedUpdates)
	}
	next(t, "agent", o.agents)
	select {
	case again := <-o.agents:
		t.Errorf("agent handed over twice: %v", again)
	default:
	}
}

// Record borders have nothing to do with the borders of what arrives, and a half record is a broken stream.
func TestHalfFrames(t *testing.T) {
	a := newAgent(t,
		func(s *stream) {
			for _, b := range append(append([]byte("0\n"), frame(subscribed())...), frame(launch("t1", "xyz"))...) {
				s.raw([]byte{b})
			}
			whole := frame(launch("t2", "never"))
			s.raw(whole[:len(whole)-3])
		},
		func(s *stream) { s.raw(append(frame(subscribed()), frame(launch("t3", ""))...)); s.hold() })
	o := run(t, a.url(), nil)
	o.expect(core.Connected{TaskKilling: true}, core.Launch{TaskID: "t1", Data: []byte("xyz")}, core.Disconnected{},
		core.Connected{TaskKilling: true}, core.Launch{TaskID: "t3"})
}

// A record that is no event breaks the stream, too; nothing panics.
func TestGarbage(t *testing.T) {
	a := newAgent(t,
		func(s *stream) { s.send(subscribed()); s.raw([]byte("3\n\xff\xff\xff")) },
		func(s *stream) { s.raw([]byte("<html>")) },
		func(s *stream) { s.send(subscribed()); s.hold() })
	o := run(t, a.url(), nil)
	o.expect(core.Connected{TaskKilling: true}, core.Disconnected{}, core.Connected{TaskKilling: true})
}

// An agent that starts refuses connections, has no route (404), fails (500), then recovers (503): each is tried again.
func TestRetryUntilAgentIsBack(t *testing.T) {
	a := newAgent(t, status(http.StatusNotFound), status(http.StatusInternalServerError), status(http.StatusServiceUnavailable),
		func(s *stream) { s.send(subscribed()); s.hold() })
	o := run(t, a.url(), nil)
	o.expect(core.Connected{TaskKilling: true})
	for range 4 {
		next(t, "subscription", a.subscribes)
	}
}

func refusingURL(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String() + "/slave(1)/api/v1/executor"
}

// The recovery timeout counts from the first failure and ends in a shutdown.
func TestGiveUpAfterRecoveryTimeout(t *testing.T) {
	o := run(t, refusingURL(t), func(c *Config) { c.RecoveryTimeout = 20 * time.Millisecond })
	o.expect(core.Shutdown{Grace: time.Minute, Why: "the agent stayed away for 20ms"})
	if err := next(t, "end", o.done); !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("Run returned %v", err)
	}
}

// Without checkpointing the first loss is the end.
func TestCheckpointOff(t *testing.T) {
	a := newAgent(t, func(s *stream) { s.send(subscribed()) })
	o := run(t, a.url(), func(c *Config) { c.Checkpoint = false })
	o.expect(core.Connected{TaskKilling: true}, core.Disconnected{},
		core.Shutdown{Grace: time.Minute, Why: "the connection to the agent broke and checkpointing is off"})
	if err := next(t, "end", o.done); !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("Run returned %v", err)
	}
}

// An agent that does not know us never will: 400 is not tried again, and the sending ends too (EX-117), or TestMain would find it.
func TestRefused(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden} {
		a := newAgent(t, status(code))
		o := run(t, a.url(), nil)
		o.expect(core.Shutdown{Grace: time.Minute, Why: "the agent refused the subscription"})
		if err := next(t, "end", o.done); !errors.Is(err, errdefs.ErrRefused) {
			t.Errorf("%d: Run returned %v", code, err)
		}
	}
}

// SHUTDOWN may be the first event: the agent sends it in place of SUBSCRIBED when it has no use for us.
func TestShutdownFirst(t *testing.T) {
	a := newAgent(t, func(s *stream) { s.send(&executor.Event{Type: executor.Event_SHUTDOWN}) })
	o := run(t, a.url(), nil)
	o.expect(core.Shutdown{Grace: time.Minute, Why: "the agent asked for it"})
	if err := next(t, "end", o.done); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if len(o.agents) != 0 || len(a.subscribes) != 1 {
		t.Errorf("%d agents, %d subscriptions", len(o.agents), len(a.subscribes))
	}
}

// After SHUTDOWN statuses still go out: the terminal ones are due just then (EX-128).
func TestUpdateAfterShutdown(t *testing.T) {
	a := newAgent(t, func(s *stream) { s.send(subscribed(), &executor.Event{Type: executor.Event_SHUTDOWN}); s.hold() })
	o := run(t, a.url(), nil)
	o.expect(core.Connected{TaskKilling: true}, core.Shutdown{Grace: time.Minute, Why: "the agent asked for it"})
	o.conn.Send(starting("t1"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := o.conn.Flush(ctx); err != nil || len(a.updates) != 1 {
		t.Errorf("flush: %v, %d updates", err, len(a.updates))
	}
}

// Kinds of event: unknown ones and heartbeats are skipped, ERROR ends the subscription.
func TestOtherEvents(t *testing.T) {
	grace := &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: int64(3 * time.Second)}}
	kill := func(id string, policy *mesos.KillPolicy) *executor.Event {
		return &executor.Event{Type: executor.Event_KILL, Kill: &executor.Event_Kill{TaskID: mesos.TaskID{Value: id}, KillPolicy: policy}}
	}
	a := newAgent(t,
		func(s *stream) {
			s.send(subscribed(), &executor.Event{Type: 42}, &executor.Event{Type: executor.Event_HEARTBEAT},
				&executor.Event{Type: executor.Event_LAUNCH}, // no body
				kill("t1", nil), kill("t2", grace),
				&executor.Event{Type: executor.Event_MESSAGE, Message: &executor.Event_Message{Data: []byte("kamikaze")}},
				&executor.Event{Type: executor.Event_ERROR, Error: &executor.Event_Error{Message: "no"}})
			s.hold()
		},
		func(s *stream) { s.send(subscribed()); s.hold() })
	o := run(t, a.url(), nil)
	three := 3 * time.Second
	o.expect(core.Connected{TaskKilling: true}, core.Kill{TaskID: "t1"}, core.Kill{TaskID: "t2", Grace: &three},
		core.Message{Data: []byte("kamikaze")}, core.Disconnected{}, core.Connected{TaskKilling: true})
}

// EX-113, EX-115, EX-119: statuses go out in the order in which they were sent, one after the other; nobody who sends one waits,
// be the agent away or slow, and the end of the connection ends the sending.
func TestOneQueue(t *testing.T) {
	const count = 100
	connect, answer := make(chan struct{}), make(chan struct{})
	a := newAgent(t, func(s *stream) { s.until(connect); s.send(subscribed()); s.hold() })
	a.updateStatus = func(*executor.Call) int { <-answer; return http.StatusAccepted }
	o := run(t, a.url(), nil)
	next(t, "subscription", a.subscribes)
	id := func(n int) string { return fmt.Sprintf("t%03d", n) }
	for n := range count {
		o.conn.Send(starting(id(n))) // not subscribed yet
	}
	close(connect)
	o.expect(core.Connected{TaskKilling: true})
	first := next(t, "update", a.updates)
	for n := count; n < 2*count; n++ {
		o.conn.Send(starting(id(n))) // the agent has the first one in its hands
	}
	select {
	case second := <-a.updates:
		t.Fatalf("%v was sent before %v was answered", second, first)
	default:
	}
	close(answer)
	for n := range 2 * count {
		call := first
		if n > 0 {
			call = next(t, "update", a.updates)
		}
		if got := call.Update.Status.TaskID.Value; got != id(n) {
			t.Fatalf("update %d is of %s", n, got)
		}
	}
}

// A status that could not be sent breaks the subscription; the next one carries it (EX-118).
func TestFailedSendReconnects(t *testing.T) {
	for _, code := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusForbidden} {
		a := newAgent(t, func(s *stream) { s.send(subscribed()); s.hold() })
		a.updateStatus = func(*executor.Call) int { return code }
		o := run(t, a.url(), nil)
		o.expect(core.Connected{TaskKilling: true})
		next(t, "subscription", a.subscribes)
		o.record(nil, starting("t1"))
		o.conn.Send(starting("t1"))
		o.expect(core.Disconnected{})
		if s := next(t, "subscription", a.subscribes).Subscribe; len(s.UnacknowledgedUpdates) != 1 {
			t.Errorf("%d: updates %v", code, s.UnacknowledgedUpdates)
		}
	}
}

// A status that the agent calls malformed is dropped: it would else come back with every subscription.
func TestMalformedStatus(t *testing.T) {
	a := newAgent(t, func(s *stream) { s.send(subscribed()); s.hold() })
	a.updateStatus = func(c *executor.Call) int {
		if c.Update.Status.TaskID.Value == "bad" {
			return http.StatusBadRequest
		}
		return http.StatusAccepted
	}
	o := run(t, a.url(), nil)
	o.conn.Send(starting("dropped: it is older than the subscription"))
	o.expect(core.Connected{TaskKilling: true})
	o.conn.Send(starting("bad"))
	o.conn.Send(starting("good"))
	o.expect(core.Acknowledged{TaskID: "bad", UUID: starting("").UUID})
	for {
		if id := next(t, "update", a.updates).Update.Status.TaskID.Value; id == "good" {
			break
		}
	}
	if len(o.events) != 0 {
		t.Errorf("event %v", <-o.events)
	}
}

func TestNewNamesAllFaults(t *testing.T) {
	_, err := New(Config{URL: "nowhere", Socket: "here", Checkpoint: true}, Deps{})
	if !errors.Is(err, errdefs.ErrInvalid) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{"absolute path", "framework id", "executor id", "agent id", "agent URL", "recovery timeout"} {
		if !contains(err.Error(), part) {
			t.Errorf("%q is not named in %v", part, err)
		}
	}
}

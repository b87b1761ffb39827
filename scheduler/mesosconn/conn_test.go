package mesosconn

import (
	"errors"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

// A new framework has no id in either place (protocol case 60); the second subscription has it in both and the first
// one's stream is told lost before.
func TestSubscribeAgain(t *testing.T) {
	m := newFakeMaster(t)
	h := start(t, m.host(), "")
	stream := next(t, m.streams)
	if diff := cmp.Diff(core.Event(core.Subscribed{FrameworkID: "F1"}), next(t, h.events)); diff != "" {
		t.Fatal(diff)
	}
	stream.close()
	if lost, ok := next(t, h.events).(core.Disconnected); !ok || !errors.Is(lost.Err, errEnded) {
		t.Fatalf("got %#v, want Disconnected by the end of the stream", lost)
	}
	next(t, m.streams)
	if diff := cmp.Diff(core.Event(core.Subscribed{FrameworkID: "F1"}), next(t, h.events)); diff != "" {
		t.Fatal(diff)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	first, second := m.subscribes[0], m.subscribes[1]
	if first.FrameworkID != nil || first.Subscribe.FrameworkInfo.ID != nil {
		t.Errorf("first SUBSCRIBE has an id: %v", first)
	}
	if second.FrameworkID.GetValue() != "F1" || second.Subscribe.FrameworkInfo.ID.GetValue() != "F1" {
		t.Errorf("second SUBSCRIBE: id %v and %v, want F1 twice", second.FrameworkID, second.Subscribe.FrameworkInfo.ID)
	}
	info := first.Subscribe.FrameworkInfo
	if !info.GetCheckpoint() || info.GetFailoverTimeout() != 604800 || info.Role != nil || len(info.Roles) != 1 || len(info.Capabilities) != 4 {
		t.Errorf("got framework info %v", info)
	}
}

func TestEvents(t *testing.T) {
	m := newFakeMaster(t)
	h := start(t, m.host(), "F1")
	stream := next(t, m.streams)
	next(t, h.events)
	status := int32(9)
	agent := &mesos.AgentID{Value: "A1"}
	events := []*scheduler.Event{
		{Type: scheduler.Event_HEARTBEAT},
		{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: []mesos.Offer{{
			ID: mesos.OfferID{Value: "O1"}, FrameworkID: mesos.FrameworkID{Value: "F1"}, AgentID: *agent, Hostname: "a1"}}}},
		{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: mesos.OfferID{Value: "O1"}}},
		{Type: 77},
		{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: agent, ExecutorID: &mesos.ExecutorID{Value: "E"}, Status: &status}},
		{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: agent}},
	}
	var wire []byte
	for _, e := range events {
		wire = append(wire, record(e)...)
	}
	wire = append(wire, "0\n"...) // an empty record is skipped
	// Records have nothing to do with the pieces in which they come (protocol 1.2).
	for piece := range len(wire) {
		stream.write(wire[piece : piece+1])
	}
	if got, ok := next(t, h.events).(core.Offers); !ok || len(got.Offers) != 1 || got.Offers[0].Hostname != "a1" {
		t.Errorf("got %#v, want the offer", got)
	}
	for _, want := range []core.Event{
		core.Rescinded{OfferID: "O1"},
		core.ExecutorFailed{AgentID: "A1", ExecutorID: "E", Status: 9},
		core.AgentRemoved{AgentID: "A1"},
	} {
		if diff := cmp.Diff(want, next(t, h.events)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestHalfRecord(t *testing.T) {
	m := newFakeMaster(t)
	h := start(t, m.host(), "")
	stream := next(t, m.streams)
	next(t, h.events)
	stream.write([]byte("100\nhalf of it"))
	stream.close()
	if lost, ok := next(t, h.events).(core.Disconnected); !ok || lost.Err == nil || errors.Is(lost.Err, errEnded) {
		t.Fatalf("got %#v, want Disconnected by a broken stream", lost)
	}
	next(t, m.streams)
}

// The master falls silent though TCP is up (protocol case 71).
func TestSilence(t *testing.T) {
	m := newFakeMaster(t)
	m.heartbeat = 0.02
	h := start(t, m.host(), "")
	stream := next(t, m.streams)
	next(t, h.events)
	if lost, ok := next(t, h.events).(core.Disconnected); !ok || !errors.Is(lost.Err, errSilent) {
		t.Fatalf("got %#v, want Disconnected by silence", lost)
	}
	<-stream.gone
	next(t, m.streams)
}

func TestNoLeaderThenRedirect(t *testing.T) {
	leader, other := newFakeMaster(t), newFakeMaster(t)
	other.refuse = func(attempt int, w http.ResponseWriter) bool {
		if attempt == 1 {
			http.Error(w, "No leader elected", http.StatusServiceUnavailable)
			return true
		}
		w.Header().Set("Location", "//"+leader.host()+schedulerPath) // protocol case 65
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
	h := start(t, other.host(), "")
	next(t, leader.streams)
	next(t, h.events)
	if err := h.Revive(t.Context(), core.Revive{Roles: []string{"*"}}); err != nil {
		t.Fatal(err)
	}
	if call := next(t, leader.calls); call.Type != scheduler.Call_REVIVE {
		t.Fatalf("got %v at the leader, want REVIVE", call.Type)
	}
}

// The first master of the list is gone: the next one is tried.
func TestNextMaster(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := listener.Addr().String()
	listener.Close()
	m := newFakeMaster(t)
	h := start(t, dead+","+m.host(), "")
	next(t, m.streams)
	next(t, h.events)
}

// Errors that another attempt cannot mend end Run, and say what to do (protocol cases 73, 74).
func TestFatal(t *testing.T) {
	said := func(text string) func(int, http.ResponseWriter) bool {
		return func(_ int, w http.ResponseWriter) bool {
			_, _ = w.Write(record(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: text}}))
			return true
		}
	}
	for _, tc := range []struct {
		name   string
		refuse func(int, http.ResponseWriter) bool
		id     string
		kind   error
		text   string
	}{
		{name: "removed", id: "F1", refuse: said("Framework has been removed"), kind: errdefs.ErrRefused, text: "--forget-framework=F1"},
		{name: "failed over", id: "F1", refuse: said("Framework failed over"), kind: errdefs.ErrConflict, text: "only one may run"},
		{name: "bad role", refuse: said("Role 'x' is invalid"), kind: errdefs.ErrRefused, text: "Role 'x' is invalid"},
		{name: "other id", id: "F2", kind: errdefs.ErrConflict, text: "framework F2"},
		{name: "not authorized", kind: errdefs.ErrRefused, text: "401", refuse: func(_ int, w http.ResponseWriter) bool {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return true
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newFakeMaster(t)
			m.refuse = tc.refuse
			h := start(t, m.host(), tc.id)
			err := next(t, h.done)
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("got %v, want kind %v with %q", err, tc.kind, tc.text)
			}
		})
	}
}

func TestCalls(t *testing.T) {
	m := newFakeMaster(t)
	idle, err := New(Config{Master: m.host(), Framework: Framework{User: "root", Name: "mesopod"}}, func(core.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.Revive(t.Context(), core.Revive{Roles: []string{"*"}}); !errors.Is(err, errdefs.ErrUnavailable) {
		t.Fatalf("REVIVE before SUBSCRIBED: got %v, want unavailable", err)
	}
	h := start(t, m.host(), "")
	next(t, m.streams)
	next(t, h.events)

	task := mesos.TaskInfo{Name: "t", TaskID: mesos.TaskID{Value: "u.1"}, AgentID: mesos.AgentID{Value: "A1"},
		Limits: map[string]mesos.Value_Scalar{"mem": {Value: math.Inf(1)}}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(h.Accept(t.Context(), core.Accept{AgentID: "A1", OfferIDs: []string{"O1", "O2"}, Tasks: []mesos.TaskInfo{task}, RefuseSeconds: 1.5}))
	accept := next(t, m.calls)
	launched := accept.Accept.Operations[0].Launch.TaskInfos
	if accept.FrameworkID.GetValue() != "F1" || len(accept.Accept.OfferIDs) != 2 || len(launched) != 1 || accept.Accept.Filters.GetRefuseSeconds() != 1.5 {
		t.Errorf("got ACCEPT %v", accept)
	}
	if limit := launched[0].Limits["mem"]; !math.IsInf(limit.Value, 1) {
		t.Errorf("got limit %v on the wire, want +Inf", limit.Value)
	}
	must(h.Kill(t.Context(), core.Kill{TaskID: "u.1", AgentID: "A1", Grace: -1}))
	if kill := next(t, m.calls).Kill; kill.KillPolicy != nil || kill.AgentID.GetValue() != "A1" {
		t.Errorf("got %v, want no kill policy", kill)
	}
	must(h.Kill(t.Context(), core.Kill{TaskID: "u.1", Grace: 3 * time.Second}))
	if kill := next(t, m.calls).Kill; kill.AgentID != nil || kill.KillPolicy.GracePeriod.Nanoseconds != 3e9 {
		t.Errorf("got %v, want 3 s", kill)
	}
	must(h.Acknowledge(t.Context(), core.Acknowledge{AgentID: "A1", TaskID: "u.1", UUID: []byte("0123456789abcdef")}))
	if ack := next(t, m.calls).Acknowledge; string(ack.UUID) != "0123456789abcdef" {
		t.Errorf("got %v", ack)
	}
	must(h.Reconcile(t.Context(), core.Reconcile{Tasks: map[string]string{"b.1": "", "a.1": "A1"}}))
	if tasks := next(t, m.calls).Reconcile.Tasks; len(tasks) != 2 || tasks[0].TaskID.Value != "a.1" || tasks[1].AgentID != nil {
		t.Errorf("got %v", tasks)
	}
	must(h.Decline(t.Context(), core.Decline{OfferIDs: []string{"O3"}, RefuseSeconds: 5}))
	if decline := next(t, m.calls).Decline; decline.OfferIDs[0].Value != "O3" || decline.Filters.GetRefuseSeconds() != 5 {
		t.Errorf("got %v", decline)
	}
}

func TestCallFails(t *testing.T) {
	hangUp := func(w http.ResponseWriter, _ *scheduler.Call) bool {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		conn.Close()
		return true
	}
	status := func(code int) func(http.ResponseWriter, *scheduler.Call) bool {
		return func(w http.ResponseWriter, _ *scheduler.Call) bool { http.Error(w, "no", code); return true }
	}
	for _, tc := range []struct {
		name   string
		answer func(http.ResponseWriter, *scheduler.Call) bool
		kind   error
		again  bool // subscribes again
	}{
		{name: "connection breaks after sending", answer: hangUp, kind: errdefs.ErrLost},
		{name: "400", answer: status(400), kind: errdefs.ErrRefused},
		{name: "401", answer: status(401), kind: errdefs.ErrRefused},
		{name: "503", answer: status(503), kind: errdefs.ErrUnavailable},
		{name: "500", answer: status(500), kind: errdefs.ErrLost},
		{name: "not subscribed", answer: status(403), kind: errdefs.ErrUnavailable, again: true},
		{name: "not the leader", answer: status(307), kind: errdefs.ErrUnavailable, again: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newFakeMaster(t)
			m.answer = tc.answer
			h := start(t, m.host(), "")
			next(t, m.streams)
			next(t, h.events)
			err := h.Decline(t.Context(), core.Decline{OfferIDs: []string{"O1"}})
			if !errors.Is(err, tc.kind) {
				t.Fatalf("got %v, want kind %v", err, tc.kind)
			}
			if tc.again {
				if _, ok := next(t, h.events).(core.Disconnected); !ok {
					t.Fatal("want Disconnected")
				}
				next(t, m.streams)
			}
		})
	}
}

// A 400 for a stale stream id means a lost subscription (protocol case 63).
func TestStaleStream(t *testing.T) {
	m := newFakeMaster(t)
	h := start(t, m.host(), "")
	next(t, m.streams)
	next(t, h.events)
	m.mu.Lock()
	m.streamID = "of somebody else"
	m.mu.Unlock()
	if err := h.Revive(t.Context(), core.Revive{Roles: []string{"*"}}); !errors.Is(err, errdefs.ErrUnavailable) {
		t.Fatalf("got %v, want unavailable", err)
	}
	if _, ok := next(t, h.events).(core.Disconnected); !ok {
		t.Fatal("want Disconnected")
	}
	next(t, m.streams)
	next(t, h.events)
	if err := h.Revive(t.Context(), core.Revive{Roles: []string{"*"}}); err != nil {
		t.Fatalf("after subscribing again: %v", err)
	}
}

func TestLookUpAgents(t *testing.T) {
	scalar, other := mesos.SCALAR, "prod"
	amount := func(name string, v float64) mesos.Resource {
		return mesos.Resource{Name: name, Type: &scalar, Scalar: &mesos.Value_Scalar{Value: v}}
	}
	reserved, refined := amount("cpus", 8), amount("cpus", 16)
	reserved.Role = &other
	refined.Reservations = []mesos.Resource_ReservationInfo{{Role: &other}}
	m := newFakeMaster(t)
	agent := func(id, process string) master.Response_GetAgents_Agent {
		pid := process + "@" + m.host() // the master plays the agents too
		return master.Response_GetAgents_Agent{
			AgentInfo: mesos.AgentInfo{Hostname: strings.ToLower(id), ID: &mesos.AgentID{Value: id}}, Version: "1.11.0", PID: &pid,
			TotalResources: []mesos.Resource{amount("cpus", 4), amount("mem", 1024), amount("disk", 10), reserved, refined},
			Capabilities:   []mesos.AgentInfo_Capability{{Type: mesos.AgentInfo_Capability_TASK_RESOURCE_LIMITS}},
		}
	}
	old := agent("A4", "cgroups")
	old.Capabilities = nil
	m.agents = []master.Response_GetAgents_Agent{agent("A1", "cgroups"), agent("A2", "posix"), agent("A3", "silent"), old, agent("A5", "cgroups")}
	h := start(t, m.host(), "")
	next(t, m.streams)
	next(t, h.events)
	got, err := h.LookUpAgents(t.Context(), []string{"A1", "A2", "A3", "A4", "A9"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]core.Agent{}
	for id, limits := range map[string]bool{"A1": true, "A2": false, "A3": true, "A4": false} {
		want[id] = core.Agent{ID: id, Hostname: strings.ToLower(id), Limits: limits, Total: messages.Resources{CPUs: 4, MemMB: 1024, DiskMB: 10}}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The survey tells agents that are registered, have yet to register, or are unreachable from those that are gone, and what
// our executors were started with. A registry that may not be read leaves the middle ones out, and says so.
func TestSurvey(t *testing.T) {
	m := newFakeMaster(t)
	info := func(id string) mesos.AgentInfo {
		return mesos.AgentInfo{Hostname: strings.ToLower(id), ID: &mesos.AgentID{Value: id}}
	}
	executor := func(agent, id, framework string) master.Response_GetExecutors_Executor {
		return master.Response_GetExecutors_Executor{AgentID: mesos.AgentID{Value: agent}, ExecutorInfo: mesos.ExecutorInfo{
			ExecutorID: mesos.ExecutorID{Value: id}, FrameworkID: &mesos.FrameworkID{Value: framework}}}
	}
	m.agents = []master.Response_GetAgents_Agent{{AgentInfo: info("A1")}, {AgentInfo: info("A2")}}
	m.recovered = []mesos.AgentInfo{info("A3")}
	m.executors = []master.Response_GetExecutors_Executor{
		executor("A1", messages.ExecutorID, "F1"), executor("A1", "other", "F1"), executor("A2", messages.ExecutorID, "F2")}
	h := start(t, m.host(), "")
	next(t, m.streams)
	next(t, h.events)
	want := core.Surveyed{
		Registered: map[string]string{"A1": "a1", "A2": "a2"}, Recovered: []string{"A3"},
		Executors: map[string]*mesos.ExecutorInfo{"A1": &m.executors[0].ExecutorInfo},
	}
	for _, registry := range []string{"",
		`{"slaves":{"slaves":[{"info":{"id":{"value":"A1"}}},{"info":{"id":{"value":"A4"}}}]},"unreachable":{"slaves":[{"id":{"value":"A5"}}]},"gone":{"slaves":[{"id":{"value":"A6"}}]}}`} {
		m.registry = registry
		if registry != "" {
			want.Complete, want.Recovered, want.Unreachable = true, []string{"A3", "A4"}, []string{"A5"}
		}
		got, err := h.Survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

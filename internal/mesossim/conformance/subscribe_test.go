package conformance

import (
	"net/http"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

func subscribes(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	if f.info.ID.GetValue() == "" || f.stream == "" || len(f.stream) > 128 {
		t.Errorf("framework id %q, stream id %q", f.info.ID.GetValue(), f.stream)
	}
	if got := f.header.Get("Content-Type"); got != protobuf {
		t.Errorf("content type %q", got)
	}
	f.mu.Lock()
	subscribed := f.events[0].Subscribed
	f.mu.Unlock()
	if subscribed.GetHeartbeatIntervalSeconds() != 15 || subscribed.MasterInfo == nil || subscribed.MasterInfo.GetVersion() != "1.11.0" {
		t.Errorf("SUBSCRIBED %v", subscribed)
	}
	f.next(scheduler.Event_HEARTBEAT)
}

func subscribesInJSON(t *testing.T, s system) {
	f := newFramework(t, s, func(f *fw) { f.kind = jsonText })
	if got := f.header.Get("Content-Type"); got != jsonText {
		t.Errorf("content type %q", got)
	}
	o := f.offer(first)
	if len(o.Resources) == 0 || o.AllocationInfo.GetRole() != "*" || o.Resources[0].AllocationInfo.GetRole() != "*" {
		t.Errorf("offer %v", o)
	}
	f.call(decline(0, o))
}

// malformedCalls: each with the status code of the real one.
func malformedCalls(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	url := "http://" + s.master() + "/master/api/v1/scheduler"
	whole, err := (&scheduler.Call{Type: scheduler.Call_REVIVE, FrameworkID: f.info.ID}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	set := func(pairs ...string) func(http.Header) {
		return func(h http.Header) {
			for i := 0; i < len(pairs); i += 2 {
				h.Set(pairs[i], pairs[i+1])
			}
		}
	}
	subscribe := &scheduler.Call{Type: scheduler.Call_SUBSCRIBE, Subscribe: &scheduler.Call_Subscribe{FrameworkInfo: &mesos.FrameworkInfo{
		User: "root", Name: "x", ID: &mesos.FrameworkID{Value: "other"}}}}
	mixed, _ := subscribe.Marshal() // nothing in it can fail
	subscribe.Subscribe.FrameworkInfo.ID = nil
	again, _ := subscribe.Marshal()
	bad := &scheduler.Call{Type: scheduler.Call_ACKNOWLEDGE, FrameworkID: f.info.ID, Acknowledge: &scheduler.Call_Acknowledge{UUID: []byte("short")}}
	ack, _ := bad.Marshal()
	stranger, _ := (&scheduler.Call{Type: scheduler.Call_REVIVE, FrameworkID: &mesos.FrameworkID{Value: "nobody"}}).Marshal()
	empty, _ := (&scheduler.Call{Type: scheduler.Call_ACCEPT, FrameworkID: f.info.ID}).Marshal()
	for _, c := range []struct {
		name, method string
		body         []byte
		header       func(http.Header)
		want         int
	}{
		{"GET", http.MethodGet, nil, nil, 405},
		{"no content type", http.MethodPost, whole, func(h http.Header) { h.Del("Content-Type") }, 400},
		{"other content type", http.MethodPost, whole, set("Content-Type", "text/plain"), 415},
		{"garbage", http.MethodPost, []byte("\x01\x02garbage"), nil, 400},
		{"garbage in JSON", http.MethodPost, []byte("{"), set("Content-Type", jsonText), 400},
		{"no type", http.MethodPost, []byte("{}"), set("Content-Type", jsonText), 400},
		{"no member", http.MethodPost, empty, set("Mesos-Stream-Id", f.stream), 400},
		{"unknown framework", http.MethodPost, stranger, set("Mesos-Stream-Id", f.stream), 400},
		{"no stream id", http.MethodPost, whole, nil, 400},
		{"stale stream id", http.MethodPost, whole, set("Mesos-Stream-Id", "stale"), 400},
		{"stream id at SUBSCRIBE", http.MethodPost, again, set("Mesos-Stream-Id", f.stream), 400},
		{"two framework ids", http.MethodPost, mixed, nil, 400},
		{"Accept of neither", http.MethodPost, again, set("Accept", "text/html"), 406},
		{"uuid too short", http.MethodPost, ack, set("Mesos-Stream-Id", f.stream), 400},
		{"right", http.MethodPost, whole, set("Mesos-Stream-Id", f.stream), 202},
	} {
		response := sendBytes(t, t.Context(), c.method, url, protobuf, c.body, c.header)
		if got := text(response); response.StatusCode != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, response.StatusCode, c.want, got)
		}
	}
}

// refusedFrameworks: faults of FrameworkInfo come as an ERROR on a stream that then ends.
func refusedFrameworks(t *testing.T, s system) {
	for name, change := range map[string]func(*mesos.FrameworkInfo){
		"role beside MULTI_ROLE": func(i *mesos.FrameworkInfo) { i.Role = ptr("x") },
		"roles without it":       func(i *mesos.FrameworkInfo) { i.Capabilities = nil },
		"bad role":               func(i *mesos.FrameworkInfo) { i.Roles = []string{"-x"} },
		"role twice":             func(i *mesos.FrameworkInfo) { i.Roles = []string{"x", "x"} },
		"endless failover":       func(i *mesos.FrameworkInfo) { i.FailoverTimeout = ptr(1e30) },
	} {
		f := &fw{t: t, s: s, kind: protobuf, info: mesos.FrameworkInfo{User: "root", Name: "refused", Roles: []string{"*"}, Capabilities: capabilities}}
		change(&f.info)
		f.subscribe()
		if f.look(patience/4, func(e *scheduler.Event) bool { return e.Type == scheduler.Event_ERROR && e.Error.Message != "" }) == nil {
			t.Errorf("%s: not refused", name)
			f.mu.Lock()
			f.info.ID = f.events[0].GetSubscribed().GetFrameworkID()
			f.mu.Unlock()
			f.call(&scheduler.Call{Type: scheduler.Call_TEARDOWN})
		}
		select {
		case <-f.closed:
		case <-time.After(patience):
			t.Errorf("%s: the stream stays open", name)
		}
		f.cancel()
	}
}

func resubscribes(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	f.cancel()
	<-f.closed
	next := f.again()
	if got := next.next(scheduler.Event_SUBSCRIBED).Subscribed.FrameworkID.GetValue(); got != f.info.ID.Value {
		t.Errorf("framework id %s, want %s", got, f.info.ID.Value)
	}
	if next.stream == f.stream {
		t.Error("the stream id stayed the same")
	}
	// The old offer is gone; the resources are offered anew.
	fresh := next.offer(first)
	if fresh.ID.Value == o.ID.Value {
		t.Error("the same offer again")
	}
	f.info = next.info
}

func failsOver(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	next := f.again()
	next.next(scheduler.Event_SUBSCRIBED)
	if e := f.next(scheduler.Event_ERROR); e.Error.Message != "Framework failed over" {
		t.Errorf("ERROR %q", e.Error.Message)
	}
	select {
	case <-f.closed:
	case <-time.After(patience):
		t.Error("the old stream stays open")
	}
	if code, text := f.try(&scheduler.Call{Type: scheduler.Call_REVIVE}); code != http.StatusBadRequest {
		t.Errorf("a call on the old stream: %d: %s", code, text)
	}
	next.call(&scheduler.Call{Type: scheduler.Call_REVIVE})
}

// disconnects: a call between two subscriptions is refused with 403.
func disconnects(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	f.cancel()
	<-f.closed
	eventually(t, "403 after the stream broke", func() bool {
		code, _ := f.try(&scheduler.Call{Type: scheduler.Call_REVIVE})
		return code == http.StatusForbidden
	})
}

func tearsDown(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, _ := f.running(first, "e", "t")
	f.call(&scheduler.Call{Type: scheduler.Call_TEARDOWN})
	e.next(executor.Event_SHUTDOWN)
	waitIdle(t, s)
	next := f.again()
	if got := next.next(scheduler.Event_ERROR).Error.Message; got != "Framework has been removed" {
		t.Errorf("ERROR %q", got)
	}
	_, answer := operate(t, s, &master.Call{Type: master.Call_GET_TASKS})
	for _, task := range answer.GetGetTasks().GetTasks() {
		if task.FrameworkID.Value == f.info.ID.Value {
			t.Errorf("task %v is still there", task)
		}
	}
}

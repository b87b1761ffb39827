package mesosconn

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"go.uber.org/goleak"

	"github.com/mesopod/mesopod/scheduler/core"
)

func TestMain(m *testing.M) {
	// glog starts its flusher at import and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// fakeMaster is a little Mesos master: one subscription at a time, with faults that a test orders.
type fakeMaster struct {
	*httptest.Server

	mu         sync.Mutex
	subscribes []*scheduler.Call
	streamID   string
	calls      chan *scheduler.Call
	streams    chan *fakeStream

	// Faults. Set before use, or under mu.
	frameworkID string
	heartbeat   float64
	refuse      func(attempt int, w http.ResponseWriter) bool // answers SUBSCRIBE itself
	answer      func(w http.ResponseWriter, call *scheduler.Call) bool
	agents      []master.Response_GetAgents_Agent
	recovered   []mesos.AgentInfo
	executors   []master.Response_GetExecutors_Executor
	registry    string // empty: it may not be read
}

// fakeStream is the body of one SUBSCRIBE.
type fakeStream struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	ended bool

	done chan struct{}
	once sync.Once
	gone <-chan struct{}
}

func newFakeMaster(t *testing.T) *fakeMaster {
	t.Helper()
	m := &fakeMaster{
		frameworkID: "F1", heartbeat: 15,
		calls: make(chan *scheduler.Call, 16), streams: make(chan *fakeStream, 16),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+schedulerPath, m.serveScheduler)
	mux.HandleFunc("POST "+operatorPath, m.serveOperator)
	mux.HandleFunc("GET "+registryPath, func(w http.ResponseWriter, _ *http.Request) {
		if m.registry == "" {
			http.Error(w, "not for you", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, m.registry)
	})
	for process, isolation := range map[string]string{"posix": "posix/cpu,posix/mem", "cgroups": "cgroups/mem,cgroups/cpu,filesystem/posix"} {
		mux.HandleFunc("GET /"+process+"/flags", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"flags": {"isolation": %q}}`, isolation)
		})
	}
	m.Server = httptest.NewServer(mux)
	t.Cleanup(m.Close)
	return m
}

func (m *fakeMaster) host() string {
	u, err := url.Parse(m.URL)
	if err != nil {
		panic(err)
	}
	return u.Host
}

func (m *fakeMaster) serveScheduler(w http.ResponseWriter, r *http.Request) {
	var call scheduler.Call
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = call.Unmarshal(body)
	}
	if err != nil || r.Header.Get("Content-Type") != mediaType || r.Header.Get("Accept") != mediaType {
		http.Error(w, fmt.Sprint("malformed call: ", err), http.StatusBadRequest)
		return
	}
	if call.Type == scheduler.Call_SUBSCRIBE {
		m.serveSubscribe(w, r, &call)
		return
	}
	m.mu.Lock()
	answer, live := m.answer, m.streamID
	m.mu.Unlock()
	if answer != nil && answer(w, &call) {
		return
	}
	if got := r.Header.Get(streamHeader); got != live {
		http.Error(w, "The stream ID included in this request didn't match the stream ID currently associated with framework", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	m.calls <- &call
}

func (m *fakeMaster) serveSubscribe(w http.ResponseWriter, r *http.Request, call *scheduler.Call) {
	if r.Header.Get(streamHeader) != "" {
		http.Error(w, "Subscribe calls should not include the 'Mesos-Stream-Id' header", http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.subscribes = append(m.subscribes, call)
	attempt, refuse := len(m.subscribes), m.refuse
	m.streamID = fmt.Sprintf("S%d", attempt)
	id, beat := m.frameworkID, m.heartbeat
	w.Header().Set(streamHeader, m.streamID)
	m.mu.Unlock()
	if refuse != nil && refuse(attempt, w) {
		return
	}
	s := &fakeStream{w: w, done: make(chan struct{}), gone: r.Context().Done()}
	s.send(&scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{
		FrameworkID: &mesos.FrameworkID{Value: id}, HeartbeatIntervalSeconds: &beat,
	}})
	m.streams <- s
	select {
	case <-s.done:
	case <-s.gone:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

func (m *fakeMaster) serveOperator(w http.ResponseWriter, r *http.Request) {
	var call master.Call
	if body, err := io.ReadAll(r.Body); err != nil || call.Unmarshal(body) != nil || call.Type != master.Call_GET_AGENTS && call.Type != master.Call_GET_EXECUTORS {
		http.Error(w, "malformed call", http.StatusBadRequest)
		return
	}
	answer := master.Response{Type: master.Response_GET_AGENTS, GetAgents: &master.Response_GetAgents{Agents: m.agents, RecoveredAgents: m.recovered}}
	if call.Type == master.Call_GET_EXECUTORS {
		answer = master.Response{Type: master.Response_GET_EXECUTORS, GetExecutors: &master.Response_GetExecutors{Executors: m.executors}}
	}
	data, err := answer.Marshal()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(data) // a client that went away is the test's own doing
}

func record(event *scheduler.Event) []byte {
	data, err := event.Marshal()
	if err != nil {
		panic(err)
	}
	return append(fmt.Appendf(nil, "%d\n", len(data)), data...)
}

func (s *fakeStream) send(event *scheduler.Event) { s.write(record(event)) }

func (s *fakeStream) write(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	_, _ = s.w.Write(data) // a client that went away is the test's own doing
	s.w.(http.Flusher).Flush()
}

func (s *fakeStream) close() { s.once.Do(func() { close(s.done) }) }

// harness is a Conn under test.
type harness struct {
	*Conn
	events chan core.Event
	done   chan error
}

func start(t *testing.T, masters, frameworkID string) *harness {
	t.Helper()
	return startAs(t, masters, frameworkID, "")
}

func startAs(t *testing.T, masters, frameworkID, secretFile string) *harness {
	t.Helper()
	return startWith(t, Config{Master: masters, SecretFile: secretFile}, frameworkID)
}

// startWith completes the configuration for a test and runs a connection until the test ends.
func startWith(t *testing.T, cfg Config, frameworkID string) *harness {
	t.Helper()
	cfg.Framework = Framework{User: "root", Name: "mesopod", Principal: "mesopod", FailoverTimeout: 7 * 24 * time.Hour, WebUIURL: "http://x"}
	cfg.CallTimeout, cfg.MinBackoff, cfg.MaxBackoff = 2*time.Second, time.Millisecond, 5*time.Millisecond
	h := &harness{events: make(chan core.Event, 64), done: make(chan error, 1)}
	conn, err := New(cfg, func(e core.Event) { h.events <- e })
	if err != nil {
		t.Fatal(err)
	}
	h.Conn = conn
	ctx := t.Context()
	go func() { h.done <- conn.Run(ctx, frameworkID) }()
	return h
}

const patience = 10 * time.Second

func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("no %T within %s", *new(T), patience)
		panic("unreachable")
	}
}

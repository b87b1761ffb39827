package agentconn

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// agent is a little real server that speaks the agent's side of the executor API. Each SUBSCRIBE is answered by the
// next of its scripts; the last one is used again.
type agent struct {
	t      *testing.T
	server *httptest.Server
	// subscribes and updates receive the calls as they come.
	subscribes, updates chan *executor.Call

	mu      sync.Mutex
	scripts []func(*stream)
	// updateStatus answers an UPDATE.
	updateStatus func(*executor.Call) int
	headers      []http.Header
	end          chan struct{}
}

// stream is the answer to one SUBSCRIBE.
type stream struct {
	w    http.ResponseWriter
	gone <-chan struct{}
}

func newAgent(t *testing.T, scripts ...func(*stream)) *agent {
	a := &agent{
		t: t, scripts: scripts, end: make(chan struct{}),
		subscribes: make(chan *executor.Call, 100), updates: make(chan *executor.Call, 100),
		updateStatus: func(*executor.Call) int { return http.StatusAccepted },
	}
	a.server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(func() {
		close(a.end)
		a.server.Close()
	})
	return a
}

func (a *agent) url() string { return a.server.URL + "/slave(1)/api/v1/executor" }

func (a *agent) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var call executor.Call
	if err == nil {
		err = call.Unmarshal(body)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/slave(1)/api/v1/executor" || r.Header.Get("Content-Type") != protobufType {
		a.t.Errorf("bad request %s %s: %v", r.Method, r.URL, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	a.headers = append(a.headers, r.Header)
	a.mu.Unlock()
	if call.Type != executor.Call_SUBSCRIBE {
		a.updates <- &call
		w.WriteHeader(a.updateStatus(&call))
		return
	}
	a.subscribes <- &call
	a.mu.Lock()
	script := a.scripts[0]
	if len(a.scripts) > 1 {
		a.scripts = a.scripts[1:]
	}
	a.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		select {
		case <-r.Context().Done():
		case <-a.end:
		}
		close(gone)
	}()
	script(&stream{w: w, gone: gone})
}

// raw writes bytes and pushes them out.
func (s *stream) raw(b []byte) {
	_, _ = s.w.Write(b) // a client that went away is what some tests are about
	_ = http.NewResponseController(s.w).Flush()
}

func frame(event *executor.Event) []byte {
	body, err := event.Marshal()
	if err != nil {
		panic(err)
	}
	return append([]byte(strconv.Itoa(len(body))+"\n"), body...)
}

func (s *stream) send(events ...*executor.Event) {
	for _, e := range events {
		s.raw(frame(e))
	}
}

// hold keeps the stream open until the client leaves or the test ends.
func (s *stream) hold() { <-s.gone }

// until waits for the test's word, or for the end of the client.
func (s *stream) until(word <-chan struct{}) {
	select {
	case <-word:
	case <-s.gone:
	}
}

func status(code int) func(*stream) { return func(s *stream) { s.w.WriteHeader(code) } }

func subscribed() *executor.Event {
	cpus, mem := mesos.Resource{}, mesos.Resource{}
	cpus.Name, cpus.Type, cpus.Scalar = "cpus", mesos.SCALAR.Enum(), &mesos.Value_Scalar{Value: 4}
	mem.Name, mem.Type, mem.Scalar = "mem", mesos.SCALAR.Enum(), &mesos.Value_Scalar{Value: 2048}
	return &executor.Event{Type: executor.Event_SUBSCRIBED, Subscribed: &executor.Event_Subscribed{
		ExecutorInfo: mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: "ex"}},
		FrameworkInfo: mesos.FrameworkInfo{User: "root", Name: "mesopod", Capabilities: []mesos.FrameworkInfo_Capability{
			{Type: mesos.FrameworkInfo_Capability_TASK_KILLING_STATE}}},
		AgentInfo: mesos.AgentInfo{Hostname: "a1", ID: &mesos.AgentID{Value: "S0"}, Resources: []mesos.Resource{cpus, mem}},
	}}
}

func launch(id, data string) *executor.Event {
	return &executor.Event{Type: executor.Event_LAUNCH, Launch: &executor.Event_Launch{Task: mesos.TaskInfo{
		Name: id, TaskID: mesos.TaskID{Value: id}, AgentID: mesos.AgentID{Value: "S0"}, Data: []byte(data)}}}
}

func acknowledged(id string, uuid []byte) *executor.Event {
	return &executor.Event{Type: executor.Event_ACKNOWLEDGED,
		Acknowledged: &executor.Event_Acknowledged{TaskID: mesos.TaskID{Value: id}, UUID: uuid}}
}

// owner stands for the executor's loop.
type owner struct {
	t      *testing.T
	conn   *Conn
	agents chan Agent
	events chan core.Event
	done   chan error
	cancel context.CancelFunc

	mu      sync.Mutex
	tasks   []string
	updates []ledger.Update
}

// run starts a connection to the agent; change edits its configuration.
func run(t *testing.T, url string, change func(*Config)) *owner {
	t.Helper()
	o := &owner{t: t, agents: make(chan Agent, 10), events: make(chan core.Event, 1000), done: make(chan error, 1)}
	config := Config{
		URL: url, FrameworkID: "fw", ExecutorID: "ex", AgentID: "S0", Checkpoint: true,
		RecoveryTimeout: time.Hour, ShutdownGrace: time.Minute, RetryInterval: 2 * time.Millisecond,
	}
	if change != nil {
		change(&config)
	}
	conn, err := New(config, Deps{
		Subscribed: func(_ context.Context, a Agent) { o.agents <- a },
		Post:       func(_ context.Context, e core.Event) { o.events <- e },
		Unacknowledged: func(context.Context) ([]string, []ledger.Update) {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.tasks, o.updates
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.conn = conn
	ctx, cancel := context.WithCancel(t.Context())
	o.cancel = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.done <- conn.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return o
}

func (o *owner) record(tasks []string, updates ...ledger.Update) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tasks, o.updates = tasks, updates
}

// next waits for what comes out of a channel.
func next[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
		panic("unreachable")
	}
}

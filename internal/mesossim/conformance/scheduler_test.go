package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

const (
	protobuf = "application/x-protobuf"
	jsonText = "application/json"
)

// fw is a scheduler, played by the test.
type fw struct {
	t          *testing.T
	s          system
	info       mesos.FrameworkInfo
	kind       string // encoding
	stream     string
	header     http.Header // of the answer to SUBSCRIBE
	cancel     context.CancelFunc
	suppressed []string // roles, at SUBSCRIBE
	// constraints are offer constraints in JSON, which mesos-go has no types for.
	constraints string

	mu       sync.Mutex
	events   []*scheduler.Event
	read     int             // events that were looked at
	passed   []mesos.Offer   // open offers among those
	answered map[string]bool // offers that were declined
	fresh    chan struct{}
	closed   chan struct{}
}

var capabilities = []mesos.FrameworkInfo_Capability{
	{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE}, {Type: mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT},
	{Type: mesos.FrameworkInfo_Capability_PARTITION_AWARE}, {Type: mesos.FrameworkInfo_Capability_TASK_KILLING_STATE},
}

// newFramework subscribes a new framework and tears it down at the end of the test.
func newFramework(t *testing.T, s system, change func(*fw)) *fw {
	t.Helper()
	f := &fw{t: t, s: s, kind: protobuf, info: mesos.FrameworkInfo{User: "root", Name: strings.ReplaceAll(t.Name(), "/", "-"),
		Roles: []string{"*"}, Capabilities: capabilities, Checkpoint: ptr(true), FailoverTimeout: ptr(60.0)}}
	if change != nil {
		change(f)
	}
	f.subscribe()
	subscribed := f.next(scheduler.Event_SUBSCRIBED).Subscribed
	f.info.ID = subscribed.FrameworkID
	t.Cleanup(func() {
		operate(t, s, &master.Call{Type: master.Call_TEARDOWN, Teardown: &master.Call_Teardown{FrameworkID: *f.info.ID}})
		f.cancel()
		<-f.closed
		waitIdle(t, s)
	})
	return f
}

// again is another subscription of the same framework, as a successor makes it.
func (f *fw) again(suppressed ...string) *fw {
	f.t.Helper()
	next := &fw{t: f.t, s: f.s, kind: f.kind, info: f.info, suppressed: suppressed}
	next.subscribe()
	f.t.Cleanup(func() {
		next.cancel()
		<-next.closed
	})
	return next
}

func (f *fw) subscribe() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel, f.fresh, f.closed = cancel, make(chan struct{}, 1), make(chan struct{})
	call := &scheduler.Call{Type: scheduler.Call_SUBSCRIBE, FrameworkID: f.info.ID, Subscribe: &scheduler.Call_Subscribe{FrameworkInfo: &f.info, SuppressedRoles: f.suppressed}}
	body, err := encode(f.kind, call)
	if err != nil {
		f.t.Fatal(err)
	}
	response := sendBytes(f.t, ctx, http.MethodPost, "http://"+f.s.master()+"/api/v1/scheduler", f.kind, f.constrained(body), nil)
	if response.StatusCode != http.StatusOK {
		f.t.Fatalf("SUBSCRIBE: %s: %s", response.Status, text(response))
	}
	f.header, f.stream = response.Header, response.Header.Get("Mesos-Stream-Id")
	go func() {
		defer close(f.closed)
		defer response.Body.Close()
		readEvents(response.Body, func(record []byte) {
			event := &scheduler.Event{}
			if err := decode(f.kind, record, event); err != nil {
				f.t.Errorf("event %q: %v", record, err)
			}
			f.mu.Lock()
			f.events = append(f.events, event)
			f.mu.Unlock()
			select {
			case f.fresh <- struct{}{}:
			default:
			}
		})
	}()
}

// constrained puts the constraints into a call, which has to be in JSON then.
func (f *fw) constrained(call []byte) []byte {
	if f.constraints == "" {
		return call
	}
	return bytes.Replace(call, []byte(`"framework_info":`), []byte(`"offer_constraints":`+f.constraints+`,"framework_info":`), 1)
}

// readEvents reads RecordIO until the stream ends.
func readEvents(body io.Reader, each func([]byte)) {
	r := bufio.NewReader(body)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		size, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return
		}
		record := make([]byte, size)
		if _, err := io.ReadFull(r, record); err != nil {
			return
		}
		each(record)
	}
}

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func encode(kind string, m message) ([]byte, error) {
	if kind == jsonText {
		return json.Marshal(m)
	}
	return m.Marshal()
}

func decode(kind string, data []byte, m message) error {
	if kind == jsonText {
		return json.Unmarshal(data, m)
	}
	return m.Unmarshal(data)
}

// transport keeps no connections, so that none is left when the test ends.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func send(t *testing.T, ctx context.Context, url, kind string, call message, change func(http.Header)) *http.Response {
	t.Helper()
	body, err := encode(kind, call)
	if err != nil {
		t.Fatal(err)
	}
	return sendBytes(t, ctx, http.MethodPost, url, kind, body, change)
}

func sendBytes(t *testing.T, ctx context.Context, method, url, kind string, body []byte, change func(http.Header)) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Accept", kind)
	if change != nil {
		change(request.Header)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func text(r *http.Response) string {
	data, _ := io.ReadAll(io.LimitReader(r.Body, 4096)) // only for messages
	_ = r.Body.Close()
	return string(data)
}

// try makes a call and gives the status of the answer and its text.
func (f *fw) try(call *scheduler.Call) (int, string) {
	f.t.Helper()
	call.FrameworkID = f.info.ID
	if call.Decline != nil {
		f.mu.Lock()
		if f.answered == nil {
			f.answered = map[string]bool{}
		}
		for _, id := range call.Decline.OfferIDs {
			f.answered[id.Value] = true
		}
		f.mu.Unlock()
	}
	response := send(f.t, f.t.Context(), "http://"+f.s.master()+"/api/v1/scheduler", f.kind, call, func(h http.Header) {
		h.Set("Mesos-Stream-Id", f.stream)
	})
	return response.StatusCode, text(response)
}

// call makes a call that has to be taken.
func (f *fw) call(call *scheduler.Call) {
	f.t.Helper()
	if code, text := f.try(call); code != http.StatusAccepted {
		f.t.Fatalf("%s: %d: %s", call.Type, code, text)
	}
}

// await gives the next event that fits; those before it are forgotten.
func (f *fw) await(what string, limit time.Duration, fits func(*scheduler.Event) bool) *scheduler.Event {
	f.t.Helper()
	event := f.look(limit, fits)
	if event == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.t.Fatalf("no %s within %v; events: %v", what, limit, f.events)
	}
	return event
}

func (f *fw) look(limit time.Duration, fits func(*scheduler.Event) bool) *scheduler.Event {
	end := time.After(limit)
	for {
		f.mu.Lock()
		for f.read < len(f.events) {
			event := f.events[f.read]
			f.read++
			if fits(event) {
				f.mu.Unlock()
				return event
			}
			f.pass(event)
		}
		f.mu.Unlock()
		select {
		case <-f.fresh:
		case <-end:
			return nil
		}
	}
}

// pass keeps the offers of an event that nobody waited for. The lock is held.
func (f *fw) pass(event *scheduler.Event) {
	if event.Offers != nil {
		f.passed = append(f.passed, event.Offers.Offers...)
	}
	if event.Rescind != nil {
		f.passed = slices.DeleteFunc(f.passed, func(o mesos.Offer) bool { return o.ID.Value == event.Rescind.OfferID.Value })
	}
}

func (f *fw) next(kind scheduler.Event_Type) *scheduler.Event {
	f.t.Helper()
	return f.await(kind.String(), patience, func(e *scheduler.Event) bool { return e.Type == kind })
}

// never fails if such an event comes within a while.
func (f *fw) never(what string, while time.Duration, fits func(*scheduler.Event) bool) {
	f.t.Helper()
	if event := f.look(while, fits); event != nil {
		f.t.Fatalf("%s came: %v", what, event)
	}
}

// offer waits for an offer of an agent, by its host name; the others are declined for long.
func (f *fw) offer(agent string) mesos.Offer {
	f.t.Helper()
	f.mu.Lock()
	passed := f.passed
	f.passed = nil
	f.mu.Unlock()
	var found mesos.Offer
	sort := func(offers []mesos.Offer) {
		for _, o := range offers {
			if o.Hostname == agent+".test" && found.ID.Value == "" {
				found = o
				continue
			}
			f.call(decline(3600, o))
		}
	}
	if sort(passed); found.ID.Value != "" {
		return found
	}
	// Calls are made outside of the lock that look holds.
	for end := time.Now().Add(patience); found.ID.Value == "" && time.Now().Before(end); {
		if event := f.look(patience, offered); event != nil {
			sort(event.Offers.Offers)
		}
	}
	if found.ID.Value == "" {
		f.t.Fatalf("no offer of %s within %v", agent, patience)
	}
	return found
}

// suppress has a framework hold no offers and get none.
func (f *fw) suppress() {
	f.t.Helper()
	f.call(&scheduler.Call{Type: scheduler.Call_SUPPRESS})
	f.look(3*allocation, func(*scheduler.Event) bool { return false }) // what was under way
	if open := f.openOffers(); len(open) > 0 {
		f.call(decline(0, open...))
	}
}

// openOffers are all that came and are neither answered nor rescinded.
func (f *fw) openOffers() (open []mesos.Offer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.Offers != nil {
			open = append(open, e.Offers.Offers...)
		}
		if e.Rescind != nil {
			open = slices.DeleteFunc(open, func(o mesos.Offer) bool { return o.ID == e.Rescind.OfferID })
		}
	}
	open = slices.DeleteFunc(open, func(o mesos.Offer) bool { return f.answered[o.ID.Value] })
	return open
}

func decline(seconds float64, offers ...mesos.Offer) *scheduler.Call {
	call := &scheduler.Call{Type: scheduler.Call_DECLINE, Decline: &scheduler.Call_Decline{Filters: &mesos.Filters{RefuseSeconds: &seconds}}}
	for _, o := range offers {
		call.Decline.OfferIDs = append(call.Decline.OfferIDs, o.ID)
	}
	return call
}

// update waits for a status of a task in a state.
func (f *fw) update(id string, state mesos.TaskState) mesos.TaskStatus {
	f.t.Helper()
	event := f.await(fmt.Sprintf("%s of %s", state, id), patience, func(e *scheduler.Event) bool {
		return e.Update != nil && e.Update.Status.TaskID.Value == id && e.Update.Status.GetState() == state
	})
	return event.Update.Status
}

func (f *fw) ack(status mesos.TaskStatus) {
	f.t.Helper()
	f.call(&scheduler.Call{Type: scheduler.Call_ACKNOWLEDGE, Acknowledge: &scheduler.Call_Acknowledge{
		AgentID: *status.AgentID, TaskID: status.TaskID, UUID: status.UUID}})
}

// operate makes a call of the operator API.
func operate(t *testing.T, s system, call *master.Call) (int, *master.Response) {
	t.Helper()
	response := send(t, context.Background(), "http://"+s.master()+"/api/v1", protobuf, call, nil)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := &master.Response{}
	if response.StatusCode == http.StatusOK && len(data) > 0 {
		if err := answer.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
	}
	return response.StatusCode, answer
}

// eventually waits for something that no event tells.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func getAgents(t *testing.T, s system) map[string]master.Response_GetAgents_Agent {
	t.Helper()
	_, answer := operate(t, s, &master.Call{Type: master.Call_GET_AGENTS})
	agents := map[string]master.Response_GetAgents_Agent{}
	for _, a := range answer.GetGetAgents().GetAgents() {
		if a.Active {
			agents[strings.TrimSuffix(a.AgentInfo.Hostname, ".test")] = a
		}
	}
	return agents
}

func waitForAgents(t *testing.T, s system) {
	t.Helper()
	eventually(t, "both agents registered", func() bool {
		response, err := client.Get("http://" + s.master() + "/master/state")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK && len(getAgents(t, s)) == 2
	})
}

// waitIdle waits until no executor of an earlier test is left.
func waitIdle(t *testing.T, s system) {
	t.Helper()
	eventually(t, "agents without executors", func() bool {
		_, answer := operate(t, s, &master.Call{Type: master.Call_GET_EXECUTORS})
		return len(answer.GetGetExecutors().GetExecutors()) == 0 && idle(s.agent(first))
	})
}

// idle tells whether an agent has no framework left; one that is gone has none.
func idle(address string) bool {
	response, err := client.Get("http://" + address + "/state")
	if err != nil {
		return true
	}
	defer response.Body.Close()
	var page struct{ Frameworks []any }
	return json.NewDecoder(response.Body).Decode(&page) == nil && len(page.Frameworks) == 0
}

func ptr[T any](v T) *T { return &v }

package core

import (
	"fmt"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// world is a cluster whose clock the test holds, with one framework.
type world struct {
	t       *testing.T
	c       *Cluster
	now     time.Time
	id      *mesos.FrameworkID
	stream  string
	events  []*scheduler.Event
	streams int
	seen    func(Effect) // is shown each effect; may be nil
}

func newWorld(t *testing.T, cfg Config, agents int, script Script) *world {
	t.Helper()
	w := &world{t: t, now: time.Unix(1000, 0)}
	cfg.Address = "10.0.0.1:5050"
	w.c = New(w.now, cfg)
	total, err := resources.Parse("cpus:4;mem:4000")
	if err != nil {
		t.Fatal(err)
	}
	for n := range agents {
		w.take(w.c.AddAgent(w.now, AgentConfig{Name: fmt.Sprintf("a%d", n), Hostname: fmt.Sprintf("h%d", n), Address: "10.0.0.2:5051",
			Process: "slave(1)", Resources: total, Script: &script}))
	}
	w.subscribe()
	return w
}

func (w *world) subscribe() {
	w.t.Helper()
	w.streams++
	w.stream = fmt.Sprint("stream", w.streams)
	call := &scheduler.Call{Type: scheduler.Call_SUBSCRIBE, FrameworkID: w.id, Subscribe: &scheduler.Call_Subscribe{FrameworkInfo: &mesos.FrameworkInfo{
		User: "root", Name: "f", ID: w.id, Roles: []string{"*"}, Checkpoint: ptr(true), FailoverTimeout: ptr(100.0), Capabilities: []mesos.FrameworkInfo_Capability{
			{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE}, {Type: mesos.FrameworkInfo_Capability_PARTITION_AWARE}}}}}
	if refused := w.c.Refuse(call, ""); refused != nil {
		w.t.Fatal(refused)
	}
	w.take(w.c.Subscribe(w.now, w.stream, call, nil))
	for _, e := range w.events {
		if e.Subscribed != nil {
			w.id = e.Subscribed.FrameworkID
		}
	}
}

func (w *world) take(effects []Effect) {
	for _, e := range effects {
		if w.seen != nil {
			w.seen(e)
		}
		if sent, ok := e.(SendScheduler); ok && sent.Stream == w.stream {
			w.events = append(w.events, sent.Event)
		}
	}
}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.take(w.c.Advance(w.now))
}

func (w *world) call(call *scheduler.Call) {
	w.t.Helper()
	call.FrameworkID = w.id
	if refused := w.c.Refuse(call, w.stream); refused != nil {
		w.t.Fatal(refused)
	}
	effects, refused := w.c.Call(w.now, call, nil)
	if refused != nil {
		w.t.Fatal(refused)
	}
	w.take(effects)
}

// offers are those that came since the last call of it, and were not rescinded.
func (w *world) offers() (list []mesos.Offer) {
	for _, e := range w.events {
		if e.Offers != nil {
			list = append(list, e.Offers.Offers...)
		}
	}
	return list
}

func (w *world) launch(o mesos.Offer, id string) {
	w.t.Helper()
	amount := func(name string, v float64) mesos.Resource {
		return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: v}}
	}
	w.call(&scheduler.Call{Type: scheduler.Call_ACCEPT, Accept: &scheduler.Call_Accept{OfferIDs: []mesos.OfferID{o.ID},
		Operations: []mesos.Offer_Operation{{Type: mesos.Offer_Operation_LAUNCH, Launch: &mesos.Offer_Operation_Launch{TaskInfos: []mesos.TaskInfo{{
			Name: id, TaskID: mesos.TaskID{Value: id}, AgentID: o.AgentID, Resources: []mesos.Resource{amount("cpus", 1)},
			Executor: &mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: "e"}, Command: &mesos.CommandInfo{Value: ptr("x")},
				Resources: []mesos.Resource{amount("cpus", 1)}}}}}}}}})
}

// states of a task, as they came.
func (w *world) states(id string) (list []mesos.TaskState) {
	for _, e := range w.events {
		if e.Update != nil && e.Update.Status.TaskID.Value == id {
			list = append(list, e.Update.Status.GetState())
		}
	}
	return list
}

func (w *world) count(kind scheduler.Event_Type) (n int) {
	for _, e := range w.events {
		if e.Type == kind {
			n++
		}
	}
	return n
}

// TestRetries: a status comes again after 10 s, 20 s, 40 s and so on, and no more once it is acknowledged.
func TestRetries(t *testing.T) {
	w := newWorld(t, Config{}, 1, Script{})
	w.launch(w.offers()[0], "t")
	for _, c := range []struct {
		pass time.Duration
		want int
	}{{0, 1}, {9 * time.Second, 1}, {time.Second, 2}, {19 * time.Second, 2}, {time.Second, 3}, {40 * time.Second, 4}} {
		w.pass(c.pass)
		if got := len(w.states("t")); got != c.want {
			t.Fatalf("%d statuses after %v, want %d", got, w.now.Sub(time.Unix(1000, 0)), c.want)
		}
	}
	for _, e := range w.events {
		if e.Update != nil {
			status := e.Update.Status
			w.call(&scheduler.Call{Type: scheduler.Call_ACKNOWLEDGE, Acknowledge: &scheduler.Call_Acknowledge{
				AgentID: *status.AgentID, TaskID: status.TaskID, UUID: status.UUID}})
		}
	}
	w.pass(time.Hour)
	if got := len(w.states("t")); got != 4 {
		t.Errorf("%d statuses, though it was acknowledged", got)
	}
}

// TestOfferTimeout: an offer that nobody answers is rescinded, and made again.
func TestOfferTimeout(t *testing.T) {
	w := newWorld(t, Config{OfferTimeout: 5 * time.Second}, 2, Script{})
	w.pass(4 * time.Second)
	if n := w.count(scheduler.Event_RESCIND); n != 0 {
		t.Fatalf("%d rescinded too early", n)
	}
	w.pass(2 * time.Second)
	if rescinded, offers := w.count(scheduler.Event_RESCIND), len(w.offers()); rescinded != 2 || offers != 4 {
		t.Errorf("%d rescinded, %d offers", rescinded, offers)
	}
}

// TestFailoverTimeout: without a scheduler a framework lives as long as its timeout.
func TestFailoverTimeout(t *testing.T) {
	w := newWorld(t, Config{}, 1, Script{})
	w.take(w.c.SchedulerGone(w.now, w.stream))
	w.pass(99 * time.Second)
	if v := w.c.View(false); len(v.Frameworks) != 1 || v.Frameworks[0].Connected {
		t.Fatalf("frameworks %+v", v.Frameworks)
	}
	w.pass(2 * time.Second)
	if v := w.c.View(false); len(v.Frameworks) != 0 || len(v.Completed) != 1 {
		t.Errorf("frameworks %+v, completed %+v", v.Frameworks, v.Completed)
	}
}

// TestMasterRestart: the next master learns tasks from agents, and offers what is left.
func TestMasterRestart(t *testing.T) {
	for _, keep := range []bool{true, false} {
		w := newWorld(t, Config{}, 2, Script{})
		w.launch(w.offers()[0], "t")
		w.pass(0)
		id := w.c.View(false).ID
		w.take(w.c.StopMaster(w.now))
		w.pass(time.Minute)
		w.take(w.c.StartMaster(w.now, keep))
		v := w.c.View(true)
		if v.ID == id || len(v.Agents) != 2 || len(v.Frameworks) != 1 || !v.Frameworks[0].Recovered || len(v.Frameworks[0].Tasks) != 1 {
			t.Fatalf("keep registry %v: %+v", keep, v)
		}
		w.events = nil
		w.subscribe()
		if used, offers := w.c.View(true).Frameworks[0].Used.String(), len(w.offers()); used != "cpus:2" || offers != 2 {
			t.Errorf("keep registry %v: used %s, %d offers", keep, used, offers)
		}
	}
}

// TestNothingLeaks: whatever was launched, killed, cut off and torn down, at the end all agents are free.
func TestNothingLeaks(t *testing.T) {
	w := newWorld(t, Config{}, 3, Script{RunTime: 2 * time.Second, StartDelay: time.Second})
	for round := range 20 {
		for n, o := range w.offers() {
			if w.c.m.offers[o.ID.Value] != nil {
				w.launch(o, fmt.Sprintf("t%d.%d", round, n))
			}
		}
		w.take(w.c.CutAgent(w.now, "a1", round%7 == 3))
		w.pass(time.Duration(round%5) * 700 * time.Millisecond)
		if round%6 == 5 {
			w.take(w.c.StopMaster(w.now))
			w.take(w.c.StartMaster(w.now, round%2 == 0))
			w.subscribe()
		}
	}
	w.take(w.c.CutAgent(w.now, "a1", false))
	w.call(&scheduler.Call{Type: scheduler.Call_TEARDOWN})
	w.pass(5 * time.Minute)
	for _, a := range w.c.View(true).Agents {
		if len(a.Used) > 0 || len(a.Offered) > 0 {
			t.Errorf("agent %s: used %s, offered %s", a.Info.Hostname, a.Used, a.Offered)
		}
	}
	w.id, w.events = nil, nil
	w.subscribe()
	if got := len(w.offers()); got != 3 {
		t.Errorf("%d offers, want 3", got)
	}
	for _, o := range w.offers() {
		if b := resources.Must(o.Resources).String(); b != "cpus:4;mem:4000" {
			t.Errorf("offer of %s: %s", o.Hostname, b)
		}
	}
}

package survival

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"go.uber.org/goleak"

	"github.com/mesopod/mesopod/internal/mesossim"
	simcore "github.com/mesopod/mesopod/internal/mesossim/core"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/mesosconn"
)

func TestMain(m *testing.M) {
	// glog starts its flusher at import and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

var timing = simcore.Config{
	Allocation: 50 * time.Millisecond, UpdateRetry: 300 * time.Millisecond, UpdateRetryMax: time.Second, AgentTimeout: time.Second,
	Heartbeat: 500 * time.Millisecond, ExecutorRegistration: time.Minute, ExecutorGrace: time.Second,
}

func start(t *testing.T, cfg mesossim.Config) *mesossim.Sim {
	t.Helper()
	cfg.Timing = timing
	sim, err := mesossim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sim.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return sim
}

// scheduler drives a mesosconn as scheduler/core does, with pods that want to be finished once.
type scheduler struct {
	conn *mesosconn.Conn
	make func(*mesos.TaskInfo)

	mu          sync.Mutex
	frameworkID string
	pods        map[string]*pod
	tasks       map[string]*pod
	subscribed  int
	states      map[string][]mesos.TaskState
	changed     chan struct{}
}

type pod struct {
	name     string
	attempt  int
	task     string // launched as; empty if it waits
	agent    string
	finished bool
}

func newScheduler(t *testing.T, masters string, pods int, build func(*mesos.TaskInfo)) *scheduler {
	t.Helper()
	s := &scheduler{make: build, pods: map[string]*pod{}, tasks: map[string]*pod{}, states: map[string][]mesos.TaskState{}, changed: make(chan struct{}, 1)}
	for n := range pods {
		name := fmt.Sprintf("pod%d", n)
		s.pods[name] = &pod{name: name}
	}
	events := make(chan core.Event, 1000)
	conn, err := mesosconn.New(mesosconn.Config{
		Master: masters, Framework: mesosconn.Framework{User: "root", Name: "survival", FailoverTimeout: time.Hour},
		CallTimeout: 2 * time.Second, MinBackoff: 5 * time.Millisecond, MaxBackoff: 50 * time.Millisecond,
	}, func(e core.Event) { events <- e })
	if err != nil {
		t.Fatal(err)
	}
	s.conn = conn
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := conn.Run(ctx, ""); err != nil {
			t.Errorf("connection: %v", err)
		}
	})
	group.Go(func() { s.loop(ctx, events) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return s
}

func (s *scheduler) loop(ctx context.Context, events <-chan core.Event) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			s.handle(ctx, e)
		case <-tick.C:
			s.reconcile(ctx)
		}
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

func (s *scheduler) handle(ctx context.Context, e core.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := e.(type) {
	case core.Subscribed:
		s.subscribed++
		s.frameworkID = e.FrameworkID
	case core.Offers:
		for i := range e.Offers {
			s.offered(ctx, &e.Offers[i])
		}
	case core.StatusUpdate:
		s.updated(ctx, e.Status)
	}
}

// offered starts what waits, and gives the rest back.
func (s *scheduler) offered(ctx context.Context, o *mesos.Offer) {
	accept := core.Accept{OfferIDs: []string{o.ID.Value}, RefuseSeconds: 0.1}
	for _, p := range s.pods {
		if p.task != "" || p.finished || len(accept.Tasks) == 4 {
			continue
		}
		p.attempt++
		p.task, p.agent = fmt.Sprintf("%s.%d", p.name, p.attempt), o.AgentID.Value
		s.tasks[p.task] = p
		info := mesos.TaskInfo{Name: p.name, TaskID: mesos.TaskID{Value: p.task}, AgentID: o.AgentID, Resources: []mesos.Resource{cpus(0.1)},
			Executor: &mesos.ExecutorInfo{Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: "e"}, Resources: []mesos.Resource{cpus(0.1)},
				FrameworkID: &mesos.FrameworkID{Value: s.frameworkID}, Command: &mesos.CommandInfo{Value: ptr("exec sleep 600")}}}
		if s.make != nil {
			s.make(&info)
		}
		accept.Tasks = append(accept.Tasks, info)
	}
	if len(accept.Tasks) == 0 {
		_ = s.conn.Decline(ctx, core.Decline{OfferIDs: accept.OfferIDs, RefuseSeconds: 0.1}) // the offer comes again or not at all
		return
	}
	_ = s.conn.Accept(ctx, accept) // whether it was taken, reconciliation tells
}

func (s *scheduler) updated(ctx context.Context, status mesos.TaskStatus) {
	id := status.TaskID.Value
	s.states[id] = append(s.states[id], status.GetState())
	if p := s.tasks[id]; p != nil && p.task == id {
		switch status.GetState() {
		case mesos.TASK_FINISHED:
			p.finished = true
		case mesos.TASK_DROPPED, mesos.TASK_GONE, mesos.TASK_UNKNOWN, mesos.TASK_LOST, mesos.TASK_FAILED:
			if !p.finished {
				p.task = ""
			}
		}
	}
	if len(status.UUID) > 0 {
		_ = s.conn.Acknowledge(ctx, core.Acknowledge{AgentID: status.AgentID.GetValue(), TaskID: id, UUID: status.UUID}) // else it comes again
	}
}

func (s *scheduler) reconcile(ctx context.Context) {
	s.mu.Lock()
	ask := map[string]string{}
	for _, p := range s.pods {
		if p.task != "" && !p.finished {
			ask[p.task] = p.agent
		}
	}
	s.mu.Unlock()
	if len(ask) > 0 {
		_ = s.conn.Reconcile(ctx, core.Reconcile{Tasks: ask}) // the next tick asks again
	}
}

// wait waits until something holds of the scheduler.
func (s *scheduler) wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.After(patience); ; {
		s.mu.Lock()
		done := holds()
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-s.changed:
		case <-end:
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Fatalf("not within %v: %s; states %v", patience, what, s.states)
		}
	}
}

// eventually waits for something that no event tells.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func (s *scheduler) allFinished() bool {
	for _, p := range s.pods {
		if !p.finished {
			return false
		}
	}
	return true
}

func cpus(amount float64) mesos.Resource {
	return mesos.Resource{Name: "cpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: amount},
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr("*")}}
}

func ptr[T any](v T) *T { return &v }

// TestSchedulerSurvives: with each fault between scheduler and master every pod is run to its end.
func TestSchedulerSurvives(t *testing.T) {
	link := mesossim.SchedulerLink
	for name, fault := range map[string]mesossim.Fault{
		"updates dropped":           {Kind: mesossim.Drop, Match: "UPDATE", Count: 5},
		"offers dropped":            {Kind: mesossim.Drop, Match: "OFFERS", Skip: 1, Count: 1},
		"updates delayed":           {Kind: mesossim.Delay, Match: "UPDATE", Count: 3, Delay: mesossim.Duration(200 * time.Millisecond)},
		"updates doubled":           {Kind: mesossim.Duplicate, Match: "UPDATE"},
		"updates out of order":      {Kind: mesossim.Reorder, Match: "UPDATE", Count: 4},
		"update cut in half":        {Kind: mesossim.Truncate, Match: "UPDATE", Skip: 2, Count: 2},
		"offers cut in half":        {Kind: mesossim.Truncate, Match: "OFFERS", Count: 2},
		"SUBSCRIBED cut in half":    {Kind: mesossim.Truncate, Match: "SUBSCRIBED", Count: 2},
		"stream closed":             {Kind: mesossim.Close, Match: "UPDATE", Count: 2},
		"ACKs lost":                 {Kind: mesossim.Drop, Match: "ACKNOWLEDGE", Calls: true, Count: 6},
		"ACKs doubled":              {Kind: mesossim.Duplicate, Match: "ACKNOWLEDGE", Calls: true},
		"ACCEPT lost":               {Kind: mesossim.Drop, Match: "ACCEPT", Calls: true, Count: 2},
		"ACCEPT doubled":            {Kind: mesossim.Duplicate, Match: "ACCEPT", Calls: true, Count: 2},
		"ACCEPT answered by 503":    {Kind: mesossim.Status, Match: "ACCEPT", Code: http.StatusServiceUnavailable, Count: 2},
		"ACCEPT never answered":     {Kind: mesossim.Hang, Match: "ACCEPT", Count: 1},
		"calls delayed":             {Kind: mesossim.Delay, Calls: true, Count: 4, Delay: mesossim.Duration(100 * time.Millisecond)},
		"SUBSCRIBE 503":             {Kind: mesossim.Status, Match: "SUBSCRIBE", Code: http.StatusServiceUnavailable, Count: 3},
		"SUBSCRIBE 307 in a circle": {Kind: mesossim.Status, Match: "SUBSCRIBE", Code: http.StatusTemporaryRedirect, Location: "//MASTER/api/v1/scheduler", Count: 12},
		"ACCEPT 307":                {Kind: mesossim.Status, Match: "ACCEPT", Code: http.StatusTemporaryRedirect, Location: "//MASTER/api/v1/scheduler", Count: 2},
		"all offers delayed":        {Kind: mesossim.Delay, Match: "OFFERS", Delay: mesossim.Duration(100 * time.Millisecond)},
		"offers out of order":       {Kind: mesossim.Reorder, Match: "OFFERS", Count: 2},
		"SUBSCRIBE hangs":           {Kind: mesossim.Hang, Match: "SUBSCRIBE", Count: 1},
		"connection broken":         {Kind: mesossim.Close, Match: "SUBSCRIBE", Calls: true, Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault.Link, fault.ID = link, "f"
			cfg := mesossim.Config{Masters: []string{"127.0.0.1:0"}, Scripted: 3, Script: simcore.Script{RunTime: 20 * time.Millisecond}}
			if strings.Contains(fault.Location, "MASTER") {
				cfg.Masters[0] = freeAddress(t)
				fault.Location = strings.Replace(fault.Location, "MASTER", cfg.Masters[0], 1)
			}
			cfg.Faults = []mesossim.Fault{fault}
			sim := start(t, cfg)
			s := newScheduler(t, sim.Master(), 8, nil)
			s.wait(t, "all pods finished", s.allFinished)
			if sim.Met("f") == 0 {
				t.Error("the fault met nothing")
			}
		})
	}
}

// freeAddress is one of the loopback that nobody uses yet.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestPartitionedScheduler: while nothing goes through, tasks run on; when it is healed all is told.
func TestPartitionedScheduler(t *testing.T) {
	t.Parallel()
	sim := start(t, mesossim.Config{Scripted: 3, Script: simcore.Script{StartDelay: 50 * time.Millisecond, RunTime: 200 * time.Millisecond}})
	s := newScheduler(t, sim.Master(), 8, nil)
	s.wait(t, "subscribed", func() bool { return s.subscribed > 0 })
	id, err := sim.Inject(mesossim.Fault{Link: mesossim.SchedulerLink, Kind: mesossim.Partition})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the partition was met", func() bool { return sim.Met(id) > 0 })
	sim.Heal(id)
	s.wait(t, "all pods finished", s.allFinished)
}

// TestMasterFailsOver: the leader dies and another one leads, or the same one again; tasks run on.
func TestMasterFailsOver(t *testing.T) {
	for name, leader := range map[string]int{"the same": 0, "another": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := start(t, mesossim.Config{Masters: []string{"127.0.0.1:0", "127.0.0.1:0"}, Scripted: 3,
				Script: simcore.Script{RunTime: 700 * time.Millisecond}})
			s := newScheduler(t, sim.MasterAt(0)+","+sim.MasterAt(1), 8, nil)
			s.wait(t, "a task runs", func() bool { return len(s.states) > 0 })
			before := s.subscribed
			sim.StopMaster()
			sim.StartMaster(leader, true)
			s.wait(t, "subscribed again", func() bool { return s.subscribed > before })
			s.wait(t, "all pods finished", s.allFinished)
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, p := range s.pods {
				if p.attempt != 1 && s.states[p.name+".1"] != nil {
					t.Errorf("%s was run again, though it ran: %v", p.name, s.states)
				}
			}
		})
	}
}

// TestAgentsLost: agents vanish and come back; pods come to their end.
func TestAgentsLost(t *testing.T) {
	t.Parallel()
	sim := start(t, mesossim.Config{Scripted: 3, Script: simcore.Script{RunTime: 2 * time.Second}})
	s := newScheduler(t, sim.Master(), 8, nil)
	s.wait(t, "all pods run", func() bool { return len(s.states) >= 8 })
	sim.CutAgent("sim1", true)
	s.wait(t, "a task unreachable", func() bool {
		for _, states := range s.states {
			if states[len(states)-1] == mesos.TASK_UNREACHABLE {
				return true
			}
		}
		return s.allFinished()
	})
	sim.CutAgent("sim1", false)
	s.wait(t, "all pods finished", s.allFinished)
}

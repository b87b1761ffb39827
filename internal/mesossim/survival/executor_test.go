package survival

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/executor/agentconn"
	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/mesossim"
)

// executor drives an agentconn as executor/core does: it records before it sends, and forgets what was acknowledged.
type executor struct {
	conn *agentconn.Conn

	mu      sync.Mutex
	tasks   map[string]bool // launched: acknowledged at least once
	pending []ledger.Update
	last    byte
}

func (e *executor) unacknowledged(context.Context) (tasks []string, updates []ledger.Update) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, acknowledged := range e.tasks {
		if !acknowledged {
			tasks = append(tasks, id)
		}
	}
	return tasks, slices.Clone(e.pending)
}

func (e *executor) post(_ context.Context, event core.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch event := event.(type) {
	case core.Launch:
		if _, known := e.tasks[event.TaskID]; known {
			return
		}
		e.tasks[event.TaskID] = false
		e.say(event.TaskID, mesos.TASK_RUNNING)
		e.say(event.TaskID, mesos.TASK_FINISHED)
	case core.Acknowledged:
		e.pending = slices.DeleteFunc(e.pending, func(u ledger.Update) bool { return slices.Equal(u.UUID, event.UUID) })
		e.tasks[event.TaskID] = true
	}
}

func (e *executor) say(task string, state mesos.TaskState) {
	e.last++
	uuid := make([]byte, 16)
	uuid[0], uuid[6], uuid[8] = e.last, 0x40, 0x80
	u := ledger.Update{TaskID: task, UUID: uuid, State: state, Timestamp: time.Now()}
	e.pending = append(e.pending, u)
	e.conn.Send(u)
}

// run starts the executor beside the process that the agent watches.
func runExecutor(t *testing.T, sim *mesossim.Sim, s *scheduler) {
	t.Helper()
	s.wait(t, "task launched", func() bool { return len(s.tasks) > 0 })
	var agentID string
	s.mu.Lock()
	for _, p := range s.tasks {
		agentID = p.agent
	}
	framework := s.frameworkID
	s.mu.Unlock()
	eventually(t, "the agent starts an executor", func() bool { return sim.HasExecutor("a1", "e") })
	e := &executor{tasks: map[string]bool{}}
	conn, err := agentconn.New(agentconn.Config{
		URL: "http://" + sim.AgentAddress("a1") + "/slave(1)/api/v1/executor", FrameworkID: framework, ExecutorID: "e", AgentID: agentID,
		Checkpoint: true, RecoveryTimeout: time.Minute, ShutdownGrace: time.Second, RetryInterval: 20 * time.Millisecond,
	}, agentconn.Deps{Subscribed: func(context.Context, agentconn.Agent) {}, Post: e.post, Unacknowledged: e.unacknowledged})
	if err != nil {
		t.Fatal(err)
	}
	e.conn = conn
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- conn.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func oneAgent(t *testing.T, faults ...mesossim.Fault) mesossim.Config {
	t.Helper()
	return mesossim.Config{Dir: t.TempDir(), Faults: faults,
		Agents: []mesossim.Agent{{Name: "a1", Hostname: "a1.test", Address: "127.0.0.1:0", Resources: "cpus:4;mem:1000"}}}
}

// endExecutors lets no process outlive the test.
func endExecutors(t *testing.T, sim *mesossim.Sim) {
	t.Helper()
	t.Cleanup(func() { sim.KillExecutors("a1") })
}

// TestExecutorSurvives: with each fault between executor and agent every status reaches the scheduler.
func TestExecutorSurvives(t *testing.T) {
	for name, fault := range map[string]mesossim.Fault{
		"ACKs lost, then the stream":  {Kind: mesossim.Close, Match: "ACKNOWLEDGED", Count: 2},
		"ACK cut in half":             {Kind: mesossim.Truncate, Match: "ACKNOWLEDGED", Count: 2},
		"ACKs doubled":                {Kind: mesossim.Duplicate, Match: "ACKNOWLEDGED"},
		"ACKs out of order":           {Kind: mesossim.Reorder, Match: "ACKNOWLEDGED", Count: 1},
		"LAUNCH doubled":              {Kind: mesossim.Duplicate, Match: "LAUNCH"},
		"LAUNCH delayed":              {Kind: mesossim.Delay, Match: "LAUNCH", Delay: mesossim.Duration(200 * time.Millisecond)},
		"LAUNCH cut in half":          {Kind: mesossim.Truncate, Match: "LAUNCH", Count: 1},
		"SUBSCRIBED cut in half":      {Kind: mesossim.Truncate, Match: "SUBSCRIBED", Count: 1},
		"UPDATE 503":                  {Kind: mesossim.Status, Match: "UPDATE", Code: http.StatusServiceUnavailable, Count: 2},
		"UPDATE lost":                 {Kind: mesossim.Close, Match: "UPDATE", Calls: true, Count: 2},
		"LAUNCH lost with its stream": {Kind: mesossim.Close, Match: "LAUNCH", Count: 1},
		"UPDATE delayed":              {Kind: mesossim.Delay, Match: "UPDATE", Calls: true, Count: 2, Delay: mesossim.Duration(200 * time.Millisecond)},
		"UPDATE never answered":       {Kind: mesossim.Hang, Match: "UPDATE", Count: 1},
		"SUBSCRIBE never answered":    {Kind: mesossim.Hang, Match: "SUBSCRIBE", Count: 1},
		"UPDATE doubled":              {Kind: mesossim.Duplicate, Match: "UPDATE", Calls: true},
		"SUBSCRIBE 404":               {Kind: mesossim.Status, Match: "SUBSCRIBE", Code: http.StatusNotFound, Count: 3},
		"SUBSCRIBE 503":               {Kind: mesossim.Status, Match: "SUBSCRIBE", Code: http.StatusServiceUnavailable, Count: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fault.Link, fault.ID = mesossim.ExecutorLink, "f"
			sim := start(t, oneAgent(t, fault))
			s := newScheduler(t, sim.Master(), 1, nil)
			endExecutors(t, sim)
			runExecutor(t, sim, s)
			s.wait(t, "all pods finished", s.allFinished)
			if sim.Met("f") == 0 {
				t.Error("the fault met nothing")
			}
		})
	}
}

// TestAgentRestarts: the agent's process ends before anything was told; the executor tells all to the next one.
func TestAgentRestarts(t *testing.T) {
	t.Parallel()
	sim := start(t, oneAgent(t, mesossim.Fault{ID: "f", Link: mesossim.ExecutorLink, Kind: mesossim.Status, Match: "UPDATE", Code: http.StatusServiceUnavailable}))
	s := newScheduler(t, sim.Master(), 1, nil)
	endExecutors(t, sim)
	runExecutor(t, sim, s)
	eventually(t, "an update was tried", func() bool { return sim.Met("f") > 0 })
	if err := sim.StopAgent("a1"); err != nil {
		t.Fatal(err)
	}
	sim.Heal("f")
	if err := sim.StartAgent("a1"); err != nil {
		t.Fatal(err)
	}
	s.wait(t, "all pods finished", s.allFinished)
}

// TestPartitionedExecutor: nothing goes through for a while, then all does.
func TestPartitionedExecutor(t *testing.T) {
	t.Parallel()
	sim := start(t, oneAgent(t, mesossim.Fault{ID: "f", Link: mesossim.ExecutorLink + ":a1", Kind: mesossim.Partition}))
	s := newScheduler(t, sim.Master(), 1, nil)
	endExecutors(t, sim)
	runExecutor(t, sim, s)
	eventually(t, "the partition was met", func() bool { return sim.Met("f") > 0 })
	sim.Heal("f")
	s.wait(t, "all pods finished", s.allFinished)
}

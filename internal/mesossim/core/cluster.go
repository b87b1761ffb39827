package core

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/allocator"
)

// Config are the flags of master and agents, as in Mesos, with its defaults where they are zero.
type Config struct {
	// Seed makes ids and uuids differ between runs, or not.
	Seed uint64
	// Allocation is the time between allocations: 1 s.
	Allocation time.Duration
	// OfferTimeout after which an offer is rescinded; zero never.
	OfferTimeout time.Duration
	// Heartbeat of the scheduler's stream: 15 s.
	Heartbeat time.Duration
	// AgentTimeout is how long an agent may be silent before it is unreachable: 75 s.
	AgentTimeout time.Duration
	// ExecutorRegistration is how long an executor may take to subscribe: 1 min; ExecutorReregistration after a restart of
	// the agent: 2 s; ExecutorGrace is how long it may take to end: 5 s, unless ExecutorInfo says otherwise.
	ExecutorRegistration, ExecutorReregistration, ExecutorGrace time.Duration
	// Recovery is how long an executor waits for its agent: 15 min.
	Recovery time.Duration
	// UpdateRetry is the first pause before a status update is sent again: 10 s, doubled up to UpdateRetryMax, 10 min.
	UpdateRetry, UpdateRetryMax time.Duration
	// Completed is how many ended tasks are remembered per framework: 1000.
	Completed int
	// Region of the master, for agents with a fault domain; empty is none.
	Region string
	// Address is the master's host:port.
	Address string
}

func (c *Config) complete() {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.Allocation, time.Second)
	set(&c.Heartbeat, 15*time.Second)
	set(&c.AgentTimeout, 75*time.Second)
	set(&c.ExecutorRegistration, time.Minute)
	set(&c.ExecutorReregistration, 2*time.Second)
	set(&c.ExecutorGrace, 5*time.Second)
	set(&c.Recovery, 15*time.Minute)
	set(&c.UpdateRetry, 10*time.Second)
	set(&c.UpdateRetryMax, 10*time.Minute)
	if c.Completed == 0 {
		c.Completed = 1000
	}
}

// Effect is something to be done outside.
type Effect interface{ effect() }

type (
	// SendScheduler sends an event on a scheduler's stream.
	SendScheduler struct {
		Stream string
		Event  *scheduler.Event
	}
	// CloseScheduler ends a scheduler's stream, after what was sent.
	CloseScheduler struct{ Stream string }
	// SendExecutor sends an event on an executor's stream.
	SendExecutor struct {
		Stream string
		Event  *executor.Event
	}
	// CloseExecutor ends an executor's stream, after what was sent.
	CloseExecutor struct{ Stream string }
	// StartContainer starts an executor. Its end is told by ContainerEnded.
	StartContainer struct{ Container Container }
	// DestroyContainer kills an executor with all its processes.
	DestroyContainer struct{ Container Container }
	// Checkpoint writes what Snapshot gives for the agent, before any later effect.
	Checkpoint struct{ Agent string }
)

func (SendScheduler) effect()    {}
func (CloseScheduler) effect()   {}
func (SendExecutor) effect()     {}
func (CloseExecutor) effect()    {}
func (StartContainer) effect()   {}
func (DestroyContainer) effect() {}
func (Checkpoint) effect()       {}

// Container is a run of an executor.
type Container struct {
	// Agent is the agent's name, AgentID its id.
	Agent, AgentID string
	// ID of the container, a uuid.
	ID string
	// Executor is what to run, with the user in its command; Framework owns it.
	Executor  *mesos.ExecutorInfo
	Framework *mesos.FrameworkInfo
}

// Cluster is a master with its agents.
type Cluster struct {
	cfg    Config
	now    time.Time
	rnd    *rand.Rand
	timers timers
	mail   []func()
	out    []Effect

	m        *master // nil: no master lives
	reg      registry
	agents   map[string]*agent // by name; also those that are down
	machines map[string]*machine
	elected  int
	slaves   int
}

// New makes a cluster with a master and no agents.
func New(now time.Time, cfg Config) *Cluster {
	cfg.complete()
	c := &Cluster{
		cfg: cfg, now: now, rnd: rand.New(rand.NewPCG(cfg.Seed, 7)), agents: map[string]*agent{}, machines: map[string]*machine{},
		reg: newRegistry(),
	}
	c.elect()
	return c
}

// Timing is the configuration with its defaults.
func (c *Cluster) Timing() Config { return c.cfg }

func (c *Cluster) newAllocator() *allocator.Allocator {
	return allocator.New(allocator.Config{Interval: c.cfg.Allocation, MinCPUs: 10, MinMem: 32_000})
}

// do runs a change: first what is due, then it, then all messages.
func (c *Cluster) do(now time.Time, f func()) []Effect {
	c.tick(now)
	f()
	c.deliver()
	out := c.out
	c.out = nil
	return out
}

func (c *Cluster) tick(now time.Time) {
	for len(c.timers) > 0 && !c.timers[0].at.After(now) {
		due := heap.Pop(&c.timers).(*timer)
		if due.at.After(c.now) {
			c.now = due.at
		}
		if due.f != nil {
			due.f()
		}
		c.deliver()
	}
	if now.After(c.now) {
		c.now = now
	}
}

func (c *Cluster) deliver() {
	for len(c.mail) > 0 {
		f := c.mail[0]
		c.mail = c.mail[1:]
		f()
	}
	c.mail = nil
}

// Advance does what is due.
func (c *Cluster) Advance(now time.Time) []Effect { return c.do(now, func() {}) }

// Next tells when something is due; zero is never.
func (c *Cluster) Next() time.Time {
	if len(c.timers) == 0 {
		return time.Time{}
	}
	return c.timers[0].at
}

func (c *Cluster) emit(e Effect) { c.out = append(c.out, e) }

// timer is something to be done later.
type timer struct {
	at time.Time
	f  func()
}

// stop makes the timer do nothing.
func (t *timer) stop() {
	if t != nil {
		t.f = nil
	}
}

func (c *Cluster) after(d time.Duration, f func()) *timer {
	t := &timer{c.now.Add(d), f}
	heap.Push(&c.timers, t)
	return t
}

type timers []*timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(*timer)) }
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	(*t)[len(*t)-1] = nil
	*t = (*t)[:len(*t)-1]
	return last
}

// uuid is 16 bytes, as status updates have them.
func (c *Cluster) uuid() []byte {
	id := make([]byte, 16)
	for i := range id {
		id[i] = byte(c.rnd.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

func (c *Cluster) uuidText() string {
	id := c.uuid()
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }

func ptr[T any](v T) *T { return &v }

// terminal tells whether a task in that state never runs again.
func terminal(s mesos.TaskState) bool {
	switch s {
	case mesos.TASK_STAGING, mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_KILLING, mesos.TASK_UNREACHABLE, mesos.TASK_UNKNOWN:
		return false
	}
	return true
}

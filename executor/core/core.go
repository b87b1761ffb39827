package core

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/executor/suicide"
)

// Config is what the core is made of.
type Config struct {
	// Node is this agent's node name. Required.
	Node string
	// NewUUID makes the 16 random bytes of each update's uuid. Required.
	NewUUID func() []byte
	// LaunchGrace bounds a launch, from LAUNCH to Running (EX-54); 0 = no limit (EX-56).
	LaunchGrace time.Duration
	// SuicideTimeout is how long an idle executor lives (EX-91); 0 = for ever.
	SuicideTimeout time.Duration
	// Ledger is what an earlier process of this executor knew; nil for the first one. It belongs to the core from then
	// on.
	Ledger *ledger.Ledger
	// KillMargin is what a pod gets beyond its grace period before it is ended by force; 0 = 30 s.
	KillMargin time.Duration
}

// Core is the executor's machine. Make one with New.
type Core struct {
	cfg    Config
	ledger *ledger.Ledger
	watch  suicide.Watch

	tasks map[string]*task
	pods  map[types.UID]*pod
	// deletions are the pods whose deletion was asked of the API server and not seen yet, by task id.
	deletions map[string]*deletion
	ended     graveyard
	seq       int

	connected, taskKilling bool
	// drained: the agent was told to drain, and has launched nothing since. It takes no task until this executor has ended,
	// even after it was reactivated, so an idle one ends at once.
	drained bool
	// asked: the scheduler has asked this executor to end, which was idle then and still is.
	asked        bool
	kubeletReady bool
	static       static
	exit         exit
	recovery     recovery

	// These two live for one Step.
	out     []Effect
	feedWhy []string
}

// New makes a core that knows what the ledger tells. It panics when Node or NewUUID is missing: both are the program's own doing.
func New(cfg Config) *Core {
	if cfg.Node == "" || cfg.NewUUID == nil {
		panic("executor core: Config needs Node and NewUUID")
	}
	if cfg.KillMargin == 0 {
		cfg.KillMargin = 30 * time.Second
	}
	known := cfg.Ledger
	if known == nil {
		known = ledger.New()
	}
	c := &Core{
		cfg:       cfg,
		ledger:    known,
		watch:     suicide.New(cfg.SuicideTimeout),
		tasks:     map[string]*task{},
		pods:      map[types.UID]*pod{},
		deletions: map[string]*deletion{},
		ended:     graveyard{fates: map[string]fate{}},
		static:    static{up: map[types.UID]upStatic{}, mirrors: map[types.UID]*corev1.Pod{}},
	}
	c.restore()
	return c
}

// Step takes one event at the given time and returns what is to be done, in order. After Exit it returns nothing.
func (c *Core) Step(now time.Time, ev Event) []Effect {
	if c.exit.done {
		return nil
	}
	c.out, c.feedWhy = nil, nil
	c.take(now, ev)
	c.expire(now)
	c.endPlaceholders(now)
	c.watch.Hold(now, c.heldBy())
	c.endIfDue(now)
	c.expireHold(now)
	c.flushStatic()
	c.flushFeed()
	c.keep()
	if c.exit.done {
		c.do(Exit{Code: c.exit.code, Why: c.exit.why})
	}
	return c.out
}

func (c *Core) take(now time.Time, ev Event) {
	switch ev := ev.(type) {
	case Connected:
		c.onConnected(ev)
	case Disconnected:
		c.connected = false
	case Launch:
		c.onLaunch(now, ev)
	case Kill:
		c.onKill(now, ev)
	case Shutdown:
		c.onShutdown(now, ev)
	case Message:
		c.onMessage(now, ev)
	case Acknowledged:
		c.onAcknowledged(ev)
	case Bound:
		c.onBound(now, ev)
	case BindFailed:
		c.onBindFailed(now, ev)
	case PodChanged:
		c.onPodChanged(now, ev)
	case PodGone:
		c.onPodGone(now, ev.UID)
	case PodsListed:
		c.onPodsListed(now, ev)
	case DeleteFailed:
		c.onDeleteFailed(now, ev)
	case KubeletReady:
		c.onKubeletReady()
	case KubeletPod:
		c.onKubeletPod(now, ev.Pod)
	case KubeletPods:
		c.onKubeletPods(now, ev)
	case KubeletEnded:
		c.onKubeletEnded(now, ev)
	case Configured:
		c.onConfigured(ev)
	case Tick:
	default:
		c.note("", fmt.Sprintf("event %T is not known, ignored", ev))
	}
}

// NextDeadline is when a Tick is due; false when nothing waits for time.
func (c *Core) NextDeadline() (time.Time, bool) {
	if c.exit.done {
		return time.Time{}, false
	}
	var next time.Time
	consider := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, t := range c.tasks {
		consider(t.retryAt)
		consider(t.launchBy)
		consider(t.forceAt)
	}
	for _, d := range c.deletions {
		consider(d.retryAt)
	}
	consider(c.exit.by)
	if c.recovery.hold {
		consider(c.recovery.by)
	}
	if at, armed := c.watch.Deadline(); c.static.parked != "" {
		consider(c.static.by)
	} else if armed {
		consider(at)
	}
	return next, !next.IsZero()
}

// expire lets the deadlines of tasks and deletions pass. It runs after the event, so that a launch or a status wins
// over a deadline of the same moment (EX-99).
func (c *Core) expire(now time.Time) {
	due := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	for _, t := range c.sorted() {
		switch {
		case due(t.launchBy):
			c.launchGraceOver(now, t)
		case due(t.retryAt):
			why := "API server was away, again"
			if t.retryAt.Equal(once) {
				why = "the executor was restarted, again"
			}
			t.retryAt = time.Time{}
			c.call(t, why)
		case due(t.forceAt):
			c.force(now, t)
		}
	}
	for _, id := range sortedKeys(c.deletions) {
		if d := c.deletions[id]; due(d.retryAt) {
			why := "deletion failed before, again"
			switch {
			case d.retryAt.Equal(once):
				why = "the executor was restarted, again"
			case d.evicts(now):
				why = "eviction failed before, again"
			case !d.evictUntil.IsZero():
				why = "no time is left for an eviction"
			}
			d.retryAt = time.Time{}
			c.do(d.effect(now, id, why))
		}
	}
}

// heldBy is what keeps the executor alive in few words, empty for nothing.
func (c *Core) heldBy() string {
	live := 0
	for _, t := range c.tasks {
		if t.live() && !t.placeholder() {
			live++
		}
	}
	if live > 0 {
		return fmt.Sprintf("live tasks: %d", live)
	}
	if c.recovery.hold {
		return "pods of before a restart"
	}
	if open := c.ledger.Open(""); open > 0 {
		return fmt.Sprintf("unacknowledged updates: %d", open)
	}
	for _, d := range c.deletions {
		if !d.retryAt.IsZero() {
			return "a pod that is still to be deleted"
		}
	}
	return ""
}

// Unacknowledged is what goes along with SUBSCRIBE: ids of tasks, and updates in order (EX-120). Both are copies.
func (c *Core) Unacknowledged() (tasks []string, updates []ledger.Update) {
	return c.ledger.Unacknowledged()
}

// Records is all that a restarted executor must know, for a new file (ledger.Snapshot).
func (c *Core) Records() []ledger.Record { return c.ledger.Snapshot() }

// View is a copy of the core's state for people and tests.
type View struct {
	Connected    bool `json:"connected"`
	KubeletReady bool `json:"kubeletReady"`
	ShuttingDown bool `json:"shuttingDown"`
	Ended        bool `json:"ended"`
	// Tasks in the order of their launch.
	Tasks []TaskView `json:"tasks"`
	// FedPods is the number of pods that the kubelet is to know.
	FedPods int `json:"fedPods"`
	// HeldBy is what keeps the suicide watch from ending the executor, empty for nothing.
	HeldBy string `json:"heldBy,omitempty"`
}

// TaskView is one task.
type TaskView struct {
	TaskID    string    `json:"taskID"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	// StaticPods are the claims that a placeholder task accounts for.
	StaticPods string `json:"staticPods,omitempty"`
	State      State  `json:"state"`
	// Unacknowledged counts updates that the agent has not acknowledged.
	Unacknowledged int `json:"unacknowledged"`
}

// Snapshot is a copy of the present state.
func (c *Core) Snapshot() View {
	v := View{
		Connected: c.connected, KubeletReady: c.kubeletReady,
		ShuttingDown: c.exit.begun, Ended: c.exit.done,
		FedPods: len(c.fedPods()), HeldBy: c.heldBy(),
	}
	for _, t := range c.sorted() {
		v.Tasks = append(v.Tasks, TaskView{
			TaskID: t.id, Namespace: t.namespace, Name: t.name, UID: t.uid, StaticPods: t.claims,
			State: t.state, Unacknowledged: c.ledger.Open(t.id),
		})
	}
	return v
}

func (c *Core) do(e Effect)             { c.out = append(c.out, e) }
func (c *Core) note(taskID, why string) { c.do(Note{TaskID: taskID, Why: why}) }
func (c *Core) feed(why string) {
	if !slices.Contains(c.feedWhy, why) {
		c.feedWhy = append(c.feedWhy, why)
	}
}

// sorted is all tasks in the order of their launch: effects must not depend on the order of a map.
func (c *Core) sorted() []*task {
	all := make([]*task, 0, len(c.tasks))
	for _, t := range c.tasks {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *task) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// gracePeriod is the time that a pod asks for its end, or that its deletion gives it.
func gracePeriod(p *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		seconds = *s
	}
	if s := p.DeletionGracePeriodSeconds; s != nil {
		seconds = *s // whoever deleted it may give it more
	}
	return time.Duration(max(seconds, 0)) * time.Second
}

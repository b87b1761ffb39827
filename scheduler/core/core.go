package core

import (
	"maps"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// Core is the scheduler's state. It is not safe for concurrent use.
type Core struct {
	cfg     Config
	procure procure.Config

	// Connection and gate.
	connected      bool
	frameworkID    string
	idStored       bool
	podsSynced     bool
	reconciliation reconciliation

	// What is known.
	agents map[string]*agent
	// executors are what the executors of agents were started with: agent id to ExecutorInfo.
	executors map[string]*mesos.ExecutorInfo
	survey    survey
	nodes     map[string]string // node to agent id
	cordoned  map[string]bool   // nodes that are marked unschedulable
	pool      *offers.Pool
	tasks     *tasks.Table
	// static is what the static pods of each agent take, placeholders are the tasks for them by id.
	static            procure.Static
	placeholders      map[string][]*placeholder // by agent id
	placeholderNumber int64
	placeholderKills  map[string]*placeholder // by task id
	// draining are agents that an operator drains, and when their executors are asked to end; zero while they have tasks.
	draining map[string]time.Time
	short    map[string]bool // agents whose executor runs without the static pods that it should
	pods     map[types.UID]*corev1.Pod
	// namespaces are their annotations messages.AnnotationRoles.
	namespaces map[string]string

	// What is under way.
	launches map[types.UID]*launch
	batches  map[string]*batch // by slot
	killing  map[string]*tasks.Task
	verdicts map[string]*tasks.Task // ended tasks whose pods may need FailPod
	// floors are of the tables that may be long.
	floors   struct{ launches, killing, verdicts, held floor }
	again    []retry
	assigned map[types.UID]*assignment // pods that have a node and want a task
	pace     map[types.UID]*pace       // of launches on assigned nodes
	waiting  map[types.UID]waiting     // pods that kube-scheduler found no node for
	gate     gate
	revive   revive
	limits   limits

	// Of the running Step.
	now       time.Time
	out       []Effect
	dirty     map[string]bool         // agents whose view or keeper may have changed
	lost      []string                // nodes that lost their agent
	published map[string]*offers.View // node
}

// New makes a core that has seen nothing.
func New(cfg Config) *Core {
	cfg = cfg.withDefaults()
	procurement := cfg.Procure()
	return &Core{
		cfg: cfg, procure: procurement,
		static: procure.StaticOf(cfg.StaticPods, procurement), placeholders: map[string][]*placeholder{},
		placeholderKills: map[string]*placeholder{}, short: map[string]bool{}, draining: map[string]time.Time{},
		reconciliation: reconciliation{awaiting: map[string]bool{}},
		agents:         map[string]*agent{}, executors: map[string]*mesos.ExecutorInfo{}, nodes: map[string]string{}, cordoned: map[string]bool{},
		pool: offers.NewPool(procure.ExecutorShare(procurement)), tasks: tasks.NewTable(), pods: map[types.UID]*corev1.Pod{},
		launches: map[types.UID]*launch{}, batches: map[string]*batch{},
		killing: map[string]*tasks.Task{}, verdicts: map[string]*tasks.Task{},
		assigned: map[types.UID]*assignment{}, pace: map[types.UID]*pace{}, waiting: map[types.UID]waiting{}, gate: newGate(),
		namespaces: map[string]string{}, revive: newRevive(),
		dirty: map[string]bool{}, published: map[string]*offers.View{},
	}
}

// Step takes what happened and returns what is to be done, in order. now never goes backwards.
func (c *Core) Step(now time.Time, ev Event) []Effect {
	c.now, c.out = now, nil
	c.take(ev)
	c.passTime()
	c.account()
	c.keepNodes()
	c.considerRevive()
	c.publish()
	c.showGate()
	clear(c.dirty)
	out := c.out
	c.out = nil
	return out
}

// take is the one type switch over events.
func (c *Core) take(ev Event) {
	switch ev := ev.(type) {
	case Subscribed:
		c.onSubscribed(ev)
	case Disconnected:
		c.onDisconnected()
	case Offers:
		c.onOffers(ev)
	case InverseOffers:
		c.onInverseOffers(ev)
	case Rescinded:
		c.onRescinded(ev)
	case StatusUpdate:
		c.onStatus(ev)
	case ExecutorFailed:
		c.onExecutorFailed(ev)
	case AgentRemoved:
		c.onAgentRemoved(ev)
	case Surveyed:
		c.onSurveyed(ev)
	case AgentFound:
		c.onAgentFound(ev)
	case LimitsFound:
		c.onLimitsFound(ev)
	case StaticPods:
		c.onStaticPods(ev)
	case PodsSynced:
		c.onPodsSynced(ev)
	case PodChanged:
		c.onPodChanged(ev.Pod)
	case PodGone:
		c.onPodGone(ev.Pod)
	case NamespaceRoles:
		c.onNamespaceRoles(ev)
	case FrameworkIDStored:
		c.onFrameworkIDStored(ev)
	case NodeStored:
		c.onNodeStored(ev)
	case NodeGone:
		c.onNodeGone(ev)
	case NodeCordoned:
		c.onNodeCordoned(ev)
	case Reserve:
		c.onReserve(ev)
	case Unreserve:
		c.onUnreserve(ev)
	case Bind:
		c.onBind(ev)
	case Waiting:
		c.onWaiting(ev)
	case CallFailed:
		c.onCallFailed(ev)
	case Tick:
	}
}

func (c *Core) do(effect Effect) { c.out = append(c.out, effect) }

func (c *Core) note(taskID, why string) { c.do(Note{TaskID: taskID, Why: why}) }

// open tells that pods are placed.
func (c *Core) open() bool { return c.connected && c.idStored && c.gateOpen() }

// passTime does what is due.
func (c *Core) passTime() {
	c.dueReconciliation()
	c.dueBatches()
	c.dueLaunches()
	c.dueKills()
	c.duePlaceholders()
	c.dismiss()
	c.dueVerdicts()
	c.placeAssigned() // before the offers that it may use expire
	c.dueOffers()
	c.dueRetries()
	c.tellHeld()
	c.dueSurvey()
	c.dueLimits()
}

// NextDeadline is when Step wants a Tick at the latest; false when nothing waits for time.
func (c *Core) NextDeadline() (next time.Time, found bool) {
	at := func(t time.Time) {
		if !t.IsZero() && (!found || t.Before(next)) {
			next, found = t, true
		}
	}
	at(c.reconciliation.by)
	at(c.reconciliation.again)
	for _, b := range c.batches {
		at(b.due)
	}
	at(c.floors.launches.at)
	if c.connected {
		at(c.floors.killing.at)
		for _, p := range c.placeholderKills {
			at(p.nextKill)
		}
		for id := range c.short {
			at(c.accountAt(id))
		}
		for _, when := range c.draining {
			at(when)
		}
		at(c.revive.at)
		at(c.survey.at)
	}
	at(c.floors.verdicts.at)
	for _, r := range c.again {
		at(r.at)
	}
	if !c.gateOpen() {
		at(c.gate.tellAt)
	}
	at(c.floors.held.at)
	for _, a := range c.assigned {
		at(c.wakeAt(a))
	}
	at(c.limitsAt())
	if expiry, waits := c.pool.NextExpiry(); waits {
		at(expiry)
	}
	return next, found
}

// publish tells Filter of changed views.
func (c *Core) publish() {
	changed := map[string]*offers.View{}
	for id := range c.dirty {
		a := c.agents[id]
		if a == nil || a.node == "" || c.nodes[a.node] != id {
			continue
		}
		c.show(changed, a.node, id)
	}
	for _, node := range c.lost {
		c.show(changed, node, c.nodes[node])
	}
	c.lost = nil
	if !c.open() {
		for node := range maps.Clone(c.published) {
			c.show(changed, node, c.nodes[node])
		}
	}
	if len(changed) > 0 {
		c.do(PoolChanged{Views: changed})
	}
}

func (c *Core) show(changed map[string]*offers.View, node, agentID string) {
	var view *offers.View
	if c.open() {
		view = c.view(agentID)
	}
	if view.Equal(c.published[node]) {
		return
	}
	changed[node] = view
	if view == nil {
		delete(c.published, node)
	} else {
		c.published[node] = view
	}
}

// touchAll marks all agents as changed.
func (c *Core) touchAll() {
	for id := range c.agents {
		c.dirty[id] = true
	}
}

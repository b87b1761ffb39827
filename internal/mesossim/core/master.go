package core

import (
	"fmt"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/allocator"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// master is the leading master. It dies whole: the next one is a new value.
type master struct {
	c          *Cluster
	id         string
	start      time.Time
	dead       bool
	alloc      *allocator.Allocator
	frameworks map[string]*framework
	completed  []*framework // torn down, oldest first
	agents     map[string]*node
	recovered  map[string]*mesos.AgentInfo // known from the registry, not yet back
	offers     map[string]*offer
	inverse    map[string]*inverseOffer
	lastFW     int
	lastOffer  int
}

// task is what the master knows of a task.
type task struct {
	info      *mesos.Task
	role      string
	resources resources.Bag
	agent     *node
	framework string
	// latest is the newest state that the agent told; forwarded the last one sent to the scheduler, with its uuid.
	latest, forwarded mesos.TaskState
	uuid              []byte
	// freed tells that its resources were given back.
	freed       bool
	unreachable time.Time
}

// node is an agent as the master knows it.
type node struct {
	id          string
	name        string // of the agent in the cluster
	info        *mesos.AgentInfo
	pid         string
	total       resources.Bag
	connected   bool
	deactivated bool
	drain       *mesos.DrainInfo
	drainStart  time.Time
	registered  time.Time
	reregister  time.Time
	capable     []mesos.AgentInfo_Capability
	tasks       map[taskKey]*task
	executors   map[executorKey]*runningExecutor
	offers      map[string]*offer
	inverse     map[string]*inverseOffer
	silent      *timer // fires when the agent is unreachable
	killed      map[taskKey]*scheduler.Call_Kill
}

type taskKey struct{ framework, id string }
type executorKey struct{ framework, id string }

// runningExecutor is an executor on an agent, with the resources that it takes.
type runningExecutor struct {
	info      *mesos.ExecutorInfo
	role      string
	resources resources.Bag
}

type offer struct {
	id        string
	framework *framework
	role      string
	node      *node
	resources resources.Bag
	timeout   *timer
}

type inverseOffer struct {
	id        string
	framework *framework
	node      *node
	accepted  *bool
}

func newMaster(c *Cluster) *master {
	m := &master{
		c: c, id: c.uuidText(), start: c.now, alloc: c.newAllocator(), frameworks: map[string]*framework{}, agents: map[string]*node{},
		recovered: map[string]*mesos.AgentInfo{}, offers: map[string]*offer{}, inverse: map[string]*inverseOffer{},
	}
	for id, info := range c.reg.admitted {
		m.recovered[id] = info
	}
	c.after(c.cfg.Allocation, m.interval)
	c.after(c.cfg.Heartbeat, m.heartbeat)
	return m
}

func (m *master) stop() {
	m.dead = true
	for _, n := range m.agents {
		n.silent.stop()
	}
	for _, f := range m.frameworks {
		f.failover.stop()
	}
	for _, o := range m.offers {
		o.timeout.stop()
	}
}

func (m *master) interval() {
	if m.dead {
		return
	}
	m.c.after(m.c.cfg.Allocation, m.interval)
	m.allocate()
}

func (m *master) heartbeat() {
	if m.dead {
		return
	}
	m.c.after(m.c.cfg.Heartbeat, m.heartbeat)
	for _, f := range m.sortedFrameworks() {
		f.send(&scheduler.Event{Type: scheduler.Event_HEARTBEAT})
	}
}

func (m *master) sortedFrameworks() []*framework {
	list := make([]*framework, 0, len(m.frameworks))
	for _, f := range m.frameworks {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *framework) int { return compare(a.id, b.id) })
	return list
}

func (m *master) sortedAgents() []*node {
	list := make([]*node, 0, len(m.agents))
	for _, n := range m.agents {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *node) int { return compare(a.id, b.id) })
	return list
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// allocate makes offers of what is free on the agents, on all of them if none is named.
func (m *master) allocate(agents ...string) {
	grants := m.alloc.Allocate(m.c.now, agents...)
	byFramework := map[*framework][]mesos.Offer{}
	var order []*framework
	for _, g := range grants {
		f, n := m.frameworks[g.Framework], m.agents[g.Agent]
		if f == nil || n == nil || !f.connected {
			m.alloc.Recover(m.c.now, g, 0)
			continue
		}
		if byFramework[f] == nil {
			order = append(order, f)
		}
		byFramework[f] = append(byFramework[f], m.newOffer(f, n, g))
	}
	for _, f := range order {
		f.send(&scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: byFramework[f]}})
	}
	m.offerInverse(agents)
}

func (m *master) newOffer(f *framework, n *node, g allocator.Grant) mesos.Offer {
	o := &offer{id: fmt.Sprintf("%s-O%d", m.id, m.lastOffer), framework: f, role: g.Role, node: n, resources: g.Resources}
	m.lastOffer++
	m.offers[o.id], n.offers[o.id], f.offers[o.id] = o, o, o
	if t := m.c.cfg.OfferTimeout; t > 0 {
		o.timeout = m.c.after(t, func() { m.rescind(o) })
	}
	out := mesos.Offer{
		ID: mesos.OfferID{Value: o.id}, FrameworkID: mesos.FrameworkID{Value: f.id}, AgentID: mesos.AgentID{Value: n.id},
		Hostname: n.info.Hostname, URL: n.url(), Domain: n.info.Domain, Attributes: n.info.Attributes,
		Resources: g.Resources.Proto(f.notation(g.Role)), Unavailability: m.c.unavailability(n.info.Hostname),
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: &o.role},
	}
	for key := range n.executors {
		if key.framework == f.id {
			out.ExecutorIDs = append(out.ExecutorIDs, mesos.ExecutorID{Value: key.id})
		}
	}
	return out
}

// drop ends an offer and gives its resources back.
func (m *master) drop(o *offer, refuse time.Duration) {
	m.forget(o)
	m.alloc.Recover(m.c.now, allocator.Grant{Framework: o.framework.id, Role: o.role, Agent: o.node.id, Resources: o.resources}, refuse)
}

func (m *master) forget(o *offer) {
	o.timeout.stop()
	delete(m.offers, o.id)
	delete(o.node.offers, o.id)
	delete(o.framework.offers, o.id)
}

// rescind takes an offer back.
func (m *master) rescind(o *offer) {
	if m.offers[o.id] != o {
		return
	}
	m.drop(o, 0)
	o.framework.send(&scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: mesos.OfferID{Value: o.id}}})
}

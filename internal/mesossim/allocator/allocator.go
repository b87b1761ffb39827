package allocator

import (
	"math"
	"slices"
	"time"

	"github.com/mesopod/mesopod/internal/mesossim/constraints"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// Config of an allocator.
type Config struct {
	// Interval is that of the periodic allocation. No filter is shorter.
	Interval time.Duration
	// MinCPUs and MinMem, in thousandths of a cpu and of a MiB: less than both is not offered.
	MinCPUs, MinMem int64
}

// Framework is what the allocator must know of one.
type Framework struct {
	// Roles that it takes offers in; those in Suppressed get none.
	Roles, Suppressed []string
	// What its capabilities let it be offered.
	GPUs, Regions, Revocable, Shared, Refined bool
	// Constraints keep agents away from it, by role; see package constraints.
	Constraints constraints.Set
}

// Agent is what the allocator must know of one.
type Agent struct {
	Total resources.Bag
	// Remote tells that the agent is in another region than the master.
	Remote bool
	// Facts are what constraints ask about.
	Facts constraints.Agent
}

// Grant is what one framework is offered of one agent, in one role.
type Grant struct {
	Framework, Role, Agent string
	Resources              resources.Bag
}

// Quota of a role, by the names of scalars, in thousandths.
type Quota struct{ Guarantees, Limits map[string]int64 }

type filter struct {
	until     time.Time
	resources resources.Bag
}

type framework struct {
	Framework
	id         string
	active     bool
	suppressed map[string]bool
	filters    map[place][]filter
	allocated  map[string]map[string]int64 // role, scalar
}

// place is where a filter applies.
type place struct{ role, agent string }

type agent struct {
	id     string
	total  resources.Bag
	free   resources.Bag
	remote bool
	active bool
	gpus   bool
	facts  constraints.Agent
}

// Allocator is the state of all allocations.
type Allocator struct {
	cfg        Config
	frameworks map[string]*framework
	agents     map[string]*agent
	order      []*agent // by arrival; the next allocation begins one further
	first      int
	total      map[string]int64
	roles      map[string]map[string]int64 // role, scalar: allocated
	// reserved is what agents have reserved, unreserved what is allocated of the rest; both by role and scalar.
	reserved, unreserved map[string]map[string]int64
	quotas               map[string]Quota
	weights              map[string]float64
}

// New makes an allocator without agents and frameworks.
func New(cfg Config) *Allocator {
	return &Allocator{
		cfg: cfg, frameworks: map[string]*framework{}, agents: map[string]*agent{}, total: map[string]int64{},
		roles: map[string]map[string]int64{}, reserved: map[string]map[string]int64{}, unreserved: map[string]map[string]int64{}, quotas: map[string]Quota{}, weights: map[string]float64{},
	}
}

// SetFramework adds a framework, or changes one. Its filters are cleared where its suppressed roles are told anew.
func (a *Allocator) SetFramework(id string, f Framework) {
	known := a.frameworks[id]
	if known == nil {
		known = &framework{id: id, allocated: map[string]map[string]int64{}}
		a.frameworks[id] = known
	}
	known.Framework, known.active = f, true
	known.filters, known.suppressed = map[place][]filter{}, map[string]bool{}
	for _, role := range f.Suppressed {
		known.suppressed[role] = true
	}
}

// Deactivate stops offers to a framework; what it has stays allocated.
func (a *Allocator) Deactivate(id string) {
	if f := a.frameworks[id]; f != nil {
		f.active, f.filters = false, map[place][]filter{}
	}
}

// RemoveFramework forgets a framework that has nothing allocated any more.
func (a *Allocator) RemoveFramework(id string) { delete(a.frameworks, id) }

// SetAgent adds an agent, or changes its total. What is allocated on it stays so.
func (a *Allocator) SetAgent(id string, one Agent) {
	known := a.agents[id]
	if known == nil {
		known = &agent{id: id, active: true}
		a.agents[id] = known
		a.order = append(a.order, known)
	}
	used := known.total.Minus(known.free)
	a.countTotal(known.total, -1)
	known.total, known.free, known.remote, known.facts = one.Total, one.Total.Minus(used), one.Remote, one.Facts
	known.gpus = one.Total.Scalar("gpus") > 0
	a.countTotal(known.total, 1)
}

// ActivateAgent switches offers of an agent on or off.
func (a *Allocator) ActivateAgent(id string, active bool) {
	if one := a.agents[id]; one != nil {
		one.active = active
	}
}

// RemoveAgent forgets an agent. What was allocated on it must have been recovered before.
func (a *Allocator) RemoveAgent(id string) {
	one := a.agents[id]
	if one == nil {
		return
	}
	a.countTotal(one.total, -1)
	delete(a.agents, id)
	a.order = slices.DeleteFunc(a.order, func(o *agent) bool { return o == one })
	for _, f := range a.frameworks {
		for p := range f.filters {
			if p.agent == id {
				delete(f.filters, p)
			}
		}
	}
}

// Take books resources that a framework has without an offer: tasks of an agent that comes back.
func (a *Allocator) Take(g Grant) { a.book(g, 1) }

// Recover gives back what was offered or used. A positive refuse keeps the framework from being offered these resources
// again for that long.
func (a *Allocator) Recover(now time.Time, g Grant, refuse time.Duration) {
	a.book(g, -1)
	f := a.frameworks[g.Framework]
	if f == nil || refuse <= 0 || len(g.Resources) == 0 {
		return
	}
	// Else the next allocation might come right after the filter's end, and the agent only ever be offered to this one.
	at := place{g.Role, g.Agent}
	f.filters[at] = append(f.live(now, at), filter{now.Add(max(refuse, a.cfg.Interval)), g.Resources})
}

// Convert changes resources of an agent that a framework holds: a reservation or a volume.
func (a *Allocator) Convert(g Grant, into resources.Bag) {
	one := a.agents[g.Agent]
	if one == nil {
		return
	}
	a.countTotal(one.total, -1)
	one.total = one.total.Minus(g.Resources).Plus(into)
	a.countTotal(one.total, 1)
	for _, bag := range []struct {
		of   resources.Bag
		sign int64
	}{{g.Resources, -1}, {into, 1}} {
		a.charge(g.Framework, g.Role, bag.of, bag.sign)
	}
}

// ConvertFree is Convert for resources that nobody holds: an operator's reservation or volume. It tells whether the agent has them
// free.
func (a *Allocator) ConvertFree(agent string, from, into resources.Bag) bool {
	one := a.agents[agent]
	if one == nil || !one.free.Contains(from) {
		return false
	}
	a.countTotal(one.total, -1)
	one.total, one.free = one.total.Minus(from).Plus(into), one.free.Minus(from).Plus(into)
	a.countTotal(one.total, 1)
	return true
}

// Suppress stops offers in roles, all of them if none is named.
func (a *Allocator) Suppress(id string, roles []string) {
	if f := a.frameworks[id]; f != nil {
		for _, role := range f.named(roles) {
			f.suppressed[role] = true
		}
	}
}

// Revive ends filters and suppression in roles, all of them if none is named.
func (a *Allocator) Revive(id string, roles []string) {
	f := a.frameworks[id]
	if f == nil {
		return
	}
	named := f.named(roles)
	for _, role := range named {
		delete(f.suppressed, role)
	}
	for p := range f.filters {
		if slices.Contains(named, p.role) {
			delete(f.filters, p)
		}
	}
}

// SetQuota sets the quota of a role; an empty one removes it.
func (a *Allocator) SetQuota(role string, q Quota) {
	if len(q.Guarantees) == 0 && len(q.Limits) == 0 {
		delete(a.quotas, role)
		return
	}
	a.quotas[role] = q
}

// SetWeight sets the weight of a role; 1 unless it was set.
func (a *Allocator) SetWeight(role string, weight float64) { a.weights[role] = weight }

// Suppressed tells whether a framework is offered nothing in a role.
func (a *Allocator) Suppressed(id, role string) bool {
	f := a.frameworks[id]
	return f != nil && f.suppressed[role]
}

func (f *framework) named(roles []string) []string {
	if len(roles) == 0 {
		return f.Roles
	}
	return roles
}

// live are the filters of a place that have not ended.
func (f *framework) live(now time.Time, at place) []filter {
	list := slices.DeleteFunc(f.filters[at], func(one filter) bool { return !one.until.After(now) })
	if len(list) == 0 {
		delete(f.filters, at)
		return nil
	}
	f.filters[at] = list
	return list
}

func (f *framework) refuses(now time.Time, at place, offer resources.Bag) bool {
	if len(f.filters[at]) == 0 {
		return false
	}
	return slices.ContainsFunc(f.live(now, at), func(one filter) bool { return one.resources.Contains(offer) })
}

func (a *Allocator) book(g Grant, sign int64) {
	if one := a.agents[g.Agent]; one != nil {
		if sign > 0 {
			one.free = one.free.Minus(g.Resources)
		} else {
			one.free = one.free.Plus(g.Resources)
		}
	}
	a.charge(g.Framework, g.Role, g.Resources, sign)
}

// charge counts what a framework has in a role.
func (a *Allocator) charge(id, role string, b resources.Bag, sign int64) {
	add(a.roles, role, b, sign)
	add(a.unreserved, role, b.Only(func(i resources.Item) bool { return i.Role() == resources.Unreserved }), sign)
	if f := a.frameworks[id]; f != nil {
		add(f.allocated, role, b, sign)
	}
}

func (a *Allocator) countTotal(b resources.Bag, sign int64) {
	a.count(a.total, b, sign)
	a.countReserved(b, sign)
}

func (a *Allocator) count(sum map[string]int64, b resources.Bag, sign int64) {
	for _, item := range b {
		if item.Milli != 0 && !item.Revocable() && !item.Shared() {
			sum[item.Name()] += sign * item.Milli
		}
	}
}

// share is the dominant share of an amount.
func (a *Allocator) share(allocated map[string]int64) (share float64) {
	for name, milli := range allocated {
		if total := a.total[name]; total > 0 {
			share = math.Max(share, float64(milli)/float64(total))
		}
	}
	return share
}

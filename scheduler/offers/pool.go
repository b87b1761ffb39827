package offers

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/apimachinery/pkg/types"
)

// Pool holds offers and claims per agent. The zero value is not usable; see NewPool.
type Pool struct {
	executor Amounts
	agents   map[string]*agent
	owner    map[string]string    // offer id to agent id
	claims   map[types.UID]string // pod UID to agent id
	// holders are the agents with offers in a role, by role and agent id.
	holders map[string]map[string]*agent
	// expiries are the times of offers, the first one on top. An offer that has ended stays until its time has come up; one that
	// a claim keeps is taken out then and comes back with the claim's end.
	expiries expiries
}

type agent struct {
	node     string // empty: nothing is shown of this agent
	limits   bool
	executor bool // an executor of ours runs there
	offers   []held
	claims   []Claim // oldest first
	kept     bool    // times of its offers were taken out of the pool's expiries for the sake of claims
	withheld Need    // not for pods
}

type held struct {
	id, role  string
	resources []mesos.Resource
	amounts   Amounts
	ports     Ports
	until     time.Time
}

// NewPool makes an empty pool. executor is the share that the first launch on an agent pays.
func NewPool(executor Amounts) *Pool {
	return &Pool{executor: executor, agents: map[string]*agent{}, owner: map[string]string{}, claims: map[types.UID]string{}, holders: map[string]map[string]*agent{}}
}

func (p *Pool) agent(id string) *agent {
	a := p.agents[id]
	if a == nil {
		a = &agent{}
		p.agents[id] = a
	}
	return a
}

// Add holds an offer of an agent until the given time. An offer that is held already is left as it is.
func (p *Pool) Add(offer *mesos.Offer, until time.Time) {
	id := offer.ID.Value
	if _, known := p.owner[id]; known {
		return
	}
	role := offer.GetAllocationInfo().GetRole()
	amounts, ports := newStock(role, offer.Resources).sum()
	a := p.agent(offer.AgentID.Value)
	a.offers = append(a.offers, held{id: id, role: role, resources: offer.Resources, amounts: amounts, ports: ports, until: until})
	p.owner[id] = offer.AgentID.Value
	if p.holders[role] == nil {
		p.holders[role] = map[string]*agent{}
	}
	p.holders[role][offer.AgentID.Value] = a
	p.expect(expiry{until, id, role})
}

// Show makes an agent's offers visible under a node name; an empty name hides them.
func (p *Pool) Show(agentID, node string, limits bool) {
	a := p.agent(agentID)
	a.node, a.limits = node, limits
}

// SetExecutor tells whether an executor of ours runs, or is being started, on the agent.
func (p *Pool) SetExecutor(agentID string, runs bool) { p.agent(agentID).executor = runs }

// Withhold keeps a need of the agent's own from pods until it is withheld no more: its static pods come first. The amounts
// that are left may be negative.
func (p *Pool) Withhold(agentID string, need Need) { p.agent(agentID).withheld = need }

// Withheld is what is kept from pods of an agent.
func (p *Pool) Withheld(agentID string) Need {
	if a := p.agents[agentID]; a != nil {
		return a.withheld
	}
	return Need{}
}

// Covers tells whether the held offers of an agent in a role cover a need that comes before everything but the executor.
func (p *Pool) Covers(agentID, role string, need Need) bool {
	a := p.agents[agentID]
	if a == nil || !a.holds(role) {
		return false
	}
	free, ports := p.offered(a, role)
	return covers(free, ports, need)
}

// View is what is on offer on an agent: nil when it holds no offers or is hidden.
func (p *Pool) View(agentID string) *View {
	a := p.agents[agentID]
	if a == nil || a.node == "" || len(a.offers) == 0 {
		return nil
	}
	view := &View{AgentID: agentID, Node: a.node, Limits: a.limits, NeedsExecutor: !a.executor}
	if !a.executor {
		view.Share = p.executor
	}
	for _, role := range a.roles() {
		free, ports := p.total(a, role)
		for _, c := range a.claims {
			if c.Role == role {
				free, ports = free.Sub(c.Need.Amounts), ports.Without(c.Need.Ports)
			}
		}
		view.Roles = append(view.Roles, RoleView{Role: role, Free: free, Ports: ports})
	}
	return view
}

// roles are those of the held offers, in order.
func (a *agent) roles() []string {
	var roles []string
	for _, h := range a.offers {
		roles = append(roles, h.role)
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// total is what pods may have of the held offers of a role. What is withheld may come from any role, so each leaves it.
func (p *Pool) total(a *agent, role string) (Amounts, Ports) {
	free, ports := p.offered(a, role)
	return free.Sub(a.withheld.Amounts), ports.Without(a.withheld.Ports)
}

// offered is what the held offers of a role sum up to, less the executor's share where none runs.
func (p *Pool) offered(a *agent, role string) (Amounts, Ports) {
	var free Amounts
	var ports Ports
	for _, h := range a.offers {
		if h.role == role {
			free = free.Add(h.amounts)
			ports = append(ports, h.ports...)
		}
	}
	if !a.executor {
		free = free.Sub(p.executor)
	}
	return free, union(ports)
}

// Stock is what the held offers of an agent in a role hold, to launch pods with.
func (p *Pool) Stock(agentID, role string) *Stock {
	var offered [][]mesos.Resource
	if a := p.agents[agentID]; a != nil {
		for _, h := range a.offers {
			if h.role == role {
				offered = append(offered, h.resources)
			}
		}
	}
	return newStock(role, offered...)
}

func (a *agent) holds(role string) bool {
	return slices.ContainsFunc(a.offers, func(h held) bool { return h.role == role })
}

// Take ends the claims of pods that are launched, and gives up all held offers of the agent in the role for the ACCEPT
// that launches them, oldest first.
func (p *Pool) Take(agentID, role string, uids []types.UID) (offerIDs []string) {
	for _, uid := range uids {
		p.Release(uid)
	}
	return p.give(agentID, func(h held) bool { return h.role == role })
}

// give forgets those offers of an agent and returns their ids.
func (p *Pool) give(agentID string, which func(held) bool) (ids []string) {
	a := p.agents[agentID]
	if a == nil {
		return nil
	}
	a.offers = slices.DeleteFunc(a.offers, func(h held) bool {
		if !which(h) {
			return false
		}
		ids = append(ids, h.id)
		delete(p.owner, h.id)
		return true
	})
	for _, holders := range p.holders {
		if holders[agentID] == a {
			delete(holders, agentID)
		}
	}
	for _, h := range a.offers {
		p.holders[h.role][agentID] = a
	}
	return ids
}

// Held is one offer that is held.
type Held struct {
	ID, AgentID, Role string
	Amounts
	Ports Ports
	// Until is when it is declined if nothing uses it.
	Until time.Time
}

// Offers are copies of all held offers, in no order.
func (p *Pool) Offers() []Held {
	held := make([]Held, 0, len(p.owner))
	for id, a := range p.agents {
		for _, h := range a.offers {
			held = append(held, Held{ID: h.id, AgentID: id, Role: h.role, Amounts: h.amounts, Ports: h.ports, Until: h.until})
		}
	}
	return held
}

func all(held) bool { return true }

// Holds returns the ids of the offers held of an agent, oldest first.
func (p *Pool) Holds(agentID string) []string { return p.holding(agentID, all) }

// HoldsIn returns the ids of the offers held of an agent in a role, oldest first.
func (p *Pool) HoldsIn(agentID, role string) []string {
	return p.holding(agentID, func(h held) bool { return h.role == role })
}

func (p *Pool) holding(agentID string, which func(held) bool) (ids []string) {
	if a := p.agents[agentID]; a != nil {
		for _, h := range a.offers {
			if which(h) {
				ids = append(ids, h.id)
			}
		}
	}
	return ids
}

// Idle tells that no offer at all is held.
func (p *Pool) Idle() bool { return len(p.owner) == 0 }

// Empty tells that no offer of a role is held.
func (p *Pool) Empty(role string) bool { return len(p.holders[role]) == 0 }

// Rescind forgets an offer that the master took back, and ends the claims that the remaining offers do not cover,
// youngest first. found is false for an offer that is not held: it crossed with an ACCEPT or DECLINE.
func (p *Pool) Rescind(offerID string) (agentID string, dropped []types.UID, found bool) {
	agentID, found = p.owner[offerID]
	if !found {
		return "", nil, false
	}
	a := p.agents[agentID]
	role := ""
	p.give(agentID, func(h held) bool {
		if h.id == offerID {
			role = h.role
		}
		return h.id == offerID
	})
	free, ports := p.total(a, role)
	var kept []Claim
	for _, c := range a.claims {
		if c.Role != role {
			kept = append(kept, c)
			continue
		}
		if a.holds(role) && covers(free, ports, c.Need) {
			free, ports = free.Sub(c.Need.Amounts), ports.Without(c.Need.Ports)
			kept = append(kept, c)
			continue
		}
		delete(p.claims, c.UID)
		dropped = append(dropped, c.UID)
	}
	a.claims = kept
	p.unkeep(a)
	return agentID, dropped, true
}

// Expired is what Expire gives up of one agent in one role.
type Expired struct {
	AgentID, Role string
	OfferIDs      []string
}

// Expire gives up all offers of each agent in each role whose oldest offer's time has passed, or whose role is not useful
// now, or whose agent is barred, and that has no claims, for the caller to decline.
func (p *Pool) Expire(now time.Time, useless func(role string) bool, barred map[string]bool) []Expired {
	var gone []Expired
	expire := func(id, role string) {
		gone = append(gone, Expired{AgentID: id, Role: role, OfferIDs: p.give(id, func(h held) bool { return h.role == role })})
	}
	for role, holders := range p.holders {
		all := len(holders) > 0 && useless(role)
		if !all && len(barred) == 0 {
			continue
		}
		for id, a := range maps.Clone(holders) {
			if (all || barred[id]) && !a.claimed(role) {
				expire(id, role)
			}
		}
	}
	for {
		next, waits := p.nextExpiry()
		if !waits || next.until.After(now) {
			break
		}
		expire(p.owner[next.offerID], next.role)
	}
	slices.SortFunc(gone, func(a, b Expired) int {
		return cmp.Or(cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.Role, b.Role))
	})
	return gone
}

// NextExpiry is when the time of some offers that Expire gives up passes.
func (p *Pool) NextExpiry() (next time.Time, found bool) {
	first, found := p.nextExpiry()
	return first.until, found
}

// nextExpiry is the first offer whose time has not ended with it, and that no claim keeps.
func (p *Pool) nextExpiry() (first expiry, found bool) {
	for len(p.expiries) > 0 {
		first = p.expiries[0]
		id, held := p.owner[first.offerID]
		switch a := p.agents[id]; {
		case !held:
		case a.claimed(first.role):
			a.kept = true
		default:
			return first, true
		}
		p.expiries.pop()
	}
	return expiry{}, false
}

// expect enters the time of an offer. Times of offers that have ended are left out as soon as they are most of all.
func (p *Pool) expect(one expiry) {
	if len(p.expiries) > 2*len(p.owner)+leastExpiries {
		p.expiries = p.expiries[:0]
		for _, a := range p.agents {
			a.kept = false
			for _, h := range a.offers {
				p.expiries = append(p.expiries, expiry{h.until, h.id, h.role})
			}
		}
		heap.Init((*ordered)(&p.expiries))
		return // the new one is among them
	}
	p.expiries.push(one)
}

// unkeep brings the times of an agent's offers back, once claims there have ended.
func (p *Pool) unkeep(a *agent) {
	if !a.kept {
		return
	}
	a.kept = false
	for _, h := range a.offers {
		p.expect(expiry{h.until, h.id, h.role})
	}
}

// claimed tells that claims keep the agent's offers in a role from expiry.
func (a *agent) claimed(role string) bool {
	return slices.ContainsFunc(a.claims, func(c Claim) bool { return c.Role == role })
}

// Drop forgets an agent: its offers, for the caller to decline if the agent still exists, and its claims.
func (p *Pool) Drop(agentID string) (offerIDs []string, dropped []types.UID) {
	a := p.agents[agentID]
	if a == nil {
		return nil, nil
	}
	offerIDs = p.give(agentID, all)
	for _, c := range a.claims {
		delete(p.claims, c.UID)
		dropped = append(dropped, c.UID)
	}
	delete(p.agents, agentID)
	return offerIDs, dropped
}

// Clear forgets all offers and claims: the connection on which the offers were made is lost. It returns the pods that
// had claims, agent by agent.
func (p *Pool) Clear() (dropped []types.UID) {
	for _, id := range slices.Sorted(maps.Keys(p.agents)) {
		a := p.agents[id]
		p.give(id, all)
		for _, c := range a.claims {
			dropped = append(dropped, c.UID)
		}
		a.claims, a.kept = nil, false
	}
	clear(p.claims)
	p.expiries = nil
	return dropped
}

package offers

import (
	"cmp"
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
}

type agent struct {
	node     string // empty: nothing is shown of this agent
	limits   bool
	executor bool // an executor of ours runs there
	offers   []held
	claims   []claim // oldest first
	withheld Need    // not for pods
}

type held struct {
	id      string
	amounts Amounts
	ports   Ports
	until   time.Time
}

type claim struct {
	uid  types.UID
	need Need
}

// NewPool makes an empty pool. executor is the share that the first launch on an agent pays.
func NewPool(executor Amounts) *Pool {
	return &Pool{executor: executor, agents: map[string]*agent{}, owner: map[string]string{}, claims: map[types.UID]string{}}
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
	amounts, ports := Plain(offer.Resources)
	a := p.agent(offer.AgentID.Value)
	a.offers = append(a.offers, held{id: id, amounts: amounts, ports: ports, until: until})
	p.owner[id] = offer.AgentID.Value
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

// Covers tells whether the held offers of an agent cover a need that comes before everything but the executor.
func (p *Pool) Covers(agentID string, need Need) bool {
	a := p.agents[agentID]
	if a == nil || len(a.offers) == 0 {
		return false
	}
	free, ports := p.offered(a)
	return covers(free, ports, need)
}

// View is what is on offer on an agent: nil when it holds no offers or is hidden.
func (p *Pool) View(agentID string) *View {
	a := p.agents[agentID]
	if a == nil || a.node == "" || len(a.offers) == 0 {
		return nil
	}
	free, ports := p.total(a)
	for _, c := range a.claims {
		free, ports = free.Sub(c.need.Amounts), ports.Without(c.need.Ports)
	}
	return &View{AgentID: agentID, Node: a.node, Limits: a.limits, NeedsExecutor: !a.executor, Free: free, Ports: ports}
}

// total is what pods may have of the held offers.
func (p *Pool) total(a *agent) (Amounts, Ports) {
	free, ports := p.offered(a)
	return free.Sub(a.withheld.Amounts), ports.Without(a.withheld.Ports)
}

// offered is what the held offers sum up to, less the executor's share where none runs.
func (p *Pool) offered(a *agent) (Amounts, Ports) {
	var free Amounts
	var ports Ports
	for _, h := range a.offers {
		free = free.Add(h.amounts)
		ports = append(ports, h.ports...)
	}
	if !a.executor {
		free = free.Sub(p.executor)
	}
	return free, union(ports)
}

// Claim reserves a need, as it is on that agent, for a pod. It replaces an earlier claim of the pod. The caller has
// checked that it fits.
func (p *Pool) Claim(agentID string, uid types.UID, need Need) {
	p.Release(uid)
	a := p.agent(agentID)
	a.claims = append(a.claims, claim{uid: uid, need: need})
	p.claims[uid] = agentID
}

// Claimed returns the agent and the need of a pod's claim.
func (p *Pool) Claimed(uid types.UID) (agentID string, need Need, found bool) {
	agentID, found = p.claims[uid]
	if !found {
		return "", Need{}, false
	}
	for _, c := range p.agents[agentID].claims {
		if c.uid == uid {
			return agentID, c.need, true
		}
	}
	return "", Need{}, false
}

// Release ends a pod's claim and returns the agent that it was on; no claim is no harm.
func (p *Pool) Release(uid types.UID) (agentID string, found bool) {
	agentID, found = p.claims[uid]
	if !found {
		return "", false
	}
	a := p.agents[agentID]
	a.claims = slices.DeleteFunc(a.claims, func(c claim) bool { return c.uid == uid })
	delete(p.claims, uid)
	return agentID, true
}

// Fitting returns those of the pods, in order, whose claims the held offers of the agent cover together.
func (p *Pool) Fitting(agentID string, uids []types.UID) []types.UID {
	a := p.agents[agentID]
	if a == nil || len(a.offers) == 0 {
		return nil
	}
	free, ports := p.total(a)
	var fitting []types.UID
	for _, uid := range uids {
		at, need, found := p.Claimed(uid)
		if !found || at != agentID || !covers(free, ports, need) {
			continue
		}
		free, ports = free.Sub(need.Amounts), ports.Without(need.Ports)
		fitting = append(fitting, uid)
	}
	return fitting
}

func covers(free Amounts, ports Ports, need Need) bool {
	return need.CPUs <= free.CPUs && need.MemMB <= free.MemMB && (need.DiskMB == 0 || need.DiskMB <= free.DiskMB) && ports.Has(need.Ports)
}

// Take ends the claims of pods that are launched, and gives up all held offers of the agent for the ACCEPT that
// launches them, oldest first.
func (p *Pool) Take(agentID string, uids []types.UID) (offerIDs []string) {
	for _, uid := range uids {
		p.Release(uid)
	}
	return p.give(agentID)
}

// give forgets all offers of an agent and returns their ids.
func (p *Pool) give(agentID string) []string {
	a := p.agents[agentID]
	if a == nil {
		return nil
	}
	var ids []string
	for _, h := range a.offers {
		ids = append(ids, h.id)
		delete(p.owner, h.id)
	}
	a.offers = nil
	return ids
}

// Held is one offer that is held.
type Held struct {
	ID, AgentID string
	Amounts
	Ports Ports
	// Until is when it is declined if nothing uses it.
	Until time.Time
}

// Offers are copies of all held offers, in no order.
func (p *Pool) Offers() []Held {
	all := make([]Held, 0, len(p.owner))
	for id, a := range p.agents {
		for _, h := range a.offers {
			all = append(all, Held{ID: h.id, AgentID: id, Amounts: h.amounts, Ports: h.ports, Until: h.until})
		}
	}
	return all
}

// ClaimsOn counts the pods that something is reserved for on an agent.
func (p *Pool) ClaimsOn(agentID string) int {
	if a := p.agents[agentID]; a != nil {
		return len(a.claims)
	}
	return 0
}

// Holds returns the ids of the offers held of an agent, oldest first.
func (p *Pool) Holds(agentID string) []string {
	var ids []string
	if a := p.agents[agentID]; a != nil {
		for _, h := range a.offers {
			ids = append(ids, h.id)
		}
	}
	return ids
}

// Rescind forgets an offer that the master took back, and ends the claims that the remaining offers do not cover,
// youngest first. found is false for an offer that is not held: it crossed with an ACCEPT or DECLINE.
func (p *Pool) Rescind(offerID string) (agentID string, dropped []types.UID, found bool) {
	agentID, found = p.owner[offerID]
	if !found {
		return "", nil, false
	}
	delete(p.owner, offerID)
	a := p.agents[agentID]
	a.offers = slices.DeleteFunc(a.offers, func(h held) bool { return h.id == offerID })
	free, ports := p.total(a)
	var kept []claim
	for _, c := range a.claims {
		if len(a.offers) > 0 && covers(free, ports, c.need) {
			free, ports = free.Sub(c.need.Amounts), ports.Without(c.need.Ports)
			kept = append(kept, c)
			continue
		}
		delete(p.claims, c.uid)
		dropped = append(dropped, c.uid)
	}
	a.claims = kept
	return agentID, dropped, true
}

// Expired is what Expire gives up of one agent.
type Expired struct {
	AgentID  string
	OfferIDs []string
}

// Expire gives up all offers of each agent whose oldest offer's time has passed and that has no claims, for the
// caller to decline.
func (p *Pool) Expire(now time.Time) []Expired {
	var all []Expired
	for id, a := range p.agents {
		if until, waits := a.expiry(); waits && !until.After(now) {
			all = append(all, Expired{AgentID: id, OfferIDs: p.give(id)})
		}
	}
	slices.SortFunc(all, func(a, b Expired) int { return cmp.Compare(a.AgentID, b.AgentID) })
	return all
}

// NextExpiry is when Expire has something to do.
func (p *Pool) NextExpiry() (next time.Time, found bool) {
	for _, a := range p.agents {
		if until, waits := a.expiry(); waits && (!found || until.Before(next)) {
			next, found = until, true
		}
	}
	return next, found
}

func (a *agent) expiry() (time.Time, bool) {
	if len(a.offers) == 0 || len(a.claims) > 0 {
		return time.Time{}, false
	}
	return slices.MinFunc(a.offers, func(x, y held) int { return x.until.Compare(y.until) }).until, true
}

// Drop forgets an agent: its offers, for the caller to decline if the agent still exists, and its claims.
func (p *Pool) Drop(agentID string) (offerIDs []string, dropped []types.UID) {
	a := p.agents[agentID]
	if a == nil {
		return nil, nil
	}
	offerIDs = p.give(agentID)
	for _, c := range a.claims {
		delete(p.claims, c.uid)
		dropped = append(dropped, c.uid)
	}
	delete(p.agents, agentID)
	return offerIDs, dropped
}

// Clear forgets all offers and claims: the connection on which the offers were made is lost. It returns the pods that
// had claims, agent by agent.
func (p *Pool) Clear() (dropped []types.UID) {
	for _, id := range slices.Sorted(maps.Keys(p.agents)) {
		a := p.agents[id]
		p.give(id)
		for _, c := range a.claims {
			dropped = append(dropped, c.uid)
		}
		a.claims = nil
	}
	clear(p.claims)
	return dropped
}

package offers

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Claim is what is reserved for one pod: a need, as it is on that agent, in one role.
type Claim struct {
	UID           types.UID
	AgentID, Role string
	Need          Need
}

// Claim reserves for a pod. It replaces an earlier claim of the pod. The caller has checked that it fits.
func (p *Pool) Claim(c Claim) {
	p.Release(c.UID)
	a := p.agent(c.AgentID)
	a.claims = append(a.claims, c)
	p.claims[c.UID] = c.AgentID
}

// Claimed returns a pod's claim.
func (p *Pool) Claimed(uid types.UID) (claim Claim, found bool) {
	agentID, found := p.claims[uid]
	if !found {
		return Claim{}, false
	}
	for _, c := range p.agents[agentID].claims {
		if c.UID == uid {
			return c, true
		}
	}
	return Claim{}, false
}

// Release ends a pod's claim and returns the agent that it was on; no claim is no harm.
func (p *Pool) Release(uid types.UID) (agentID string, found bool) {
	agentID, found = p.claims[uid]
	if !found {
		return "", false
	}
	a := p.agents[agentID]
	a.claims = slices.DeleteFunc(a.claims, func(c Claim) bool { return c.UID == uid })
	delete(p.claims, uid)
	p.unkeep(a)
	return agentID, true
}

// Fitting returns those of the pods, in order, whose claims the held offers of the agent in the role cover together.
func (p *Pool) Fitting(agentID, role string, uids []types.UID) []types.UID {
	a := p.agents[agentID]
	if a == nil || !a.holds(role) {
		return nil
	}
	free, ports := p.total(a, role)
	var fitting []types.UID
	for _, uid := range uids {
		c, found := p.Claimed(uid)
		if !found || c.AgentID != agentID || c.Role != role || !covers(free, ports, c.Need) {
			continue
		}
		free, ports = free.Sub(c.Need.Amounts), ports.Without(c.Need.Ports)
		fitting = append(fitting, uid)
	}
	return fitting
}

func covers(free Amounts, ports Ports, need Need) bool {
	return need.CPUs <= free.CPUs && need.MemMB <= free.MemMB && (need.DiskMB == 0 || need.DiskMB <= free.DiskMB) &&
		(need.GPUs == 0 || need.GPUs <= free.GPUs) && ports.Has(need.Ports)
}

// ClaimsOn counts the pods that something is reserved for on an agent.
func (p *Pool) ClaimsOn(agentID string) int {
	if a := p.agents[agentID]; a != nil {
		return len(a.claims)
	}
	return 0
}

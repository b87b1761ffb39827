package allocator

import (
	"cmp"
	"slices"
	"time"

	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// Allocate hands out what is free on the named agents, on all if none is named. Each grant is booked; who does not want
// it gives it back by Recover.
func (a *Allocator) Allocate(now time.Time, agents ...string) []Grant {
	var candidates []*agent
	if len(agents) == 0 {
		// Not always the same agent first, else one framework would always get the same ones.
		n := len(a.order)
		for i := range n {
			candidates = append(candidates, a.order[(a.first+i)%n])
		}
		if n > 0 {
			a.first = (a.first + 1) % n
		}
	}
	for _, id := range agents {
		if one := a.agents[id]; one != nil {
			candidates = append(candidates, one)
		}
	}
	var grants []Grant
	roles := a.interested()
	for _, quota := range []bool{true, false} {
		for _, one := range candidates {
			if one.active && len(one.free) > 0 {
				grants = a.allocateAgent(now, one, roles, quota, grants)
			}
		}
	}
	return merged(grants)
}

// merged joins what one framework got of one agent in both rounds.
func merged(grants []Grant) []Grant {
	type key struct{ framework, role, agent string }
	at := map[key]int{}
	var list []Grant
	for _, g := range grants {
		k := key{g.Framework, g.Role, g.Agent}
		if n, known := at[k]; known {
			list[n].Resources = list[n].Resources.Plus(g.Resources)
			continue
		}
		at[k] = len(list)
		list = append(list, g)
	}
	return list
}

// interested are the roles in which any framework takes offers, with those frameworks.
func (a *Allocator) interested() map[string][]*framework {
	roles := map[string][]*framework{}
	for _, f := range a.frameworks {
		if !f.active {
			continue
		}
		for _, role := range f.Roles {
			if !f.suppressed[role] {
				roles[role] = append(roles[role], f)
			}
		}
	}
	return roles
}

// allocateAgent gives what one agent has to whoever has the least. In the round for quota only roles with an unmet
// guarantee get anything.
func (a *Allocator) allocateAgent(now time.Time, one *agent, roles map[string][]*framework, quota bool, grants []Grant) []Grant {
	for _, role := range a.sorted(roles) {
		if quota && !a.unmet(role) {
			continue
		}
		for _, f := range a.sortedFrameworks(roles[role], role) {
			offer := a.offer(one, f, role, quota)
			if !a.worthwhile(offer) || f.refuses(now, place{role, one.id}, offer) {
				continue
			}
			g := Grant{f.id, role, one.id, offer}
			a.book(g, 1)
			grants = append(grants, g)
			if len(one.free) == 0 {
				return grants
			}
		}
	}
	return grants
}

func (a *Allocator) sortedFrameworks(list []*framework, role string) []*framework {
	if len(list) > 1 {
		slices.SortFunc(list, func(x, y *framework) int {
			return cmp.Or(cmp.Compare(a.share(x.allocated[role]), a.share(y.allocated[role])), cmp.Compare(x.id, y.id))
		})
	}
	return list
}

// offer is what of an agent a framework may be offered in a role.
func (a *Allocator) offer(one *agent, f *framework, role string, quota bool) resources.Bag {
	if one.gpus && !f.GPUs || one.remote && !f.Regions || !f.Constraints.Admit(role, one.facts) {
		return nil
	}
	offer := one.free.Only(func(i resources.Item) bool {
		reserved := i.Role()
		return (reserved == resources.Unreserved || below(role, reserved)) &&
			(f.Refined || !i.Refined()) && (f.Revocable || !i.Revocable()) && (f.Shared || !i.Shared())
	})
	// Quotas of an ancestor are not asked, though what a nested role has counts for them: so does Mesos.
	q := a.quotas[role]
	for name, limit := range q.Limits {
		offer = offer.AtMost(name, limit-a.consumed(role, name))
	}
	if quota {
		for name, guarantee := range q.Guarantees {
			offer = offer.AtMost(name, guarantee-a.consumed(role, name))
		}
	}
	if !quota {
		for name, kept := range a.headroom(role) {
			offer = offer.AtMost(name, a.freeOf(name)-kept)
		}
	}
	return offer
}

func (a *Allocator) unmet(role string) bool {
	for name, guarantee := range a.quotas[role].Guarantees {
		if a.consumed(role, name) < guarantee {
			return true
		}
	}
	return false
}

// headroom is what is kept free for the unmet guarantees of other roles.
func (a *Allocator) headroom(role string) map[string]int64 {
	if len(a.quotas) == 0 {
		return nil
	}
	kept := map[string]int64{}
	for other, q := range a.quotas {
		if other == role {
			continue
		}
		for name, guarantee := range q.Guarantees {
			kept[name] += max(0, guarantee-a.consumed(other, name))
		}
	}
	return kept
}

// freeOf is the unreserved free amount of a scalar on all agents.
func (a *Allocator) freeOf(name string) (milli int64) {
	for _, one := range a.order {
		for _, item := range one.free {
			if item.Name() == name && item.Role() == resources.Unreserved {
				milli += item.Milli
			}
		}
	}
	return milli
}

// worthwhile tells whether an offer is large enough to be made.
func (a *Allocator) worthwhile(offer resources.Bag) bool {
	return len(offer) > 0 && (offer.Scalar("cpus") >= a.cfg.MinCPUs || offer.Scalar("mem") >= a.cfg.MinMem)
}

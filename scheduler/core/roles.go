package core

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/scheduler/offers"
)

// revive keeps each role's offers coming while pods wait for them, and away while none does, and the rate of REVIVE down.
type revive struct {
	roles map[string]*roleState
	last  time.Time
	at    time.Time            // when a postponed REVIVE is due; zero for none
	back  string               // a node whose cordon has ended since the last one; empty for none
	shown map[string]time.Time // agents that made no offer, and when suppressions were ended for their sake
}

// roleState is what Mesos was told about offers in one role since its last REVIVE.
type roleState struct {
	// long: offers were declined with a long filter. used: an ACCEPT gave a remainder back. suppressed: SUPPRESS was sent.
	// cordoned: offers of cordoned nodes were declined with a long filter.
	long, used, suppressed, cordoned bool
}

func newRevive() revive { return revive{roles: map[string]*roleState{}, shown: map[string]time.Time{}} }

func (r *revive) of(role string) *roleState {
	s := r.roles[role]
	if s == nil {
		s = &roleState{}
		r.roles[role] = s
	}
	return s
}

// scout is the first role, whose offers show new agents, which have to become nodes before any pod can wait for them. While it
// is suppressed, surveys look for them.
func (c *Core) scout() string { return c.procure.Roles.All()[0] }

// blind tells that no offer shows a new agent, or that an agent is back.
func (c *Core) blind() bool { return c.revive.of(c.scout()).suppressed }

// lookWait is the time between two surveys while blind: longer the more there is to ask for.
func (c *Core) lookWait() time.Duration {
	return min(leastLook+time.Duration(len(c.agents))*lookPerAgent, c.cfg.RemovalWait)
}

func (c *Core) onNamespaceRoles(ev NamespaceRoles) {
	if ev.Roles == "" {
		delete(c.namespaces, ev.Namespace)
	} else {
		c.namespaces[ev.Namespace] = ev.Roles
	}
	for _, a := range c.assigned {
		if a.pod.Namespace == ev.Namespace {
			a.looked = false
		}
	}
	for uid, w := range c.waiting {
		if pod := c.pods[uid]; pod != nil && pod.Namespace == ev.Namespace {
			c.await(pod, w.why)
		}
	}
}

func (c *Core) onWaiting(ev Waiting) {
	if ev.Pod.Spec.NodeName != "" || ev.Pod.DeletionTimestamp != nil || c.launches[ev.Pod.UID] != nil {
		return
	}
	c.await(ev.Pod, ev.Why)
}

// waiting is a pod that kube-scheduler found no node for: its reason, and the roles that the pod may use. There are none if
// no offer helps.
type waiting struct {
	why   string
	roles offers.Roles
	// toCordoned: the pod tolerates cordons.
	toCordoned bool
}

func (c *Core) await(pod *corev1.Pod, why string) {
	w := waiting{why: why, toCordoned: ToleratesCordon(pod)}
	if need, err := c.need(pod); err == nil {
		w.roles = need.Roles
	}
	c.waiting[pod.UID] = w
}

// wanting tells that pods wait that an offer in the role could help: that kube-scheduler found no node for (it may have
// said so of a pod that had left meanwhile), whose batch has no offers, or that have a node; or that
// static pods do, which any role serves.
func (c *Core) wanting(role string) bool {
	if c.staticWait() {
		return true
	}
	for uid, w := range c.waiting {
		if c.pods[uid] != nil && w.roles.Has(role) {
			return true
		}
	}
	for _, b := range c.batches {
		if b.starved && b.role == role {
			return true
		}
	}
	for _, a := range c.assigned {
		agent := c.agents[c.nodes[a.pod.Spec.NodeName]]
		if agent == nil || agent.gone || c.now.Before(a.at) {
			continue
		}
		if need, err := c.need(a.pod); err == nil && need.Roles.Has(role) {
			return true
		}
	}
	return false
}

// wanted are the framework's roles in which pods wait.
func (c *Core) wanted() (roles offers.Roles) {
	return offers.NewRoles(slices.DeleteFunc(slices.Clone(c.procure.Roles.All()), func(role string) bool { return !c.wanting(role) })...)
}

// considerRevive clears the filters of the roles in which pods wait, if something was given back or suppressed there since
// the last time, and of all roles when a cordon has ended.
func (c *Core) considerRevive() {
	r := &c.revive
	r.at = time.Time{}
	if !c.open() {
		return
	}
	var roles []string
	gap, why := reviveGap, "pods wait, and offers were declined for long"
	for _, role := range c.procure.Roles.All() {
		s := r.of(role)
		if !s.long && !s.used && !s.suppressed && !(s.cordoned && c.mayEnterAny()) || r.back == "" && !c.wanting(role) {
			continue
		}
		roles = append(roles, role)
		if s.used {
			gap = min(leastGap+time.Duration(len(c.agents))*gapPerAgent, mostGap)
			why = "pods wait, and a launch left a remainder"
		}
	}
	if len(roles) == 0 {
		r.back = ""
		return
	}
	if r.back != "" {
		why = "node " + r.back + " is cordoned no more"
	}
	if at := r.last.Add(gap); !r.last.IsZero() && c.now.Before(at) {
		r.at = at
		return
	}
	r.last, r.back = c.now, ""
	c.reviveRoles(roles, why)
}

func (c *Core) reviveRoles(roles []string, why string) {
	for _, role := range roles {
		*c.revive.of(role) = roleState{}
	}
	c.do(Revive{Roles: roles, Why: why})
}

// dueOffers declines what was held long enough, and at once what is on offer in a role that no pod waits for while pods
// wait in another: unreserved resources go from role to role. The refusal is for seconds while pods wait in that role that
// cannot use the offer, else for long, and when the role's last offer is gone, no more are made.
func (c *Core) dueOffers() {
	open := c.open()
	wanted := offers.Roles("")
	if open && !c.pool.Idle() {
		wanted = c.wanted()
	}
	useless := func(role string) bool { return wanted != "" && !wanted.Has(role) }
	barred := c.barred()
	idle := map[string]bool{}
	for _, expired := range c.pool.Expire(c.now, useless, barred) {
		c.dirty[expired.AgentID] = true
		switch {
		case barred[expired.AgentID]:
			c.decline(expired.OfferIDs, longRefusal, DeclinedCordoned, "node "+c.agents[expired.AgentID].node+" is cordoned, and no pod waits that may go there")
			c.revive.of(expired.Role).cordoned = true
			if !wanted.Has(expired.Role) {
				idle[expired.Role] = true
			}
			continue
		case wanted.Has(expired.Role) || !open:
			c.decline(expired.OfferIDs, shortRefusal, DeclinedUnfit, "held long enough; the pods that wait do not use it")
			continue
		case useless(expired.Role):
			c.decline(expired.OfferIDs, longRefusal, DeclinedIdle, "pods wait in role "+string(wanted)+", and none in role "+expired.Role)
		default:
			c.decline(expired.OfferIDs, longRefusal, DeclinedIdle, "held long enough; no pod waits")
		}
		c.revive.of(expired.Role).long = true
		idle[expired.Role] = true
	}
	c.suppress(idle)
}

// suppress ends the offers in roles whose last offer was declined for want of pods.
func (c *Core) suppress(idle map[string]bool) {
	var roles []string
	for _, role := range sorted(idle) {
		if c.pool.Empty(role) {
			roles = append(roles, role)
			c.revive.of(role).suppressed = true
		}
	}
	if at := c.now.Add(c.lookWait()); c.blind() && !c.survey.at.IsZero() && at.Before(c.survey.at) {
		c.survey.at = at
	}
	if len(roles) > 0 {
		c.do(Suppress{Roles: roles, Why: "no pod waits in " + strings.Join(roles, ", ")})
	}
}

// showAll ends suppressions when an agent is registered that never made an offer: all that it has may be reserved for a
// suppressed role, and it is to become a node. One that makes none even then has nothing for this framework, and is given
// another chance as often as removed agents are looked for.
func (c *Core) showAll(registered map[string]string) {
	maps.DeleteFunc(c.revive.shown, func(id string, _ time.Time) bool {
		_, is := registered[id]
		return !is || c.agents[id] != nil
	})
	var roles []string
	for _, role := range sorted(c.revive.roles) {
		if c.revive.roles[role].suppressed {
			roles = append(roles, role)
		}
	}
	if len(roles) == 0 || !c.open() {
		return
	}
	new := ""
	for _, id := range sorted(registered) {
		if at, was := c.revive.shown[id]; c.agents[id] == nil && (!was || !c.now.Before(at.Add(c.cfg.RemovalWait))) {
			c.revive.shown[id] = c.now
			new = cmp.Or(new, id)
		}
	}
	if new != "" {
		c.reviveRoles(roles, "agent "+new+" has made no offer yet")
	}
}

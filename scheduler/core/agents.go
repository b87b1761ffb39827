package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/constraints"
	"github.com/mesopod/mesopod/scheduler/nodes"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// agent is a Mesos agent that made an offer.
type agent struct {
	info    Agent
	found   bool   // AgentFound came
	node    string // name of its node, once it has one
	stored  bool   // the node is stored
	refused string // why the agent is not used
	// asked: LookUpAgent was sent.
	asked bool
	// gone: Mesos lost the agent, which may come back; its node is kept, and tainted once that is so.
	gone, tainted bool
	// drainTainted: the node has the taint for agents that are drained.
	drainTainted bool
	// changed is when the agent was met, or lost.
	changed time.Time
	// executor: offers or statuses show that our executor runs there. ended: it failed, and neither an offer nor a launch
	// has told of another one yet; statuses that it sent before are no proof of life.
	executor, ended bool
	keeper          nodes.Keeper
	static          accounting
}

func (c *Core) onOffers(ev Offers) {
	if !c.connected {
		c.note("", "offers of a lost connection are ignored")
		return
	}
	for i := range ev.Offers {
		c.onOffer(&ev.Offers[i])
	}
}

func (c *Core) onOffer(offer *mesos.Offer) {
	id := offer.AgentID.Value
	role := offer.GetAllocationInfo().GetRole()
	if all := c.procure.Roles.All(); !slices.Contains(all, role) {
		c.decline([]string{offer.ID.Value}, longRefusal, DeclinedRole, fmt.Sprintf("offer in role %q; the framework's are %s", role, strings.Join(all, ", ")))
		return
	}
	if unmet := constraints.Unmet(c.cfg.AgentRules, offer); unmet != "" {
		c.decline([]string{offer.ID.Value}, longRefusal, DeclinedAgent, "agent "+offer.Hostname+" does not meet "+unmet)
		return
	}
	a := c.agents[id]
	if a == nil {
		a = &agent{info: Agent{ID: id, Hostname: offer.Hostname}, changed: c.now}
		c.agents[id] = a
	}
	if !a.asked {
		a.asked = true
		c.do(LookUpAgent{AgentID: id, Why: "first offer of agent " + offer.Hostname})
	}
	if a.refused != "" {
		c.decline([]string{offer.ID.Value}, longRefusal, DeclinedAgent, a.refused)
		return
	}
	a.gone = false
	c.reactivated(id)
	if c.tasks.LiveOn(id) == 0 || !a.executor {
		a.executor = slices.ContainsFunc(offer.ExecutorIDs, func(e mesos.ExecutorID) bool { return e.Value == messages.ExecutorID })
		a.ended = a.ended && !a.executor
	}
	if a.executor && c.executors[id] == nil && c.survey.done {
		c.askSurvey("agent " + id + " runs an executor that was started by an earlier scheduler")
	}
	c.pool.Add(offer, c.now.Add(c.cfg.OfferHold))
	if b := c.batches[slot(id, role)]; b != nil && b.starved {
		b.due = c.now
	}
	c.dirty[id] = true
}

func (c *Core) onAgentFound(ev AgentFound) {
	a := c.agents[ev.Agent.ID]
	if a == nil || a.refused != "" {
		c.note("", "agent "+ev.Agent.ID+" was found, but is not known any more")
		return
	}
	if a.node != "" && a.node != ev.Agent.Hostname {
		c.note("", fmt.Sprintf("agent %s changed its host name from %s to %s, which is ignored", ev.Agent.ID, a.node, ev.Agent.Hostname))
		return
	}
	a.info, a.found = ev.Agent, true
	node := c.desired(a)
	if node == nil {
		return
	}
	if other, taken := c.nodes[node.Name]; taken && other != a.info.ID {
		if !c.agents[other].gone {
			c.refuse(a, fmt.Sprintf("agent %s has the host name %s of agent %s, which is in use", a.info.ID, node.Name, other))
			return
		}
		c.removeAgent(other, "agent "+a.info.ID+" took over the host name "+node.Name)
	}
	a.node = node.Name
	c.nodes[node.Name] = a.info.ID
	c.do(StoreNode{Node: node, Why: "agent " + a.info.ID + " may be used"})
}

// refuse leaves an agent unused as long as it is registered.
func (c *Core) refuse(a *agent, why string) {
	a.refused = why
	c.note("", why)
	held, _ := c.pool.Drop(a.info.ID)
	c.decline(held, longRefusal, DeclinedAgent, why)
}

func (c *Core) decline(offerIDs []string, seconds float64, reason DeclineReason, why string) {
	if len(offerIDs) == 0 {
		return
	}
	c.do(Decline{OfferIDs: offerIDs, RefuseSeconds: seconds, Reason: reason, Why: why})
}

func (c *Core) onNodeStored(ev NodeStored) {
	id := c.nodes[ev.Node]
	if id == "" || id != ev.AgentID {
		c.note("", "node "+ev.Node+" was stored, but its agent "+ev.AgentID+" is gone")
		return
	}
	a := c.agents[id]
	a.stored = true
	c.pool.Show(id, a.node, a.info.Limits)
	c.dirty[id] = true
}

// onNodeGone makes the node of a living agent anew, which a person has deleted: pods are placed on it again once it is
// stored, and those on it run on.
func (c *Core) onNodeGone(ev NodeGone) {
	c.onNodeCordoned(NodeCordoned{Node: ev.Node})
	id := c.nodes[ev.Node]
	if id == "" || id != ev.AgentID || !c.agents[id].stored {
		return // our own doing, or it is being stored
	}
	a := c.agents[id]
	a.stored, a.tainted, a.drainTainted = false, false, false
	c.pool.Show(id, "", a.info.Limits)
	if a.keeper == nodes.Scheduler {
		c.do(KeepAlive{Node: a.node, On: false, Why: "the node was deleted"})
	}
	a.keeper = nodes.Nobody
	c.dirty[id] = true
	if !a.found { // adopted from an earlier scheduler, and no offer yet
		a.asked = true
		c.do(LookUpAgent{AgentID: id, Why: "somebody deleted node " + ev.Node + " of the agent"})
		return
	}
	if node := c.desired(a); node != nil {
		c.do(StoreNode{Node: node, Why: "somebody deleted the node of agent " + id})
	}
}

// desired is the node of an agent that has been found; nil when the agent cannot be one, and is refused.
func (c *Core) desired(a *agent) *corev1.Node {
	node, notes, err := nodes.Desired(nodes.Agent(a.info), c.cfg.nodes())
	if err != nil {
		c.refuse(a, err.Error())
		return nil
	}
	for _, why := range notes {
		c.note("", why)
	}
	return node
}

func (c *Core) onRescinded(ev Rescinded) {
	id, dropped, found := c.pool.Rescind(ev.OfferID)
	if !found {
		c.note("", "offer "+ev.OfferID+" was rescinded, but is not held any more")
		return
	}
	c.dirty[id] = true
	for _, uid := range dropped {
		if l := c.launches[uid]; l != nil && l.task == "" {
			c.resolve(uid, fmt.Errorf("the offer of agent %s was rescinded: %w", l.node, errdefs.ErrUnavailable), "offer "+ev.OfferID+" was rescinded")
		}
	}
}

// onExecutorFailed notes that the executor is gone. What becomes of its tasks is told by their own status updates, which
// Mesos repeats until they are acknowledged; a FAILURE may come late, when the next executor runs already.
func (c *Core) onExecutorFailed(ev ExecutorFailed) {
	if ev.ExecutorID != messages.ExecutorID {
		c.note("", "executor "+ev.ExecutorID+" is not ours")
		return
	}
	a := c.agents[ev.AgentID]
	if a == nil {
		c.note("", "executor on agent "+ev.AgentID+" ended; the agent made no offer yet")
		return
	}
	a.executor, a.ended = false, true
	a.executorEnded()
	c.dirty[ev.AgentID] = true
	c.note("", fmt.Sprintf("executor on %s ended with wait status %d, %d tasks live", a.info.Hostname, ev.Status, c.tasks.LiveOn(ev.AgentID)))
}

// onAgentRemoved is Mesos giving an agent up. Whether it may come back the survey tells; until then its tasks, its pods
// and its node are kept.
func (c *Core) onAgentRemoved(ev AgentRemoved) {
	c.lostAgent(ev.AgentID, "Mesos lost agent "+ev.AgentID)
	if a := c.agents[ev.AgentID]; a == nil || a.refused == "" {
		c.askSurvey("Mesos lost agent " + ev.AgentID)
		return
	}
	c.removeAgent(ev.AgentID, "Mesos lost agent "+ev.AgentID)
}

// dropOffers forgets the offers of an agent that Mesos takes back, and fails what waits on them.
func (c *Core) dropOffers(agentID, why string) {
	c.pool.Drop(agentID)
	for _, uid := range sorted(c.launches) {
		if l := c.launches[uid]; l.agentID == agentID && l.task == "" {
			c.resolve(uid, fmt.Errorf("%s: %w", why, errdefs.ErrUnavailable), why)
		}
	}
	if a := c.agents[agentID]; a != nil && a.stored && a.found {
		c.pool.Show(agentID, a.node, a.info.Limits)
	}
	c.dirty[agentID] = true
}

// removeAgent forgets an agent, loses what is left of its tasks, and deletes its node.
func (c *Core) removeAgent(agentID, why string) {
	a := c.agents[agentID]
	for _, task := range c.tasks.Live(func(t *tasks.Task) bool { return t.AgentID == agentID }) {
		c.lose(task, why)
	}
	c.pool.Drop(agentID)
	delete(c.agents, agentID)
	delete(c.executors, agentID)
	c.dropPlaceholders(agentID)
	c.reactivated(agentID)
	if a.node == "" {
		return
	}
	c.failAssigned(a.node, agentID, why)
	delete(c.nodes, a.node)
	c.lost = append(c.lost, a.node)
	c.reconsider(a.node)
	if a.keeper == nodes.Scheduler {
		c.do(KeepAlive{Node: a.node, On: false, Why: why})
	}
	c.do(DeleteNode{Node: a.node, Why: why})
}

// reconsider forgets that agents were refused for the sake of a node name that is free now: their next offers make
// them new agents.
func (c *Core) reconsider(node string) {
	// It says nothing, so that the order does not matter.
	for id, a := range c.agents {
		if a.refused != "" && a.info.Hostname == node {
			delete(c.agents, id)
			c.reactivated(id)
			delete(c.revive.shown, id)
			c.revive.of(c.scout()).long = true
		}
	}
}

// executorRuns: the executor was seen, or live tasks need one.
func (c *Core) executorRuns(agentID string) bool {
	return c.agents[agentID].executor || c.tasks.LiveOn(agentID) > 0
}

// paid tells that the executor's share needs not be taken from offers any more: one runs, and what it was started with is
// known.
func (c *Core) paid(agentID string) bool {
	return c.agents[agentID] != nil && c.executorRuns(agentID) && c.executors[agentID] != nil
}

// ExecutorRuns tells whether an executor of ours was launched on the agent, whose node has that name, and has not ended,
// as far as Mesos said.
func (c *Core) ExecutorRuns(agentID, node string) bool {
	a := c.agents[agentID]
	return a != nil && a.node == node && node != "" && c.executorRuns(agentID)
}

// keepNodes decides for each changed agent who pays for the executor and who keeps the node alive.
func (c *Core) keepNodes() {
	for _, id := range sorted(c.dirty) {
		a := c.agents[id]
		if a == nil || a.refused != "" {
			continue
		}
		runs := c.executorRuns(id)
		c.pool.SetExecutor(id, c.paid(id))
		if !a.stored {
			continue
		}
		c.keep(a, runs)
		c.taint(a)
	}
}

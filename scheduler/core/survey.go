package core

import (
	"fmt"
	"maps"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/nodes"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// survey is the state of looking at the whole cluster: what the event stream does not tell, or told while nobody listened.
type survey struct {
	done  bool      // one was answered
	asked time.Time // of the one under way; zero while none is
	again bool      // something happened since that the answer may not show
	at    time.Time // of the next one
	// since is when the subscription began: the master lists an agent only after it has registered anew.
	since time.Time
}

// blankWait is when to look again at a master that knew no agent.
const blankWait = 10 * time.Second

// askSurvey asks for a look at agents, executors and nodes, after the one that is under way.
func (c *Core) askSurvey(why string) {
	s := &c.survey
	if !s.asked.IsZero() {
		s.again = true
		return
	}
	s.asked, s.again, s.at = c.now, false, time.Time{}
	c.do(Survey{Why: why})
}

// dueSurvey asks once all agents have had time to register, and now and again: a FAILURE event may be lost.
func (c *Core) dueSurvey() {
	if c.connected && !c.survey.at.IsZero() && !c.now.Before(c.survey.at) {
		why := "agents that Mesos removed while nobody listened"
		switch {
		case c.blind():
			why = "no offers come that would show new agents"
		case len(c.draining) > 0:
			why = "agents are drained, and may have been reactivated"
		}
		c.askSurvey(why)
	}
}

func (c *Core) onSurveyed(ev Surveyed) {
	s := &c.survey
	if s.asked.IsZero() {
		c.note("", "a survey that nobody asked for is ignored")
		return
	}
	maps.DeleteFunc(c.waiting, func(uid types.UID, _ waiting) bool { return c.pods[uid] == nil }) // of pods that have left
	asked := s.asked
	s.asked, s.done = time.Time{}, true
	s.at = c.now.Add(c.cfg.RemovalWait)
	for _, id := range sorted(ev.Executors) {
		c.executors[id] = ev.Executors[id]
		if a := c.agents[id]; a != nil {
			a.executor = !a.ended
		}
	}
	for _, node := range ev.Nodes {
		c.adoptNode(node, ev)
	}
	for _, id := range sorted(c.agents) {
		if a := c.agents[id]; a != nil { // the end of one may free the name of another
			c.resolveAgent(a, ev, asked)
		}
	}
	// Nobody may tell of an agent because it has yet to register with a new master.
	waited := !asked.Before(s.since.Add(c.cfg.RemovalWait))
	c.clearUnknown(ev, asked, waited)
	if ev.Complete && waited {
		c.clearAbsent(ev, asked)
	}
	c.observeDrains(ev, asked)
	c.showAll(ev.Registered)
	if c.blind() || len(c.draining) > 0 {
		s.at = c.now.Add(c.lookWait())
	}
	c.touchAll()
	if s.again {
		c.askSurvey("what happened during the last survey")
	}
}

// adoptNode takes over a node of an earlier scheduler: it is kept alive from now on and not only from its agent's next
// offer.
func (c *Core) adoptNode(node NodeSeen, ev Surveyed) {
	if id, known := c.nodes[node.Name]; known {
		if a := c.agents[id]; a.stored {
			a.tainted, a.drainTainted = node.Unreachable, node.Draining
		}
		return
	}
	unreachable := slices.Contains(ev.Unreachable, node.AgentID)
	if c.agents[node.AgentID] != nil || !unreachable && ev.Registered[node.AgentID] != node.Name {
		return
	}
	c.agents[node.AgentID] = &agent{
		info: Agent{ID: node.AgentID, Hostname: node.Name}, node: node.Name, stored: true, tainted: node.Unreachable, drainTainted: node.Draining,
		gone: unreachable, executor: ev.Executors[node.AgentID] != nil, changed: c.now,
	}
	c.nodes[node.Name] = node.AgentID
}

// resolveAgent decides what became of an agent that Mesos reported lost.
func (c *Core) resolveAgent(a *agent, ev Surveyed, asked time.Time) {
	id := a.info.ID
	if a.changed.After(asked) {
		return // the answer may be older than what is known
	}
	_, registered := ev.Registered[id]
	switch {
	case slices.Contains(ev.Unreachable, id):
		a.gone = true
	case registered:
		a.gone = false
	case !a.gone || slices.Contains(ev.Recovered, id):
	case ev.Complete, !c.away(id):
		c.removeAgent(id, "Mesos removed agent "+id)
	}
}

// away tells that tasks of the agent may come back.
func (c *Core) away(agentID string) bool {
	return len(c.tasks.Live(func(t *tasks.Task) bool { return t.AgentID == agentID && tasks.KindOf(t.State) == tasks.Away })) > 0
}

// clearUnknown ends the tasks that Mesos knows nothing of on agents that it does not know either. A master that waits for an
// agent to register anew has it in its registry, and does not answer for its tasks; but one that knows no agent at all keeps
// its registry in memory or has lost it, and is asked again until waited.
func (c *Core) clearUnknown(ev Surveyed, asked time.Time, waited bool) {
	if !ev.Complete {
		return
	}
	unknown := c.tasks.Live(func(t *tasks.Task) bool { return t.State == mesos.TASK_UNKNOWN && !ev.knows(t.AgentID) })
	if blank := len(ev.Registered)+len(ev.Recovered)+len(ev.Unreachable) == 0; blank && !waited && len(unknown) > 0 {
		c.survey.at = c.now.Add(blankWait)
		return
	}
	for _, task := range unknown {
		if a := c.agents[task.AgentID]; a == nil || a.changed.Before(asked) && len(c.pool.Holds(task.AgentID)) == 0 {
			c.lose(task, "Mesos knows neither the task nor agent "+task.AgentID)
		}
	}
}

// knows tells that the agent is registered, or may come back.
func (ev Surveyed) knows(agentID string) bool {
	_, registered := ev.Registered[agentID]
	return registered || slices.Contains(ev.Recovered, agentID) || slices.Contains(ev.Unreachable, agentID)
}

// clearAbsent removes agents, tasks and nodes of agents that Mesos does not know at all.
func (c *Core) clearAbsent(ev Surveyed, asked time.Time) {
	for _, id := range sorted(c.agents) {
		// One that has made an offer is newer than the answer.
		if a := c.agents[id]; a != nil && !ev.knows(id) && len(c.pool.Holds(id)) == 0 && a.changed.Before(asked) {
			c.removeAgent(id, "Mesos does not know agent "+id+" any more")
		}
	}
	for _, task := range c.tasks.Live(func(t *tasks.Task) bool { return c.agents[t.AgentID] == nil && !ev.knows(t.AgentID) }) {
		c.lose(task, "Mesos does not know agent "+task.AgentID+" any more")
	}
	for _, node := range ev.Nodes {
		if _, used := c.nodes[node.Name]; !used && !ev.knows(node.AgentID) && c.agents[node.AgentID] == nil {
			c.do(DeleteNode{Node: node.Name, Why: "Mesos does not know agent " + node.AgentID + " any more"})
		}
	}
}

// executorInfo is what tasks on an agent have to name: while an executor runs there, exactly what it was started with,
// in whatever role and whatever the configuration says now, for Mesos refuses a task that differs. A new one takes its
// share from the stock.
func (c *Core) executorInfo(agentID string, stock *offers.Stock) *mesos.ExecutorInfo {
	if c.paid(agentID) {
		return c.executors[agentID]
	}
	share := c.procure.Executor
	taken, _ := stock.TakeExecutor(share.CPUs, share.MemMB) // the pool has counted it
	info := procure.Executor(c.procure, c.frameworkID, taken)
	c.executors[agentID] = info
	return info
}

// view is what is on offer on an agent, nil while its executor's ExecutorInfo is being asked for.
func (c *Core) view(agentID string) *offers.View {
	if a := c.agents[agentID]; a != nil && a.executor && c.executors[agentID] == nil && !c.survey.asked.IsZero() {
		return nil
	}
	return c.pool.View(agentID)
}

// taint says on the node whether Mesos has lost its agent, and whether an operator drains it.
func (c *Core) taint(a *agent) {
	if !a.stored {
		return
	}
	c.setTaint(a, &a.tainted, a.gone, messages.TaintAgentUnreachable, "Mesos has lost agent "+a.info.ID, fmt.Sprintf("agent %s is back", a.info.ID))
	_, drains := c.draining[a.info.ID]
	c.setTaint(a, &a.drainTainted, drains, messages.TaintAgentDraining, fmt.Sprintf("agent %s is drained in Mesos", a.info.ID), fmt.Sprintf("agent %s was reactivated", a.info.ID))
}

func (c *Core) setTaint(a *agent, has *bool, want bool, key, on, off string) {
	if *has == want {
		return
	}
	*has = want
	why := off
	if want {
		why = on
	}
	c.do(TaintNode{Node: a.node, Key: key, On: want, Why: why})
}

// lostAgent notes that Mesos does not reach an agent, which may come back.
func (c *Core) lostAgent(agentID, why string) {
	c.dropOffers(agentID, why)
	if a := c.agents[agentID]; a != nil && !a.gone {
		a.gone, a.executor, a.changed = true, false, c.now
	}
}

// keep decides who keeps the node alive.
func (c *Core) keep(a *agent, runs bool) {
	if a.gone {
		runs = true // Nobody can tell; the node must not look alive by our doing.
	}
	next, tell := a.keeper.Next(runs)
	a.keeper = next
	if !tell {
		return
	}
	why := "an executor is started there, its kubelet takes over"
	switch {
	case next == nodes.Scheduler:
		why = "no executor runs there"
	case a.gone:
		why = "Mesos has lost its agent"
	}
	c.do(KeepAlive{Node: a.node, On: next == nodes.Scheduler, Why: why})
}

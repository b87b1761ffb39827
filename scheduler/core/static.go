package core

import (
	"fmt"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// placeholder is a task that accounts for the static pods of an agent and runs no pod of its own (ADR 035). It is no
// part of the tasks table: no pod names it, and it is no reason for an executor to live.
type placeholder struct {
	id, agentID, key string
	state            mesos.TaskState
	// nextKill is when KILL is sent again; zero: nobody wants its end.
	nextKill time.Time
}

// accounting is how an agent stands with its placeholder.
type accounting struct {
	// refused is the key of one that the executor did not take; it is not tried again by the same executor.
	refused string
	// at is when the next one may be launched, wait how long that was after the last one's end.
	at   time.Time
	wait time.Duration
	// since is when static pods began to wait for room; zero while none do. told: the Node has an event about it.
	since time.Time
	told  bool
}

const (
	// endingWait is more than an executor takes to end: a launch that comes too late would start another one, for nobody.
	// Otherwise launches of placeholders are apart from leastPace, doubling, to mostPace.
	endingWait = 15 * time.Second
	// reasonStaticWaits is the reason of events about static pods without room, reasonStaticRefused of those that the executor
	// does not take.
	reasonStaticWaits, reasonStaticRefused = "StaticPodsWait", "StaticPodsRefused"
)

// onStaticPods takes over what the executors' document asks for.
func (c *Core) onStaticPods(ev StaticPods) {
	c.static = procure.StaticOf(ev.Pods, c.procure)
	for _, a := range c.agents {
		a.static = accounting{}
	}
	c.touchAll()
}

// current is the placeholder that accounts for what the document says now, or nil.
func (c *Core) current(agentID string) *placeholder {
	for _, p := range c.placeholders[agentID] {
		if p.key == c.static.Key && p.nextKill.IsZero() {
			return p
		}
	}
	return nil
}

// named is the placeholder of that id, or nil.
func (c *Core) named(agentID, id string) *placeholder {
	for _, p := range c.placeholders[agentID] {
		if p.id == id {
			return p
		}
	}
	return nil
}

func (c *Core) enter(p *placeholder) {
	c.placeholders[p.agentID] = append(c.placeholders[p.agentID], p)
}

func (c *Core) forget(p *placeholder) {
	delete(c.placeholderKills, p.id)
	c.placeholders[p.agentID] = slices.DeleteFunc(c.placeholders[p.agentID], func(o *placeholder) bool { return o == p })
	if len(c.placeholders[p.agentID]) == 0 {
		delete(c.placeholders, p.agentID)
	}
}

// account sees to the placeholders of the agents that have changed: what they need is kept from pods until they run.
func (c *Core) account() {
	for _, id := range sorted(c.dirty) {
		delete(c.short, id)
		if a := c.agents[id]; a != nil && a.stored && a.found && c.open() {
			c.accountFor(id, a)
		}
	}
}

func (c *Core) accountFor(id string, a *agent) {
	current := c.current(id)
	if current != nil || c.static.Key == "" || a.static.refused == c.static.Key {
		c.pool.Withhold(id, procure.Need{})
		a.static.since, a.static.told = time.Time{}, false
		if current == nil || current.state != mesos.TASK_STAGING {
			c.killPlaceholders(id, current, "the static pods have changed")
		}
		return
	}
	if !c.static.EverFits(a.info.Total, c.procure) {
		c.pool.Withhold(id, procure.Need{})
		c.killPlaceholders(id, nil, "the static pods have grown too large for the agent")
		c.tellStatic(a, fmt.Sprintf("the agent has %s in all, of which the executor takes %s", a.info.Total, c.cfg.ExecutorResources))
		return
	}
	c.pool.Withhold(id, c.static.Need.On(a.info.Limits))
	if !c.executorRuns(id) || a.gone {
		a.static.since = time.Time{}
		return // the first pod brings it along
	}
	c.short[id] = true
	c.supply(id, a)
}

// supply launches the placeholder that an agent is short of, as soon as there is room.
func (c *Core) supply(id string, a *agent) {
	switch {
	case c.now.Before(a.static.at):
	case c.covering(id, a) != "" && c.view(id) != nil:
		role := c.covering(id, a)
		b := c.batches[slot(id, role)]
		if b == nil {
			b = &batch{agentID: id, role: role}
		}
		c.flush(b)
	case a.static.since.IsZero():
		a.static.since = c.now
	case c.now.Sub(a.static.since) >= tellAfter:
		// What an earlier one holds may be what is missing.
		c.killPlaceholders(id, nil, "it is in the way of the one that is to follow")
		c.tellStatic(a, "too little of the agent is on offer; they start as soon as there is room, and no pod is placed on the node before")
	}
}

// covering is the first of the framework's roles in which enough is on offer for the static pods of an agent; empty: none.
func (c *Core) covering(id string, a *agent) string {
	for _, role := range c.procure.Roles.All() {
		if c.pool.Covers(id, role, c.static.Need.On(a.info.Limits)) {
			return role
		}
	}
	return ""
}

// staticWait tells that static pods wait that an offer could help.
func (c *Core) staticWait() bool {
	for id := range c.short {
		if a := c.agents[id]; a != nil && !a.gone && !c.now.Before(a.static.at) {
			return true
		}
	}
	return false
}

// tellStatic says on the Node what the static pods wait for, once.
func (c *Core) tellStatic(a *agent, why string) {
	if !a.static.told {
		a.static.told = true
		need := c.static.Need.On(a.info.Limits)
		c.do(NodeEvent{Node: a.node, Type: "Warning", Reason: reasonStaticWaits,
			Note: fmt.Sprintf("static pods need %g cpus, %d MB of memory and ports %v: %s", float64(need.CPUs)/1000, need.MemMB, need.Ports.All(), why)})
	}
}

// placeholderTask is the task to launch along with those of a batch, or alone, on what the stock has left; nil for none.
func (c *Core) placeholderTask(b *batch, stock *offers.Stock, executor *mesos.ExecutorInfo) *mesos.TaskInfo {
	id, a := b.agentID, c.agents[b.agentID]
	need := c.static.Need.On(a.info.Limits)
	// What is not withheld from pods may be given to them in the same ACCEPT.
	if c.static.Key == "" || a.static.refused == c.static.Key || c.current(id) != nil || c.now.Before(a.static.at) ||
		c.pool.Withheld(id) != need || !c.pool.Covers(id, b.role, need) {
		return nil
	}
	taken, enough := stock.Take(need)
	if !enough {
		return nil
	}
	// The number goes on from the clock: an executor takes no id twice, whichever scheduler gave it.
	c.placeholderNumber = max(c.placeholderNumber+1, c.now.Unix())
	taskID := messages.PlaceholderID(id, c.static.Key, c.placeholderNumber)
	info, err := procure.Placeholder(c.procure, procure.PlaceholderLaunch{
		TaskID: taskID, AgentID: id, Node: a.node, Static: c.static, Resources: taken, Limits: a.info.Limits, Executor: executor,
	})
	if err != nil {
		a.static.refused = c.static.Key
		c.note(taskID, err.Error())
		return nil
	}
	c.enter(&placeholder{id: taskID, agentID: id, key: c.static.Key, state: mesos.TASK_STAGING})
	c.pool.Withhold(id, procure.Need{})
	delete(c.short, id)
	return &info
}

// onPlaceholder applies a status of a placeholder task.
func (c *Core) onPlaceholder(status *mesos.TaskStatus, key string) {
	id, state, agentID := status.TaskID.Value, status.GetState(), status.GetAgentID().GetValue()
	c.dirty[agentID] = true
	p, a := c.named(agentID, id), c.agents[agentID]
	if tasks.Terminal(state) || state == mesos.TASK_UNKNOWN {
		if p != nil {
			c.forget(p)
			c.placeholderEnded(a, p, status)
		}
		return
	}
	if p == nil {
		p = &placeholder{id: id, agentID: agentID, key: key, state: state}
		c.enter(p)
	}
	if tasks.Next(p.state, state) == tasks.Take {
		p.state = state
	}
	if a != nil && provesExecutor(status) {
		a.executor, a.static.wait = !a.ended, 0
	}
}

// placeholderEnded sees to the next one, if that makes sense.
func (c *Core) placeholderEnded(a *agent, p *placeholder, status *mesos.TaskStatus) {
	why := describe(status)
	c.note(p.id, "placeholder task ended: "+why)
	if a == nil || !p.nextKill.IsZero() {
		return // as was asked for
	}
	if state := status.GetState(); state == mesos.TASK_ERROR || state == mesos.TASK_FAILED && fromExecutor(status) {
		a.static.refused = p.key
		c.do(NodeEvent{Node: a.node, Type: "Warning", Reason: reasonStaticRefused, Note: "static pods do not run: " + why + "; the next executor of the node is asked again"})
		return
	}
	least := endingWait
	if status.GetState() == mesos.TASK_DROPPED { // such as one that meets an executor between two of its lives
		least = leastPace
	}
	a.static.wait = min(max(2*a.static.wait, least), mostPace)
	a.static.at = c.now.Add(a.static.wait)
}

// killPlaceholders asks for the end of an agent's placeholders but one.
func (c *Core) killPlaceholders(agentID string, but *placeholder, why string) {
	for _, p := range c.placeholders[agentID] {
		if p != but && p.nextKill.IsZero() {
			c.killPlaceholder(p, why)
		}
	}
}

func (c *Core) killPlaceholder(p *placeholder, why string) {
	p.nextKill = c.now.Add(c.cfg.KillRetry)
	c.placeholderKills[p.id] = p
	c.do(Kill{TaskID: p.id, AgentID: p.agentID, Grace: -1, Why: why})
}

// duePlaceholders repeats KILLs, and looks again at agents whose static pods wait for a time.
func (c *Core) duePlaceholders() {
	if !c.connected {
		return
	}
	for _, id := range due(c.placeholderKills, c.now, func(p *placeholder) time.Time { return p.nextKill }) {
		c.killPlaceholder(c.placeholderKills[id], "KILL was asked for and the task has not ended")
	}
	for id := range c.short {
		s := c.agents[id].static
		if at := c.accountAt(id); !at.IsZero() && !c.now.Before(at) || s.since.IsZero() && !c.now.Before(s.at) {
			c.dirty[id] = true
		}
	}
}

// accountAt is when the static pods that an agent is short of are to be looked at again; zero when only an offer helps.
func (c *Core) accountAt(id string) time.Time {
	s := c.agents[id].static
	switch {
	case !c.open():
		return time.Time{}
	case c.now.Before(s.at):
		return s.at
	case s.since.IsZero() || s.told:
		return time.Time{}
	}
	return s.since.Add(tellAfter)
}

// dropPlaceholders forgets those of an agent that Mesos has removed.
func (c *Core) dropPlaceholders(agentID string) {
	delete(c.short, agentID)
	for _, p := range slices.Clone(c.placeholders[agentID]) {
		c.forget(p)
	}
}

// placeholdersFailed forgets the placeholders of an ACCEPT that failed, and tells whether there were any. Those that may have
// reached Mesos all the same are to be asked about.
func (c *Core) placeholdersFailed(accept Accept, lost bool, unknown map[string]string) (failed bool) {
	for i := range accept.Tasks {
		p := c.named(accept.AgentID, accept.Tasks[i].TaskID.Value)
		switch {
		case p == nil:
		case lost:
			unknown[p.id] = p.agentID
		default:
			failed = true
			c.forget(p)
			c.dirty[p.agentID] = true
			if a := c.agents[p.agentID]; a != nil {
				a.static.at = c.now.Add(retryAfter)
			}
		}
	}
	return failed
}

// executorEnded lets the next executor be asked about static pods that the last one refused.
func (a *agent) executorEnded() {
	a.static = accounting{wait: a.static.wait, at: a.static.at}
}

package core

import (
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/messages"
)

// dismissWait is the time to the first message that asks an executor to end, which the news of its last task's end is to
// reach it before, and dismissAgain that to the next one: Mesos delivers a message once at most.
const dismissWait, dismissAgain = time.Second, 10 * time.Second

// observeDraining notes that an operator drains the agent of a task. An executor that has no more to do keeps the agent from
// being drained, and hears nothing of it if its last KILL carried no grace.
func (c *Core) observeDraining(status *mesos.TaskStatus) {
	id := status.GetAgentID().GetValue()
	if status.Reason != nil && status.GetReason() == mesos.REASON_AGENT_DRAINING && c.agents[id] != nil {
		c.drains(id)
	}
}

// drains notes that the agent is being drained. Surveys look for the end of that.
func (c *Core) drains(agentID string) {
	c.dirty[agentID] = true
	if _, known := c.draining[agentID]; known {
		return
	}
	c.draining[agentID] = time.Time{}
	c.agents[agentID].changed = c.now
	if at := c.now.Add(c.lookWait()); !c.survey.at.IsZero() && at.Before(c.survey.at) {
		c.survey.at = at
	}
}

// observeDrains takes from a survey which agents are drained. What was learnt after it was asked for is newer.
func (c *Core) observeDrains(ev Surveyed, asked time.Time) {
	for _, id := range sorted(ev.Registered) {
		a := c.agents[id]
		switch {
		case a == nil || a.changed.After(asked):
		case slices.Contains(ev.Draining, id):
			c.drains(id)
		default:
			c.reactivated(id)
		}
	}
}

// reactivated: the agent makes offers again, or has gone. What was declined before is asked for again.
func (c *Core) reactivated(agentID string) {
	if _, drained := c.draining[agentID]; !drained {
		return
	}
	delete(c.draining, agentID)
	c.dirty[agentID] = true
	if a := c.agents[agentID]; a != nil {
		a.changed = c.now
	}
	for _, s := range c.revive.roles {
		s.long = true
	}
}

// dismiss asks the executors of agents that are drained to end as soon as they have no tasks. A placeholder task is none.
func (c *Core) dismiss() {
	if !c.connected {
		return
	}
	for id := range c.draining {
		if a := c.agents[id]; a == nil || !a.executor || c.tasks.LiveOn(id) > 0 {
			c.draining[id] = time.Time{}
		} else if c.draining[id].IsZero() {
			c.draining[id] = c.now.Add(dismissWait)
		}
	}
	for _, id := range due(c.draining, c.now, func(at time.Time) time.Time { return at }) {
		c.draining[id] = c.now.Add(dismissAgain)
		data, err := messages.EncodeFrameworkMessage(messages.FrameworkMessage{Kind: messages.Suicide})
		if err != nil {
			c.note("", err.Error())
			continue
		}
		c.do(Message{AgentID: id, ExecutorID: messages.ExecutorID, Data: data, Why: "the agent is drained and its executor has no task"})
	}
}

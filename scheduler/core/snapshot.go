package core

import (
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// View is a deep copy of the core's state, for people.
type View struct {
	FrameworkID string
	// Connected: the stream is live. Open: pods are placed (connected, id stored, pods listed, reconciled).
	Connected, Open bool
	// Agents by id, Tasks (live ones) by id.
	Agents []AgentView
	Tasks  []TaskView
	// Waiting counts pods that kube-scheduler found no node for, Launching those whose Bind is not answered.
	Waiting, Launching int
}

// AgentView is one agent in a View.
type AgentView struct {
	ID, Hostname string
	// Visible: the node is stored and pods are placed on it. Refused says why the agent is not used, if so.
	Visible bool
	Refused string
	// Offers counts the held offers, Tasks the live tasks.
	Offers, Tasks int
	// Executor: an executor of ours is taken to run there, or to be started.
	Executor bool
}

// TaskView is one live task in a View.
type TaskView struct {
	ID, AgentID string
	// Pod is "namespace/name", or "" when no pod of the task was ever seen.
	Pod string
	// State is Mesos' word for it without the prefix: RUNNING.
	State string
	// Killing: KILL was sent.
	Killing bool
}

// Snapshot returns the state as it is now.
func (c *Core) Snapshot() View {
	v := View{FrameworkID: c.frameworkID, Connected: c.connected, Open: c.open(), Waiting: len(c.waiting), Launching: len(c.launches)}
	for _, id := range sorted(c.agents) {
		a := c.agents[id]
		v.Agents = append(v.Agents, AgentView{
			ID: id, Hostname: a.info.Hostname, Visible: a.stored && a.found && !a.gone, Refused: a.refused,
			Offers: len(c.pool.Holds(id)), Tasks: c.tasks.LiveOn(id), Executor: c.executorRuns(id),
		})
	}
	for _, task := range c.tasks.Live(nil) {
		t := TaskView{ID: task.ID, AgentID: task.AgentID, State: tasks.Name(task.State), Killing: task.Killing}
		if task.Pod != "" {
			t.Pod = task.Namespace + "/" + task.Pod
		}
		v.Tasks = append(v.Tasks, t)
	}
	return v
}

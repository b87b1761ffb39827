package core

import (
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// View is a copy of the core's state, for people. Pods in it are shared with the core: they are never written to. Its lists
// have no order but that of Agents: a cluster may have a hundred thousand pods, and who shows them sorts what it shows.
type View struct {
	FrameworkID string
	// Connected: the stream is live. IDStored, PodsListed and Reconciled are what placing waits for beside it, and Open says
	// that it waits for nothing.
	Connected, IDStored, PodsListed, Reconciled, Open bool
	// Agents by id.
	Agents []AgentView
	// Pods that are ours, as PodView tells. Orphans are live tasks whose pods are gone or were never seen.
	Pods    []PodView
	Orphans []TaskView
	// Offers that are held.
	Offers []offers.Held
	// Waiting counts pods that kube-scheduler found no node for, Launching those whose Bind is not answered.
	Waiting, Launching int
}

// AgentView is one agent in a View.
type AgentView struct {
	ID, Hostname string
	// Total is the agent's size in roles that the framework may use; Attributes are its own.
	Total      messages.Resources
	Attributes []mesos.Attribute
	// Visible: the node is stored and pods are placed on it. Refused says why the agent is not used, if so. Gone: Mesos has
	// lost it, and it may come back.
	Visible bool
	Refused string
	Gone    bool
	// Free is what Filter sees on offer; nil for nothing.
	Free *offers.View
	// Offers counts the held offers, Tasks the live tasks, Claims the pods that a reservation there is held for.
	Offers, Tasks, Claims int
	// Executor: an executor of ours is taken to run there, or to be started.
	Executor bool
}

// Use is what the agent is used for, in a word: used, new (its node is not stored yet), refused, or gone.
func (a AgentView) Use() string {
	switch {
	case a.Refused != "":
		return "refused"
	case a.Gone:
		return "gone"
	case a.Visible:
		return "used"
	}
	return "new"
}

// TaskView is one live task in a View.
type TaskView struct {
	ID, AgentID string
	// State is Mesos' word for it without the prefix: RUNNING.
	State string
	// Killing: KILL was sent.
	Killing bool
}

// Snapshot returns the state as it is now.
func (c *Core) Snapshot() View {
	v := View{
		FrameworkID: c.frameworkID, Connected: c.connected, IDStored: c.idStored, PodsListed: c.podsSynced,
		Reconciled: c.reconciliation.over && c.survey.done, Open: c.open(),
		Waiting: len(c.waiting), Launching: len(c.launches), Offers: c.pool.Offers(),
	}
	for _, id := range sorted(c.agents) {
		a := c.agents[id]
		v.Agents = append(v.Agents, AgentView{
			ID: id, Hostname: a.info.Hostname, Total: a.info.Total, Attributes: a.info.Attributes,
			Visible: a.stored && a.found && !a.gone, Refused: a.refused, Gone: a.gone, Free: c.pool.View(id),
			Offers: len(c.pool.Holds(id)), Tasks: c.tasks.LiveOn(id), Claims: c.pool.ClaimsOn(id), Executor: c.executorRuns(id),
		})
	}
	v.Pods = make([]PodView, 0, len(c.pods))
	for _, pod := range c.pods {
		v.Pods = append(v.Pods, c.podView(pod))
	}
	c.tasks.EachLive(func(task *tasks.Task) {
		if c.pods[task.UID] == nil {
			v.Orphans = append(v.Orphans, viewOf(task))
		}
	})
	return v
}

func viewOf(task *tasks.Task) TaskView {
	return TaskView{ID: task.ID, AgentID: task.AgentID, State: tasks.Name(task.State), Killing: task.Killing}
}

// Host is the host name of an agent; its id while that is not known.
func (c *Core) Host(agentID string) string {
	if a := c.agents[agentID]; a != nil && a.info.Hostname != "" {
		return a.info.Hostname
	}
	return agentID
}

// Pod is the pod as last seen, or nil.
func (c *Core) Pod(uid types.UID) *corev1.Pod { return c.pods[uid] }

package core

import (
	"slices"
	"strconv"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosmaintenance "github.com/mesos/mesos-go/api/v1/lib/maintenance"

	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

func itoa(n int) string { return strconv.Itoa(n) }

// MasterView is what a master shows to operators. It shares what the cluster will not change any more.
type MasterView struct {
	ID         string
	Start      time.Time
	Info       *mesos.MasterInfo
	Agents     []AgentView
	Recovered  []*mesos.AgentInfo
	Frameworks []FrameworkView
	Completed  []FrameworkView
}

// AgentView is an agent as the master knows it.
type AgentView struct {
	Info                     *mesos.AgentInfo
	PID                      string
	Active, Deactivated      bool
	Registered, Reregistered time.Time
	Total, Used, Offered     resources.Bag
	Capabilities             []mesos.AgentInfo_Capability
	Drain                    *mesos.DrainInfo
	DrainStart               time.Time
}

// FrameworkView is a framework as the master knows it.
type FrameworkView struct {
	Info                                    *mesos.FrameworkInfo
	Roles                                   []string
	Active, Connected, Recovered            bool
	Registered, Reregistered, Unregistered  time.Time
	Tasks, UnreachableTasks, CompletedTasks []mesos.Task
	Executors                               []ExecutorView
	Offers                                  []OfferView
	Used, Offered                           resources.Bag
}

// ExecutorView is an executor on an agent.
type ExecutorView struct {
	Agent string
	Info  *mesos.ExecutorInfo
}

// OfferView is an open offer.
type OfferView struct {
	ID, Agent, Role string
	Resources       resources.Bag
}

// View shows the master; nil if none leads. tasks tells whether the tasks are wanted, which may be many.
func (c *Cluster) View(tasks bool) *MasterView {
	if c.m == nil {
		return nil
	}
	v := &MasterView{ID: c.m.id, Start: c.m.start, Info: c.m.masterInfo()}
	for _, info := range c.m.recovered {
		v.Recovered = append(v.Recovered, info)
	}
	slices.SortFunc(v.Recovered, func(a, b *mesos.AgentInfo) int { return compare(a.ID.Value, b.ID.Value) })
	for _, n := range c.m.sortedAgents() {
		one := AgentView{Info: n.info, PID: n.pid, Active: n.connected && !n.deactivated, Deactivated: n.deactivated, Registered: n.registered,
			Reregistered: n.reregister, Total: n.total, Capabilities: n.capable, Drain: n.drain, DrainStart: n.drainStart}
		for _, t := range n.tasks {
			if !t.freed {
				one.Used = one.Used.Plus(t.resources)
			}
		}
		for _, e := range n.executors {
			one.Used = one.Used.Plus(e.resources)
		}
		for _, o := range n.offers {
			one.Offered = one.Offered.Plus(o.resources)
		}
		v.Agents = append(v.Agents, one)
	}
	for _, f := range c.m.sortedFrameworks() {
		v.Frameworks = append(v.Frameworks, f.view(tasks))
	}
	for _, f := range c.m.completed {
		v.Completed = append(v.Completed, f.view(tasks))
	}
	return v
}

func (f *framework) view(tasks bool) FrameworkView {
	v := FrameworkView{Info: f.info, Roles: f.roles, Active: f.connected, Connected: f.connected, Recovered: f.recovered,
		Registered: f.registered, Reregistered: f.reregistered, Unregistered: f.unregistered}
	for _, n := range f.m.sortedAgents() {
		for key, e := range n.executors {
			if key.framework == f.id {
				v.Executors = append(v.Executors, ExecutorView{n.id, e.info})
				v.Used = v.Used.Plus(e.resources)
			}
		}
	}
	for _, o := range f.offers {
		v.Offers = append(v.Offers, OfferView{o.id, o.node.id, o.role, o.resources})
		v.Offered = v.Offered.Plus(o.resources)
	}
	slices.SortFunc(v.Offers, func(a, b OfferView) int { return compare(a.ID, b.ID) })
	if !tasks {
		return v
	}
	for _, t := range f.sortedTasks() {
		v.Tasks = append(v.Tasks, t.shown())
		if !t.freed {
			v.Used = v.Used.Plus(t.resources)
		}
	}
	for _, t := range f.gone {
		v.UnreachableTasks = append(v.UnreachableTasks, t.shown())
	}
	for _, t := range f.ended {
		v.CompletedTasks = append(v.CompletedTasks, t.shown())
	}
	return v
}

func (t *task) shown() mesos.Task {
	shown := *t.info
	shown.State = ptr(t.latest)
	if shown.StatusUpdateState != nil {
		shown.StatusUpdateState = ptr(t.forwarded)
	}
	shown.Statuses = slices.Clone(shown.Statuses)
	return shown
}

// Maintenance is the schedule and the mode of each machine.
func (c *Cluster) Maintenance() (mesosmaintenance.Schedule, mesosmaintenance.ClusterStatus) {
	var s mesosmaintenance.Schedule
	var status mesosmaintenance.ClusterStatus
	names := make([]string, 0, len(c.machines))
	for name := range c.machines {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		one := c.machines[name]
		s.Windows = append(s.Windows, mesosmaintenance.Window{MachineIDs: []mesos.MachineID{one.id}, Unavailability: one.window})
		if one.down {
			status.DownMachines = append(status.DownMachines, one.id)
		} else {
			status.DrainingMachines = append(status.DrainingMachines, mesosmaintenance.ClusterStatus_DrainingMachine{ID: one.id})
		}
	}
	return s, status
}

// OwnView is what an agent shows of itself.
type OwnView struct {
	Config     AgentConfig
	ID         string
	Up         bool
	Frameworks []OwnFramework
}

// OwnFramework is a framework with executors on the agent.
type OwnFramework struct {
	Info      *mesos.FrameworkInfo
	Executors []OwnExecutor
}

// OwnExecutor is an executor with the tasks that are not ended and acknowledged.
type OwnExecutor struct {
	Info           *mesos.ExecutorInfo
	Container      string
	Queued, Tasks  []mesos.Task
	Ended, Stopped bool
}

// ViewAgent shows an agent; false if there is none of that name.
func (c *Cluster) ViewAgent(name string) (OwnView, bool) {
	a := c.agents[name]
	if a == nil {
		return OwnView{}, false
	}
	v := OwnView{Config: a.cfg, ID: a.id, Up: a.up}
	for _, f := range a.sortedFrameworks() {
		own := OwnFramework{Info: f.info}
		for _, e := range f.sortedExecutors() {
			one := OwnExecutor{Info: e.info, Container: e.container, Ended: e.state == executorEnded, Stopped: e.state >= executorEnding}
			for _, id := range e.order {
				switch t := e.tasks[id]; {
				case t == nil:
				case t.queued:
					one.Queued = append(one.Queued, *t.shown(f, e, a.id))
				default:
					one.Tasks = append(one.Tasks, *t.shown(f, e, a.id))
				}
			}
			own.Executors = append(own.Executors, one)
		}
		v.Frameworks = append(v.Frameworks, own)
	}
	return v, true
}

// Leads tells whether a master lives.
func (c *Cluster) Leads() bool { return c.m != nil }

// Recovering tells whether an agent still waits for its executors after a restart.
func (c *Cluster) Recovering(name string) bool {
	a := c.agents[name]
	return a == nil || !a.up || a.recovering
}

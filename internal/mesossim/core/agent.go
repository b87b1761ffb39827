package core

import (
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// AgentConfig are an agent's flags.
type AgentConfig struct {
	// Name tells agents of one cluster apart; Hostname is what others see.
	Name, Hostname string
	// Address is host:port where it serves, Process its process id there, such as slave(1).
	Address, Process string
	Resources        resources.Bag
	Attributes       []mesos.Attribute
	// Region and Zone are its fault domain; empty is none.
	Region, Zone string
	// Limits tells that it can enforce task limits.
	Limits bool
	// Script acts tasks out in the cluster; nil starts real executors.
	Script *Script
	// NoCheckpoint keeps nothing over a restart.
	NoCheckpoint bool
}

// agent is a Mesos agent, up or down.
type agent struct {
	c     *Cluster
	cfg   AgentConfig
	info  *mesos.AgentInfo // without id
	id    string
	total resources.Bag
	up    bool
	cut   bool // from the master
	// recovering is on from the start until executors have had their time to subscribe again.
	recovering bool
	known      bool // registered with the present master
	draining   *mesos.DrainConfig
	frameworks map[string]*agentFramework
	run0       int // counts starts, so that timers of an earlier life do nothing
}

// agentFramework is a framework as an agent knows it.
type agentFramework struct {
	info      *mesos.FrameworkInfo
	ending    bool // shut down by the master
	executors map[string]*agentExecutor
	streams   map[string]*updates // by task
}

// AddAgent adds an agent and starts it.
func (c *Cluster) AddAgent(now time.Time, cfg AgentConfig) []Effect {
	return c.do(now, func() {
		c.newAgent(cfg)
		c.agents[cfg.Name].begin(nil)
	})
}

func (c *Cluster) newAgent(cfg AgentConfig) {
	info := &mesos.AgentInfo{Hostname: cfg.Hostname, Resources: cfg.Resources.Proto(resources.Notation{Refined: true}), Attributes: cfg.Attributes}
	if port := portOf(cfg.Address); port != 0 {
		info.Port = ptr(port)
	}
	if cfg.Region != "" {
		info.Domain = &mesos.DomainInfo{FaultDomain: &mesos.DomainInfo_FaultDomain{
			Region: mesos.DomainInfo_FaultDomain_RegionInfo{Name: cfg.Region}, Zone: mesos.DomainInfo_FaultDomain_ZoneInfo{Name: cfg.Zone}}}
	}
	c.agents[cfg.Name] = &agent{c: c, cfg: cfg, info: info, total: cfg.Resources, frameworks: map[string]*agentFramework{}}
}

func (a *agent) pid() string { return a.cfg.Process + "@" + a.cfg.Address }

// begin is the start of the agent's process, with what an earlier one has left on the disk.
func (a *agent) begin(state *snapshot) {
	a.up, a.known, a.recovering = true, false, false
	a.run0++
	if state != nil {
		state.into(a)
	}
	live := 0
	for _, f := range a.frameworks {
		for _, e := range f.executors {
			if e.state == executorEnded {
				continue
			}
			if f.info.GetCheckpoint() {
				live++
				continue
			}
			e.destroy()
		}
	}
	if live == 0 {
		a.register()
		return
	}
	a.recovering = true
	a.later(a.c.cfg.ExecutorReregistration, a.recovered)
}

// recovered ends the recovery: executors that did not subscribe are killed.
func (a *agent) recovered() {
	a.recovering = false
	for _, f := range a.frameworks {
		for _, e := range f.executors {
			if e.state == executorEnding {
				e.destroy()
			}
			if e.state == executorStarting && e.restored {
				e.why = mesos.REASON_EXECUTOR_REREGISTRATION_TIMEOUT
				e.lostState = mesos.TASK_GONE
				e.lostText = "Executor did not reregister within " + a.c.cfg.ExecutorReregistration.String()
				e.destroy()
			}
		}
	}
	a.register()
}

// later does something unless the agent's process has ended by then.
func (a *agent) later(d time.Duration, f func()) *timer {
	run := a.run0
	return a.c.after(d, func() {
		if a.up && a.run0 == run {
			f()
		}
	})
}

// register tells the master that the agent is there.
func (a *agent) register() {
	if !a.up || a.cut || a.recovering || a.c.m == nil || a.c.down(a.cfg.Hostname) {
		return
	}
	r := registration{id: a.id, name: a.cfg.Name, pid: a.pid(), info: a.info, total: a.total, capabilities: a.capabilities()}
	for _, f := range a.frameworks {
		r.frameworks = append(r.frameworks, f.info)
		for _, e := range f.executors {
			if e.state != executorEnded && e.custom {
				r.executors = append(r.executors, registeredExecutor{f.info.ID.GetValue(), e.info})
			}
			for _, id := range e.order {
				if t := e.tasks[id]; t != nil {
					r.tasks = append(r.tasks, registeredTask{f.info.ID.GetValue(), t.shown(f, e, a.id), t.state})
				}
			}
		}
	}
	m := a.c.m
	a.c.mail = append(a.c.mail, func() {
		if a.up && !a.cut && a.c.m == m {
			if _, ok := m.register(r); !ok {
				a.shutDown()
			}
		}
	})
}

func (a *agent) capabilities() []mesos.AgentInfo_Capability {
	list := []mesos.AgentInfo_Capability_Type{mesos.AgentInfo_Capability_MULTI_ROLE, mesos.AgentInfo_Capability_HIERARCHICAL_ROLE,
		mesos.AgentInfo_Capability_RESERVATION_REFINEMENT, mesos.AgentInfo_Capability_RESOURCE_PROVIDER,
		mesos.AgentInfo_Capability_RESIZE_VOLUME, mesos.AgentInfo_Capability_AGENT_OPERATION_FEEDBACK, mesos.AgentInfo_Capability_AGENT_DRAINING}
	if a.cfg.Limits {
		list = append(list, mesos.AgentInfo_Capability_TASK_RESOURCE_LIMITS)
	}
	out := make([]mesos.AgentInfo_Capability, len(list))
	for i, one := range list {
		out[i].Type = one
	}
	return out
}

// registered is the master's welcome.
func (a *agent) registered(id string) {
	first := a.id == ""
	a.id, a.known = id, true
	if first {
		a.checkpoint()
	}
	for _, f := range a.frameworks {
		for _, s := range f.streams {
			s.forward()
		}
	}
}

// masterLost tells that the master's connection broke. Statuses wait until there is another.
func (a *agent) masterLost() { a.known = false }

// toMaster sends something to the master, unless it is out of reach.
func (a *agent) toMaster(f func(*master, *node)) {
	m := a.c.m
	if m == nil || a.cut || !a.known {
		return
	}
	a.c.mail = append(a.c.mail, func() {
		if n := m.agents[a.id]; a.c.m == m && n != nil && n.connected {
			f(m, n)
		}
	})
}

// shutDown is the master's order to an agent that may not go on: all executors end, and it begins anew.
func (a *agent) shutDown() {
	for _, f := range a.frameworks {
		for _, e := range f.executors {
			if e.state != executorEnded {
				e.destroy()
			}
		}
	}
	a.frameworks, a.id, a.known, a.draining = map[string]*agentFramework{}, "", false, nil
	a.checkpoint()
	a.later(a.c.cfg.Allocation, a.register)
}

func (a *agent) checkpoint() {
	if a.cfg.Script == nil && !a.cfg.NoCheckpoint {
		a.c.emit(Checkpoint{a.cfg.Name})
	}
}

// drain kills all tasks and any that come.
func (a *agent) drain(config mesos.DrainConfig) {
	a.draining = &config
	for _, f := range a.sortedFrameworks() {
		for _, e := range f.sortedExecutors() {
			for _, id := range slices.Clone(e.order) {
				if t := e.tasks[id]; t != nil && !terminal(t.state) {
					a.kill(f.info.ID.GetValue(), id, drainPolicy(t.info.KillPolicy, config.MaxGracePeriod))
				}
			}
		}
	}
	a.checkpoint()
}

// drainPolicy is the shorter of the task's own grace and the drain's.
func drainPolicy(own *mesos.KillPolicy, most *mesos.DurationInfo) *mesos.KillPolicy {
	if most == nil || own.GetGracePeriod() != nil && own.GracePeriod.Nanoseconds <= most.Nanoseconds {
		return nil
	}
	return &mesos.KillPolicy{GracePeriod: most}
}

func (a *agent) sortedFrameworks() []*agentFramework {
	list := make([]*agentFramework, 0, len(a.frameworks))
	for _, f := range a.frameworks {
		list = append(list, f)
	}
	slices.SortFunc(list, func(x, y *agentFramework) int { return compare(x.info.ID.GetValue(), y.info.ID.GetValue()) })
	return list
}

func (f *agentFramework) sortedExecutors() []*agentExecutor {
	list := make([]*agentExecutor, 0, len(f.executors))
	for _, e := range f.executors {
		list = append(list, e)
	}
	slices.SortFunc(list, func(x, y *agentExecutor) int { return compare(x.id(), y.id()) })
	return list
}

// frameworkUpdated tells what the framework is like now, and that its scheduler is there again.
func (a *agent) frameworkUpdated(info *mesos.FrameworkInfo) {
	f := a.frameworks[info.ID.GetValue()]
	if f == nil {
		return
	}
	f.info = info
	for _, s := range f.streams {
		s.forward()
	}
	a.checkpoint()
}

// shutdownFramework ends all executors of a framework; nothing is told of its tasks any more.
func (a *agent) shutdownFramework(id string) {
	f := a.frameworks[id]
	if f == nil {
		return
	}
	f.ending = true
	for _, e := range f.sortedExecutors() {
		e.shutdown()
	}
	a.tidy(f)
	a.checkpoint()
}

func (a *agent) shutdownExecutor(framework, executor string) {
	if f := a.frameworks[framework]; f != nil && f.executors[executor] != nil {
		f.executors[executor].shutdown()
		a.checkpoint()
	}
}

// tidy forgets executors that ended with nothing left to tell, and frameworks without executors.
func (a *agent) tidy(f *agentFramework) {
	for id, e := range f.executors {
		if e.state == executorEnded && (f.ending || len(e.tasks) == 0) {
			delete(f.executors, id)
		}
	}
	if len(f.executors) == 0 {
		for _, s := range f.streams {
			s.retry.stop()
		}
		delete(a.frameworks, f.info.ID.GetValue())
	}
}

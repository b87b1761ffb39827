package core

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/allocator"
	"github.com/mesopod/mesopod/internal/mesossim/constraints"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// registration is what an agent tells about itself when it registers.
type registration struct {
	id, name, pid string
	info          *mesos.AgentInfo
	total         resources.Bag
	capabilities  []mesos.AgentInfo_Capability
	frameworks    []*mesos.FrameworkInfo
	executors     []registeredExecutor
	tasks         []registeredTask
}

type registeredExecutor struct {
	framework string
	info      *mesos.ExecutorInfo
}

type registeredTask struct {
	framework string
	info      *mesos.Task
	latest    mesos.TaskState
}

// tell sends something to an agent, unless it is out of reach.
func (m *master) tell(n *node, f func(*agent)) {
	a := m.c.agents[n.name]
	if a == nil {
		return
	}
	m.c.mail = append(m.c.mail, func() {
		if a.up && !a.cut && a.id == n.id && m.c.m == m {
			f(a)
		}
	})
}

// register takes an agent in, for the first time or again.
func (m *master) register(r registration) (id string, ok bool) {
	if _, gone := m.c.reg.gone[r.id]; gone && r.id != "" {
		return "", false
	}
	id = r.id
	if id == "" {
		id = fmt.Sprintf("%s-S%d", m.id, m.c.slaves)
		m.c.slaves++
	}
	info := *r.info
	info.ID = &mesos.AgentID{Value: id}
	n := m.agents[id]
	if n == nil {
		n = &node{id: id, registered: m.c.now, tasks: map[taskKey]*task{}, executors: map[executorKey]*runningExecutor{},
			offers: map[string]*offer{}, inverse: map[string]*inverseOffer{}, killed: map[taskKey]*scheduler.Call_Kill{}}
		m.agents[id] = n
	} else {
		n.reregister = m.c.now
	}
	n.name, n.info, n.pid, n.total, n.capable = r.name, &info, r.pid, r.total, r.capabilities
	n.silent.stop()
	n.connected = true
	since, wasUnreachable := m.c.reg.unreachable[id]
	delete(m.c.reg.unreachable, id)
	delete(m.recovered, id)
	m.c.reg.admitted[id] = &info
	m.alloc.SetAgent(id, allocator.Agent{Total: n.total, Remote: m.remote(&info), Facts: facts(&info)})
	m.alloc.ActivateAgent(id, !n.deactivated && !m.c.down(info.Hostname))
	for _, known := range r.frameworks {
		if m.isCompleted(known.ID.GetValue()) {
			m.tell(n, func(a *agent) { a.shutdownFramework(known.ID.GetValue()) })
			continue
		}
		m.recoverFramework(known)
	}
	m.recoverExecutors(n, r.executors)
	m.recoverTasks(n, r.tasks, wasUnreachable && !since.IsZero())
	if a := m.c.agents[n.name]; a != nil {
		m.c.mail = append(m.c.mail, func() {
			if a.up && !a.cut && m.c.m == m {
				a.registered(id)
			}
		})
	}
	for key, k := range n.killed {
		m.tell(n, func(a *agent) { a.kill(key.framework, key.id, k.KillPolicy) })
		delete(n.killed, key)
	}
	m.allocate(id)
	return id, true
}

// recoverFramework makes a framework that only agents know yet; its scheduler has a while to come.
func (m *master) recoverFramework(info *mesos.FrameworkInfo) {
	id := info.ID.GetValue()
	if f := m.frameworks[id]; f != nil || info.ID == nil {
		return
	}
	f := &framework{m: m, id: id, info: info, caps: capabilitiesOf(info), roles: rolesOf(info), recovered: true, registered: m.c.now,
		offers: map[string]*offer{}, inverse: map[string]*inverseOffer{}, tasks: map[string]*task{}, gone: map[string]*task{}}
	m.frameworks[id] = f
	m.alloc.SetFramework(id, f.wants(nil))
	m.alloc.Deactivate(id)
}

func (m *master) recoverExecutors(n *node, list []registeredExecutor) {
	told := map[executorKey]bool{}
	for _, e := range list {
		key := executorKey{e.framework, e.info.ExecutorID.Value}
		told[key] = true
		if n.executors[key] != nil || m.frameworks[e.framework] == nil {
			continue
		}
		b, _ := resources.Of(e.info.Resources) // they were read when it was launched
		n.executors[key] = &runningExecutor{e.info, roleOf(e.info.Resources), b}
		m.alloc.Take(allocator.Grant{Framework: e.framework, Role: roleOf(e.info.Resources), Agent: n.id, Resources: b})
	}
	for key, e := range n.executors {
		if !told[key] {
			m.removeExecutor(n, key, e)
		}
	}
}

// roleOf is the role that resources are allocated to.
func roleOf(list []mesos.Resource) string {
	for i := range list {
		if role := list[i].AllocationInfo.GetRole(); role != "" {
			return role
		}
	}
	return resources.Unreserved
}

func (m *master) recoverTasks(n *node, list []registeredTask, wasUnreachable bool) {
	told := map[taskKey]bool{}
	for _, r := range list {
		key := taskKey{r.framework, r.info.TaskID.Value}
		told[key] = true
		f := m.frameworks[r.framework]
		if f == nil || n.tasks[key] != nil {
			continue
		}
		b, _ := resources.Of(r.info.Resources) // they were read when it was launched
		t := &task{info: r.info, role: roleOf(r.info.Resources), resources: b, agent: n, framework: f.id, latest: r.latest,
			forwarded: r.info.GetStatusUpdateState(), uuid: r.info.StatusUpdateUUID}
		if r.info.StatusUpdateState == nil {
			t.forwarded = r.latest
		}
		delete(f.gone, key.id)
		f.tasks[key.id], n.tasks[key] = t, t
		if terminal(t.latest) {
			t.freed = true
		} else {
			m.alloc.Take(allocator.Grant{Framework: f.id, Role: t.role, Agent: n.id, Resources: b})
		}
		if wasUnreachable {
			f.send(update(mesos.TaskStatus{
				TaskID: r.info.TaskID, AgentID: &mesos.AgentID{Value: n.id}, State: ptr(t.latest), Source: mesos.SOURCE_MASTER.Enum(),
				Reason: mesos.REASON_AGENT_REREGISTERED.Enum(), Message: ptr("Unreachable agent re-reregistered"), Timestamp: ptr(seconds(m.c.now)),
			}))
		}
	}
	for key, t := range n.tasks {
		if f := m.frameworks[key.framework]; !told[key] && f != nil {
			m.lose(f, t, mesos.TASK_DROPPED, mesos.REASON_RECONCILIATION, "Task is unknown to the agent", time.Time{})
		}
	}
}

// agentGone is told when the connection to an agent broke.
func (m *master) agentGone(n *node) {
	if !n.connected {
		return
	}
	n.connected = false
	m.alloc.ActivateAgent(n.id, false)
	for _, o := range n.offers {
		m.rescind(o)
	}
	for key, t := range n.tasks {
		if f := m.frameworks[key.framework]; f != nil && !f.info.GetCheckpoint() {
			m.lose(f, t, mesos.TASK_GONE, mesos.REASON_AGENT_DISCONNECTED, "Agent "+n.info.Hostname+" disconnected", time.Time{})
		}
	}
	for key, e := range n.executors {
		if f := m.frameworks[key.framework]; f != nil && !f.info.GetCheckpoint() {
			m.removeExecutor(n, key, e)
		}
	}
	m.silence(n)
}

// silence starts the clock after which an agent that says nothing is unreachable.
func (m *master) silence(n *node) {
	n.silent.stop()
	n.silent = m.c.after(m.c.cfg.AgentTimeout, func() {
		if m.c.m == m && m.agents[n.id] == n {
			m.c.reg.unreachable[n.id] = m.c.now
			m.removeAgent(n, mesos.TASK_UNREACHABLE, mesos.REASON_AGENT_REMOVED, "health check timed out", m.c.now)
		}
	})
}

// removeAgent takes an agent out with all its tasks.
func (m *master) removeAgent(n *node, state mesos.TaskState, reason mesos.TaskStatus_Reason, why string, since time.Time) {
	n.silent.stop()
	m.alloc.ActivateAgent(n.id, false)
	for _, o := range n.offers {
		m.rescind(o)
	}
	for _, o := range n.inverse {
		m.rescindInverse(o)
	}
	for _, f := range m.sortedFrameworks() {
		for _, t := range f.sortedTasks() {
			if t.agent == n {
				m.lose(f, t, state, reason, fmt.Sprintf("Agent %s %s", n.info.Hostname, why), since)
			}
		}
	}
	for key, e := range n.executors {
		m.removeExecutor(n, key, e)
	}
	m.alloc.RemoveAgent(n.id)
	delete(m.agents, n.id)
	delete(m.c.reg.admitted, n.id)
	for _, f := range m.sortedFrameworks() {
		f.send(&scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: n.info.ID}})
	}
}

// facts are what offer constraints ask about.
func facts(info *mesos.AgentInfo) constraints.Agent {
	f := constraints.Agent{Hostname: info.Hostname, Attributes: info.Attributes}
	if domain := info.Domain.GetFaultDomain(); domain != nil {
		f.Region, f.Zone = domain.Region.Name, domain.Zone.Name
	}
	return f
}

func (m *master) remote(info *mesos.AgentInfo) bool {
	region := ""
	if info.Domain != nil && info.Domain.FaultDomain != nil {
		region = info.Domain.FaultDomain.Region.Name
	}
	return region != "" && m.c.cfg.Region != "" && region != m.c.cfg.Region
}

func (n *node) can(what mesos.AgentInfo_Capability_Type) bool {
	for _, c := range n.capable {
		if c.Type == what {
			return true
		}
	}
	return false
}

// url is where the agent is, as offers tell it.
func (n *node) url() *mesos.URL {
	process, address, _ := strings.Cut(n.pid, "@")
	host := hostOf(address)
	return &mesos.URL{Scheme: "http", Path: ptr("/" + process),
		Address: mesos.Address{Hostname: &n.info.Hostname, IP: &host, Port: portOf(address)}}
}

func (m *master) masterInfo() *mesos.MasterInfo {
	host, number := hostOf(m.c.cfg.Address), portOf(m.c.cfg.Address)
	info := &mesos.MasterInfo{
		ID: m.id, Port: ptr(uint32(number)), PID: ptr("master@" + m.c.cfg.Address), Hostname: &host, Version: ptr(Version),
		Address:      &mesos.Address{Hostname: &host, IP: &host, Port: number},
		Capabilities: []mesos.MasterInfo_Capability{{Type: mesos.MasterInfo_Capability_AGENT_UPDATE}, {Type: mesos.MasterInfo_Capability_AGENT_DRAINING}},
	}
	if address, err := netip.ParseAddr(host); err == nil && address.Is4() {
		ip := address.As4()
		info.IP = uint32(ip[0]) | uint32(ip[1])<<8 | uint32(ip[2])<<16 | uint32(ip[3])<<24
	}
	if m.c.cfg.Region != "" {
		info.Domain = &mesos.DomainInfo{FaultDomain: &mesos.DomainInfo_FaultDomain{
			Region: mesos.DomainInfo_FaultDomain_RegionInfo{Name: m.c.cfg.Region}, Zone: mesos.DomainInfo_FaultDomain_ZoneInfo{Name: m.c.cfg.Region + "-1"}}}
	}
	return info
}

// Version of Mesos that is simulated.
const Version = "1.11.0"

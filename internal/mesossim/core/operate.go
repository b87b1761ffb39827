package core

import (
	"net/http"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosmaintenance "github.com/mesos/mesos-go/api/v1/lib/maintenance"
	mastercall "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/allocator"
)

// machine is what the maintenance schedule says of one.
type machine struct {
	id     mesos.MachineID
	window mesos.Unavailability
	down   bool
}

func (c *Cluster) unavailability(hostname string) *mesos.Unavailability {
	if one := c.machines[hostname]; one != nil {
		return &one.window
	}
	return nil
}

func (c *Cluster) down(hostname string) bool {
	one := c.machines[hostname]
	return one != nil && one.down
}

// Operate carries out a call of the operator API that changes something. Questions are answered from View.
func (c *Cluster) Operate(now time.Time, call *mastercall.Call) (effects []Effect, refused *Refusal) {
	effects = c.do(now, func() {
		if c.m == nil {
			refused = refuse(http.StatusServiceUnavailable, "No leader elected")
			return
		}
		refused = c.m.operate(call)
	})
	return effects, refused
}

func (m *master) operate(call *mastercall.Call) *Refusal {
	switch {
	case call.Type == mastercall.Call_TEARDOWN && call.Teardown != nil:
		f := m.frameworks[call.Teardown.FrameworkID.Value]
		if f == nil {
			return refuse(http.StatusBadRequest, "No framework found with specified ID")
		}
		m.removeFramework(f)
	case call.Type == mastercall.Call_DRAIN_AGENT && call.DrainAgent != nil:
		return m.drainAgent(call.DrainAgent)
	case call.Type == mastercall.Call_DEACTIVATE_AGENT && call.DeactivateAgent != nil:
		return m.activate(call.DeactivateAgent.AgentID.Value, false)
	case call.Type == mastercall.Call_REACTIVATE_AGENT && call.ReactivateAgent != nil:
		return m.activate(call.ReactivateAgent.AgentID.Value, true)
	case call.Type == mastercall.Call_MARK_AGENT_GONE && call.MarkAgentGone != nil:
		return m.markGone(call.MarkAgentGone.AgentID.Value)
	case call.Type == mastercall.Call_UPDATE_MAINTENANCE_SCHEDULE && call.UpdateMaintenanceSchedule != nil:
		m.schedule(call.UpdateMaintenanceSchedule.Schedule)
	case call.Type == mastercall.Call_START_MAINTENANCE && call.StartMaintenance != nil:
		return m.maintain(call.StartMaintenance.Machines, true)
	case call.Type == mastercall.Call_STOP_MAINTENANCE && call.StopMaintenance != nil:
		return m.maintain(call.StopMaintenance.Machines, false)
	case call.Type == mastercall.Call_UPDATE_QUOTA && call.UpdateQuota != nil:
		for _, q := range call.UpdateQuota.QuotaConfigs {
			m.alloc.SetQuota(q.Role, allocator.Quota{Guarantees: milli(q.Guarantees), Limits: milli(q.Limits)})
		}
	case call.Type == mastercall.Call_RESERVE_RESOURCES && call.ReserveResources != nil:
		return m.convertFree(call.ReserveResources.AgentID, call.ReserveResources.Resources, pushed, false)
	case call.Type == mastercall.Call_UNRESERVE_RESOURCES && call.UnreserveResources != nil:
		return m.convertFree(call.UnreserveResources.AgentID, call.UnreserveResources.Resources, pushed, true)
	case call.Type == mastercall.Call_CREATE_VOLUMES && call.CreateVolumes != nil:
		return m.convertFree(call.CreateVolumes.AgentID, call.CreateVolumes.Volumes, plainDisk, false)
	case call.Type == mastercall.Call_DESTROY_VOLUMES && call.DestroyVolumes != nil:
		return m.convertFree(call.DestroyVolumes.AgentID, call.DestroyVolumes.Volumes, plainDisk, true)
	case call.Type == mastercall.Call_UPDATE_WEIGHTS && call.UpdateWeights != nil:
		for _, w := range call.UpdateWeights.WeightInfos {
			m.alloc.SetWeight(w.GetRole(), w.Weight)
		}
	case call.Type == mastercall.Call_UNKNOWN:
		return refuse(http.StatusBadRequest, "Failed to validate master::Call: Expecting 'type' to be present")
	default:
		return refuse(http.StatusNotImplemented, "Call %s is not simulated", call.Type)
	}
	return nil
}

func milli(values map[string]mesos.Value_Scalar) map[string]int64 {
	out := map[string]int64{}
	for name, v := range values {
		out[name] = int64(v.Value * 1000)
	}
	return out
}

func (m *master) drainAgent(d *mastercall.Call_DrainAgent) *Refusal {
	n := m.agents[d.AgentID.Value]
	if n == nil {
		return refuse(http.StatusBadRequest, "Unknown agent: %s", d.AgentID.Value)
	}
	config := mesos.DrainConfig{MarkGone: d.MarkGone}
	if g := d.MaxGracePeriod; g != nil {
		if g.Seconds < 0 || g.Nanos < 0 {
			return refuse(http.StatusBadRequest, "Invalid max_grace_period: %ds", g.Seconds)
		}
		config.MaxGracePeriod = &mesos.DurationInfo{Nanoseconds: g.Seconds*int64(time.Second) + int64(g.Nanos)}
	}
	n.drain, n.drainStart = &mesos.DrainInfo{State: mesos.DrainState_DRAINING, Config: config}, m.c.now
	m.deactivate(n)
	m.tell(n, func(a *agent) { a.drain(config) })
	m.checkDrained(n)
	return nil
}

func (m *master) deactivate(n *node) {
	n.deactivated = true
	m.alloc.ActivateAgent(n.id, false)
	for _, o := range n.offers {
		m.rescind(o)
	}
}

// checkDrained ends the draining of an agent once nothing runs there and all is acknowledged.
func (m *master) checkDrained(n *node) {
	if n.drain == nil || n.drain.State != mesos.DrainState_DRAINING || len(n.tasks) > 0 {
		return
	}
	n.drain = &mesos.DrainInfo{State: mesos.DrainState_DRAINED, Config: n.drain.Config}
	if n.drain.Config.GetMarkGone() {
		m.markGone(n.id)
	}
}

func (m *master) activate(id string, active bool) *Refusal {
	n := m.agents[id]
	switch {
	case n == nil:
		return refuse(http.StatusBadRequest, "Unknown agent: %s", id)
	case !active:
		m.deactivate(n)
	case n.drain != nil && n.drain.State == mesos.DrainState_DRAINING:
		return refuse(http.StatusBadRequest, "Agent %s is still in the draining state", id)
	default:
		n.deactivated, n.drain = false, nil
		m.tell(n, func(a *agent) { a.draining = nil })
		m.alloc.ActivateAgent(id, n.connected)
		m.allocate(id)
	}
	return nil
}

func (m *master) markGone(id string) *Refusal {
	n := m.agents[id]
	if n == nil {
		if _, known := m.c.reg.unreachable[id]; !known {
			return refuse(http.StatusNotFound, "Agent %s was not found", id)
		}
		delete(m.c.reg.unreachable, id)
		m.c.reg.gone[id] = m.c.now
		return nil
	}
	m.c.reg.gone[id] = m.c.now
	m.tell(n, (*agent).shutDown)
	m.removeAgent(n, mesos.TASK_GONE_BY_OPERATOR, mesos.REASON_AGENT_REMOVED_BY_OPERATOR, "has been marked gone", time.Time{})
	return nil
}

// schedule replaces the maintenance schedule.
func (m *master) schedule(s mesosmaintenance.Schedule) {
	before := m.c.machines
	m.c.machines = map[string]*machine{}
	for _, window := range s.Windows {
		for _, id := range window.MachineIDs {
			one := &machine{id: id, window: window.Unavailability}
			if old := before[id.GetHostname()]; old != nil {
				one.down = old.down
			}
			m.c.machines[id.GetHostname()] = one
		}
	}
	for _, n := range m.sortedAgents() {
		if before[n.info.Hostname] == nil && m.c.machines[n.info.Hostname] == nil {
			continue
		}
		for _, o := range n.offers {
			m.rescind(o)
		}
		for _, o := range n.inverse {
			m.rescindInverse(o)
		}
	}
	m.allocate()
}

// maintain takes machines down, or up again.
func (m *master) maintain(ids []mesos.MachineID, down bool) *Refusal {
	for _, id := range ids {
		one := m.c.machines[id.GetHostname()]
		switch {
		case one == nil:
			return refuse(http.StatusBadRequest, "Machine '%s' is not part of a maintenance schedule", id.GetHostname())
		case !down && !one.down:
			return refuse(http.StatusBadRequest, "Machine '%s' is not in DOWN mode and cannot be brought up", id.GetHostname())
		}
	}
	for _, id := range ids {
		one := m.c.machines[id.GetHostname()]
		if one.down = down; !down {
			delete(m.c.machines, id.GetHostname())
			for _, a := range m.c.agents {
				if a.info.Hostname == id.GetHostname() {
					a.register()
				}
			}
			continue
		}
		for _, n := range m.sortedAgents() {
			if n.info.Hostname == id.GetHostname() {
				m.tell(n, (*agent).shutDown)
				m.removeAgent(n, mesos.TASK_GONE, mesos.REASON_AGENT_REMOVED, "was taken down for maintenance", time.Time{})
			}
		}
	}
	return nil
}

// offerInverse asks frameworks to leave machines that will go down.
func (m *master) offerInverse(agents []string) {
	if len(m.c.machines) == 0 {
		return
	}
	for _, n := range m.sortedAgents() {
		window := m.c.unavailability(n.info.Hostname)
		if window == nil || m.c.down(n.info.Hostname) {
			continue
		}
		for _, f := range m.sortedFrameworks() {
			if f.connected && n.runs(f.id) && !n.asked(f) {
				m.lastOffer++
				o := &inverseOffer{id: m.id + "-O" + itoa(m.lastOffer), framework: f, node: n}
				m.inverse[o.id], n.inverse[o.id], f.inverse[o.id] = o, o, o
				f.send(&scheduler.Event{Type: scheduler.Event_INVERSE_OFFERS, InverseOffers: &scheduler.Event_InverseOffers{
					InverseOffers: []mesos.InverseOffer{{OfferID: mesos.OfferID{Value: o.id}, FrameworkID: mesos.FrameworkID{Value: f.id},
						AgentID: n.info.ID, URL: n.url(), Unavailability: *window}},
				}})
			}
		}
	}
}

func (n *node) asked(f *framework) bool {
	for _, o := range n.inverse {
		if o.framework == f {
			return true
		}
	}
	return false
}

func (m *master) rescindInverse(o *inverseOffer) {
	delete(m.inverse, o.id)
	delete(o.node.inverse, o.id)
	delete(o.framework.inverse, o.id)
	o.framework.send(&scheduler.Event{Type: scheduler.Event_RESCIND_INVERSE_OFFER,
		RescindInverseOffer: &scheduler.Event_RescindInverseOffer{InverseOfferID: mesos.OfferID{Value: o.id}}})
}

// answerInverse notes what a framework answered; it is shown to operators and decides nothing.
func (m *master) answerInverse(f *framework, ids []mesos.OfferID, accepted bool) {
	for _, id := range ids {
		if o := f.inverse[id.Value]; o != nil {
			o.accepted = &accepted
		}
	}
}

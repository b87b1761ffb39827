package core

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/constraints"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// framework is a scheduler as the master knows it.
type framework struct {
	m         *master
	id        string
	info      *mesos.FrameworkInfo
	stream    string // empty: not connected
	connected bool
	recovered bool // told by agents only
	caps      capabilities
	roles     []string
	wanted    constraints.Set
	offers    map[string]*offer
	inverse   map[string]*inverseOffer
	tasks     map[string]*task
	ended     []*task // completed, oldest first
	gone      map[string]*task
	failover  *timer

	registered, reregistered, unregistered time.Time
}

// capabilities are those that change what the master does.
type capabilities struct {
	partitionAware, multiRole, refinement, killing, gpus, regions, revocable, shared bool
}

func capabilitiesOf(info *mesos.FrameworkInfo) (c capabilities) {
	for _, one := range info.Capabilities {
		switch one.Type {
		case mesos.FrameworkInfo_Capability_PARTITION_AWARE:
			c.partitionAware = true
		case mesos.FrameworkInfo_Capability_MULTI_ROLE:
			c.multiRole = true
		case mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT:
			c.refinement = true
		case mesos.FrameworkInfo_Capability_TASK_KILLING_STATE:
			c.killing = true
		case mesos.FrameworkInfo_Capability_GPU_RESOURCES:
			c.gpus = true
		case mesos.FrameworkInfo_Capability_REGION_AWARE:
			c.regions = true
		case mesos.FrameworkInfo_Capability_REVOCABLE_RESOURCES:
			c.revocable = true
		case mesos.FrameworkInfo_Capability_SHARED_RESOURCES:
			c.shared = true
		}
	}
	return c
}

func rolesOf(info *mesos.FrameworkInfo) []string {
	if capabilitiesOf(info).multiRole {
		return info.Roles
	}
	if info.Role != nil {
		return []string{*info.Role}
	}
	return []string{resources.Unreserved}
}

func (f *framework) notation(role string) resources.Notation {
	n := resources.Notation{Role: role, Refined: f.caps.refinement}
	if !f.caps.multiRole {
		n.Role = ""
	}
	return n
}

func (f *framework) send(e *scheduler.Event) {
	if f.stream != "" {
		f.m.c.emit(SendScheduler{f.stream, e})
	}
}

// Subscribe is a SUBSCRIBE that Refuse let pass, on a stream with a new id; wanted are its offer constraints.
func (c *Cluster) Subscribe(now time.Time, stream string, call *scheduler.Call, wanted constraints.Set) []Effect {
	return c.do(now, func() {
		if c.m == nil {
			c.emit(CloseScheduler{stream})
			return
		}
		if why := c.m.subscribe(stream, call.Subscribe, wanted); why != "" {
			c.emit(SendScheduler{stream, &scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: why}}})
			c.emit(CloseScheduler{stream})
		}
	})
}

// subscribe answers why not, or nothing.
func (m *master) subscribe(stream string, s *scheduler.Call_Subscribe, wanted constraints.Set) string {
	info := *s.FrameworkInfo
	if why := m.validateFramework(&info, s.SuppressedRoles, wanted); why != "" {
		return why
	}
	id := info.ID.GetValue()
	f := m.frameworks[id]
	switch {
	case id == "":
		id = fmt.Sprintf("%s-%04d", m.id, m.lastFW)
		m.lastFW++
		fallthrough
	case f == nil:
		f = &framework{m: m, id: id, offers: map[string]*offer{}, inverse: map[string]*inverseOffer{}, tasks: map[string]*task{},
			gone: map[string]*task{}, registered: m.c.now}
		m.frameworks[id] = f
	default:
		m.replace(f, &info)
	}
	info.ID = &mesos.FrameworkID{Value: id}
	f.info, f.caps, f.roles, f.stream, f.connected, f.recovered = &info, capabilitiesOf(&info), rolesOf(&info), stream, true, false
	f.wanted = wanted
	m.alloc.SetFramework(id, f.wants(s.SuppressedRoles))
	f.send(&scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{
		FrameworkID: info.ID, HeartbeatIntervalSeconds: ptr(m.c.cfg.Heartbeat.Seconds()), MasterInfo: m.masterInfo(),
	}})
	f.send(&scheduler.Event{Type: scheduler.Event_HEARTBEAT})
	// Agents send again what nobody acknowledged.
	for _, n := range m.sortedAgents() {
		if n.runs(id) {
			m.tell(n, func(a *agent) { a.frameworkUpdated(f.info) })
		}
	}
	m.allocate()
	return ""
}

// replace ends the subscription that a framework had.
func (m *master) replace(f *framework, info *mesos.FrameworkInfo) {
	f.failover.stop()
	f.reregistered = m.c.now
	info.User, info.Checkpoint = f.info.User, f.info.Checkpoint // the first ones hold for ever
	if f.stream != "" {
		f.send(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Framework failed over"}})
		m.c.emit(CloseScheduler{f.stream})
	}
	m.dropOffers(f)
}

func (m *master) dropOffers(f *framework) {
	for _, o := range f.offers {
		m.drop(o, 0)
	}
	for id, o := range f.inverse {
		delete(m.inverse, id)
		delete(o.node.inverse, id)
	}
	clear(f.inverse)
}

// validateFramework answers with the master's text for what is wrong.
func (m *master) validateFramework(info *mesos.FrameworkInfo, suppressed []string, wanted constraints.Set) string {
	caps := capabilitiesOf(info)
	switch {
	case !caps.multiRole && len(info.Roles) > 0:
		return "'FrameworkInfo.roles' must not be set without the MULTI_ROLE capability"
	case caps.multiRole && info.Role != nil:
		return "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable"
	}
	roles := rolesOf(info)
	seen := map[string]bool{}
	for _, role := range roles {
		if seen[role] {
			return fmt.Sprintf("'FrameworkInfo.roles' contains duplicate items: %s", role)
		}
		seen[role] = true
		if why := badRole(role); why != "" {
			return why
		}
	}
	for _, role := range suppressed {
		if !seen[role] {
			return fmt.Sprintf("Suppressed role '%s' is not contained in the list of roles", role)
		}
	}
	if err := wanted.Check(); err != nil {
		return err.Error()
	}
	if math.Abs(info.GetFailoverTimeout()) > math.MaxInt64/float64(time.Second) {
		return fmt.Sprintf("The framework failover_timeout (%v) is invalid", info.GetFailoverTimeout())
	}
	if id := info.ID.GetValue(); id != "" {
		if m.isCompleted(id) {
			return "Framework has been removed"
		}
		if f := m.frameworks[id]; f != nil && f.info.GetPrincipal() != info.GetPrincipal() {
			return "Changing framework's principal is not allowed."
		}
	}
	return ""
}

func (m *master) isCompleted(id string) bool {
	return slices.ContainsFunc(m.completed, func(f *framework) bool { return f.id == id })
}

func badRole(role string) string {
	switch {
	case role == "":
		return "Empty role name is invalid"
	case role == resources.Unreserved:
		return ""
	case strings.HasPrefix(role, "/") || strings.HasSuffix(role, "/") || strings.Contains(role, "//"):
		return fmt.Sprintf("Role '%s' has an invalid place of '/'", role)
	}
	for part := range strings.SplitSeq(role, "/") {
		if part == "." || part == ".." || part == "*" || strings.HasPrefix(part, "-") || strings.ContainsAny(part, " \t\n\v\f\r\b\x7f") {
			return fmt.Sprintf("Role '%s' has the invalid component '%s'", role, part)
		}
	}
	return ""
}

// SchedulerGone tells that a scheduler's stream broke.
func (c *Cluster) SchedulerGone(now time.Time, stream string) []Effect {
	return c.do(now, func() {
		if c.m == nil {
			return
		}
		for _, f := range c.m.frameworks {
			if f.stream == stream {
				c.m.disconnect(f)
				return
			}
		}
	})
}

func (m *master) disconnect(f *framework) {
	f.stream, f.connected = "", false
	m.alloc.Deactivate(f.id)
	m.dropOffers(f)
	timeout := time.Duration(f.info.GetFailoverTimeout() * float64(time.Second))
	f.failover = m.c.after(timeout, func() { m.removeFramework(f) })
}

// removeFramework tears a framework down with all that it runs.
func (m *master) removeFramework(f *framework) {
	if m.dead || m.frameworks[f.id] != f {
		return
	}
	f.failover.stop()
	m.alloc.Deactivate(f.id)
	m.dropOffers(f)
	for _, n := range m.sortedAgents() {
		if n.runs(f.id) {
			m.tell(n, func(a *agent) { a.shutdownFramework(f.id) })
		}
	}
	for _, t := range f.tasks {
		if !terminal(t.latest) {
			t.latest = mesos.TASK_KILLED
			t.info.State = ptr(mesos.TASK_KILLED)
		}
		m.removeTask(f, t)
	}
	for _, n := range m.agents {
		for key, e := range n.executors {
			if key.framework == f.id {
				m.removeExecutor(n, key, e)
			}
		}
	}
	if f.stream != "" {
		f.send(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Framework has been removed"}})
		m.c.emit(CloseScheduler{f.stream})
	}
	f.stream, f.connected, f.unregistered = "", false, m.c.now
	m.alloc.RemoveFramework(f.id)
	delete(m.frameworks, f.id)
	m.completed = append(m.completed, f)
	if len(m.completed) > 50 {
		m.completed = m.completed[1:]
	}
}

// runs tells whether the agent has tasks or executors of a framework.
func (n *node) runs(framework string) bool {
	for key := range n.executors {
		if key.framework == framework {
			return true
		}
	}
	for key := range n.tasks {
		if key.framework == framework {
			return true
		}
	}
	return false
}

package core

import (
	"net/http"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/internal/mesossim/allocator"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// pushed is a resource before its last reservation.
func pushed(r mesos.Resource) mesos.Resource {
	b, err := resources.Of([]mesos.Resource{r})
	if err != nil || len(b) != 1 {
		return mesos.Resource{}
	}
	refined := b.Proto(resources.Notation{Refined: true})[0]
	if n := len(refined.Reservations); n > 0 {
		refined.Reservations = refined.Reservations[:n-1]
	}
	return refined
}

// plainDisk is the disk that a volume is made of.
func plainDisk(r mesos.Resource) mesos.Resource {
	r.Disk, r.Shared = nil, nil
	return r
}

func (a *acceptance) convert(into []mesos.Resource, origin func(mesos.Resource) mesos.Resource) {
	for _, r := range into {
		a.change(origin(r), r)
	}
}

// reserve pushes a reservation for the role that the offer is allocated to; one for another role is dropped.
func (a *acceptance) reserve(list []mesos.Resource) {
	for _, r := range list {
		if b, err := resources.Of([]mesos.Resource{r}); err == nil && len(b) == 1 && b[0].Role() == a.role {
			a.change(pushed(r), r)
		}
	}
}

func (a *acceptance) unreserve(list []mesos.Resource) {
	for _, r := range list {
		if b, err := resources.Of([]mesos.Resource{r}); err == nil && len(b) == 1 && !b[0].Statically() {
			a.change(r, pushed(r))
		}
	}
}

// change turns one resource of the offers into another. An invalid operation is dropped, as Mesos does for operations
// without an id.
func (a *acceptance) change(from, into mesos.Resource) {
	old, err := resources.Of([]mesos.Resource{from})
	if err != nil || !a.remaining.Contains(old) || len(old) == 0 {
		return
	}
	fresh, err := resources.Of([]mesos.Resource{into})
	if err != nil {
		return
	}
	a.remaining = a.remaining.Minus(old).Plus(fresh)
	a.node.total = a.node.total.Minus(old).Plus(fresh)
	a.m.alloc.Convert(allocator.Grant{Framework: a.f.id, Role: a.role, Agent: a.node.id, Resources: old}, fresh)
	total := a.node.total
	a.m.tell(a.node, func(one *agent) { one.total = total; one.checkpoint() })
}

// convertFree carries out an operator's reservation or volume, or with back the undoing of one, on what nobody uses; offers that are
// in the way are rescinded.
func (m *master) convertFree(id mesos.AgentID, list []mesos.Resource, origin func(mesos.Resource) mesos.Resource, back bool) *Refusal {
	n := m.agents[id.Value]
	if n == nil {
		return refuse(http.StatusBadRequest, "No agent found with specified ID")
	}
	before := make([]mesos.Resource, len(list))
	for i := range list {
		before[i] = origin(list[i])
	}
	from, err := resources.Of(before)
	into, err2 := resources.Of(list)
	if err != nil || err2 != nil || len(from) == 0 {
		return refuse(http.StatusBadRequest, "Invalid resources: %v %v", err, err2)
	}
	if back {
		from, into = into, from
		for _, item := range from {
			if item.Statically() {
				return refuse(http.StatusBadRequest, "Invalid UNRESERVE: resource %s is reserved statically", item.Name())
			}
		}
	}
	for _, o := range n.offers {
		m.rescind(o)
	}
	if !m.alloc.ConvertFree(n.id, from, into) {
		m.allocate(n.id)
		return refuse(http.StatusConflict, "Invalid operation: agent has not %s free", from)
	}
	n.total = n.total.Minus(from).Plus(into)
	total := n.total
	m.tell(n, func(one *agent) { one.total = total; one.checkpoint() })
	m.allocate(n.id)
	return nil
}

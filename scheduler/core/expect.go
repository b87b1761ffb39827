package core

import (
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// Expect tells what nodes without an offer would show if Mesos offered what is free on their agents: free is by agent id. It
// changes nothing, and is not what a pod is placed by.
func (c *Core) Expect(free map[string][]mesos.Resource) map[string]*offers.View {
	expected := map[string]*offers.View{}
	for id, resources := range free {
		a := c.agents[id]
		if a == nil || !a.stored || !a.found || a.gone || len(c.pool.Holds(id)) > 0 {
			continue
		}
		pool := offers.NewPool(procure.ExecutorShare(c.procure))
		for _, role := range c.procure.Roles.All() {
			pool.Add(&mesos.Offer{
				ID: mesos.OfferID{Value: "expected in " + role}, AgentID: mesos.AgentID{Value: id},
				AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role}, Resources: forRole(resources, role),
			}, time.Time{})
		}
		pool.Withhold(id, c.pool.Withheld(id))
		pool.Show(id, a.node, a.info.Limits)
		pool.SetExecutor(id, c.executorRuns(id))
		expected[a.node] = pool.View(id)
	}
	return expected
}

// forRole are the resources that may be offered to a role: those that nobody has reserved, and those reserved for it or for one
// above it.
func forRole(resources []mesos.Resource, role string) []mesos.Resource {
	var all []mesos.Resource
	for i := range resources {
		reserved := resources[i].Reservations
		if n := len(reserved); n == 0 || reserved[n-1].GetRole() == role || strings.HasPrefix(role, reserved[n-1].GetRole()+"/") {
			all = append(all, resources[i])
		}
	}
	return all
}

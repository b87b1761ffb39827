package mesosconn

import (
	"context"
	"fmt"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Free asks the leading master what no task or executor of anybody has on each agent, by id. Who is offered it, and whether at
// all, is for the master to decide. Agents that are being drained, or deactivated, have nothing.
func (c *Conn) Free(ctx context.Context) (map[string][]mesos.Resource, error) {
	sub, _ := c.current()
	if sub == nil {
		return nil, fmt.Errorf("GET_AGENTS: not subscribed: %w", errdefs.ErrUnavailable)
	}
	answer, err := c.operator(ctx, sub, master.Call_GET_AGENTS)
	if err != nil {
		return nil, fmt.Errorf("GET_AGENTS at %s: %w", sub.master.Host, err)
	}
	free := map[string][]mesos.Resource{}
	agents := answer.GetGetAgents().GetAgents()
	for i := range agents {
		a := &agents[i]
		if id := a.AgentInfo.ID; id != nil && a.Active {
			free[id.Value] = minus(a.TotalResources, a.AllocatedResources)
		}
	}
	return free, nil
}

// minus takes what is allocated, to whichever role, from all there is.
func minus(total, allocated []mesos.Resource) []mesos.Resource {
	left := mesos.Resources(total).Clone()
	for i := range allocated {
		r := allocated[i]
		r.AllocationInfo = nil // what is free has none
		left.Subtract1(r)
	}
	return left
}

package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
	"github.com/mesopod/mesopod/scheduler/web"
)

// Plan tells for each agent whether a pod could be placed there now, and why not. The pod is one that the API server has defaulted;
// it need not exist, and nothing is changed, asked for or reserved. Agents whose offers were declined, since no pod waits, are
// judged by what the master says is free on them. The error is errdefs.ErrInvalid for a pod that can run nowhere, and
// errdefs.ErrUnavailable for a scheduler that does not work, or has no master.
func (s *Scheduler) Plan(ctx context.Context, pod *corev1.Pod) (web.Plan, error) {
	if s.status.standing.Load() != web.Working {
		return web.Plan{}, fmt.Errorf("this scheduler is %s; ask the one that works: %w", s.status.standing.Load(), errdefs.ErrUnavailable)
	}
	need, err := procure.SizeOf(pod, s.procure)
	if err != nil {
		return web.Plan{}, err
	}
	free, err := s.conn.Free(ctx)
	if err != nil {
		return web.Plan{}, fmt.Errorf("ask Mesos what is free: %w", err)
	}
	var view core.View
	var expected map[string]*offers.View
	if err := s.loop.ask(ctx, func() { view, expected = s.loop.core.Snapshot(), s.loop.core.Expect(free) }); err != nil {
		return web.Plan{}, err
	}
	found, err := s.kube.Plan(ctx, pod, expected)
	if err != nil {
		return web.Plan{}, err
	}
	plan := web.Plan{Pod: podKey(pod), Sentence: found.Sentence, Held: found.Held, Needs: web.AmountOf(need.Amounts), Ports: need.Ports.All()}
	agents := map[string]*core.AgentView{}
	for i := range view.Agents {
		agents[view.Agents[i].Hostname] = &view.Agents[i]
	}
	for _, node := range found.Nodes {
		row := web.PlanRow{Node: node.Node, Fits: node.Why == "", Why: node.Why, Offer: web.NoOffer}
		switch a := agents[node.Node]; {
		case a == nil:
			row.Offer = web.NoAgent
		case a.Free != nil:
			row.Agent, row.Offer = a.ID, web.OfferHeld
		case expected[node.Node] != nil:
			row.Agent, row.Offer = a.ID, web.OfferExpected
		default:
			row.Agent = a.ID
		}
		if row.Fits {
			plan.Fits++
		}
		plan.Agents = append(plan.Agents, row)
	}
	return plan, nil
}

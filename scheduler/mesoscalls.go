package scheduler

import (
	"context"
	"fmt"
	"sync"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// callMesos makes the call that an effect stands for. Launches get their access here, so that no token comes near the
// core, which tells what it does.
func (s *Scheduler) callMesos(ctx context.Context, effect core.Effect) error {
	conn := s.conn
	switch e := effect.(type) {
	case core.Accept:
		if s.executors != nil {
			e = s.executors.equip(e)
		}
		return conn.Accept(ctx, e)
	case core.Decline:
		return conn.Decline(ctx, e)
	case core.AcceptInverse:
		return conn.AcceptInverse(ctx, e)
	case core.Revive:
		return conn.Revive(ctx, e)
	case core.Suppress:
		return conn.Suppress(ctx, e)
	case core.Acknowledge:
		return conn.Acknowledge(ctx, e)
	case core.Kill:
		return conn.Kill(ctx, e)
	case core.Message:
		return conn.Message(ctx, e)
	case core.Reconcile:
		return conn.Reconcile(ctx, e)
	}
	return fmt.Errorf("%T is no call to Mesos: %w", effect, errdefs.ErrInvalid)
}

// callsAtOnce is how many calls about agents may be under way at once.
const callsAtOnce = 4

// caller makes calls to Mesos in the order of the effects, as far as that matters: launches and KILLs on different agents that follow each
// other are under way together, and acknowledgements, of which a task has one at a time, wait for nobody.
type caller struct {
	calls   *queue[core.Effect]
	acks    *queue[core.Effect]
	lookUps *queue[core.LookUpAgent]
	limits  *queue[core.LookUpLimits]
	post    func(core.Event)
	do      func(context.Context, core.Effect) error
	find    func(context.Context, []string) (map[string]core.Agent, error)
	// findLimits asks for the limits of quotas.
	findLimits func(context.Context) ([]procure.RoleLimit, error)
}

// runCalls makes all calls but acknowledgements. Each waits until those before it are over, but for those on other agents.
func (c *caller) runCalls(ctx context.Context) error {
	return c.calls.drain(ctx, func(ctx context.Context, effects []core.Effect) {
		for len(effects) > 0 {
			n := together(effects)
			var others sync.WaitGroup
			for _, effect := range effects[:n-1] {
				others.Go(func() { c.call(ctx, effect) })
			}
			c.call(ctx, effects[n-1])
			others.Wait()
			effects = effects[n:]
		}
	})
}

// together is how many calls at the head may be under way at once, one at least: those that concern one agent each, and not the same.
func together(effects []core.Effect) int {
	agents := map[string]bool{}
	for n, effect := range effects {
		agent := ""
		switch e := effect.(type) {
		case core.Accept:
			agent = e.AgentID
		case core.Kill:
			agent = e.AgentID
		}
		switch {
		case n == 0 && agent == "":
			return 1
		case n == callsAtOnce, agent == "", agents[agent]:
			return n
		}
		agents[agent] = true
	}
	return len(effects)
}

// runAcks makes the acknowledgements.
func (c *caller) runAcks(ctx context.Context) error {
	return c.acks.drain(ctx, func(ctx context.Context, effects []core.Effect) {
		for _, effect := range effects {
			c.call(ctx, effect)
		}
	})
}

func (c *caller) call(ctx context.Context, effect core.Effect) {
	if err := c.do(ctx, effect); err != nil && ctx.Err() == nil {
		glog.Warningf("fail call effect=%T reason=%q", effect, err)
		c.post(core.CallFailed{Effect: effect, Err: err})
	}
}

// runLookUps asks for all agents that were wanted meanwhile in one call: its answer holds every agent of the cluster.
func (c *caller) runLookUps(ctx context.Context) error {
	return c.lookUps.drain(ctx, func(ctx context.Context, wanted []core.LookUpAgent) {
		ids := make([]string, len(wanted))
		for i, w := range wanted {
			ids[i] = w.AgentID
		}
		found, err := c.find(ctx, ids)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			glog.Warningf("fail look-up agents=%d reason=%q", len(ids), err)
		}
		for _, w := range wanted {
			if agent, ok := found[w.AgentID]; ok {
				c.post(core.AgentFound{Agent: agent})
				continue
			}
			why := err
			if why == nil {
				why = fmt.Errorf("agent %s is not registered: %w", w.AgentID, errdefs.ErrNotFound)
			}
			c.post(core.CallFailed{Effect: w, Err: why})
		}
	})
}

// runLimits asks for quotas, once for all that were wanted meanwhile.
func (c *caller) runLimits(ctx context.Context) error {
	return c.limits.drain(ctx, func(ctx context.Context, wanted []core.LookUpLimits) {
		limits, err := c.findLimits(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			c.post(core.CallFailed{Effect: wanted[0], Err: err})
		default:
			c.post(core.LimitsFound{Limits: limits})
		}
	})
}

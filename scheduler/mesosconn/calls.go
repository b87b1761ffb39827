package mesosconn

import (
	"context"
	"maps"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/scheduler/core"
)

// Accept launches tasks on offers of one agent, in one ACCEPT with one LAUNCH.
func (c *Conn) Accept(ctx context.Context, a core.Accept) error {
	return c.send(ctx, &scheduler.Call{
		Type: scheduler.Call_ACCEPT,
		Accept: &scheduler.Call_Accept{
			OfferIDs: offerIDs(a.OfferIDs),
			Operations: []mesos.Offer_Operation{{
				Type:   mesos.Offer_Operation_LAUNCH,
				Launch: &mesos.Offer_Operation_Launch{TaskInfos: a.Tasks},
			}},
			Filters: &mesos.Filters{RefuseSeconds: &a.RefuseSeconds},
		},
	})
}

// Decline gives whole offers back.
func (c *Conn) Decline(ctx context.Context, d core.Decline) error {
	return c.send(ctx, &scheduler.Call{
		Type: scheduler.Call_DECLINE,
		Decline: &scheduler.Call_Decline{
			OfferIDs: offerIDs(d.OfferIDs),
			Filters:  &mesos.Filters{RefuseSeconds: &d.RefuseSeconds},
		},
	})
}

// AcceptInverse agrees to maintenances of agents.
func (c *Conn) AcceptInverse(ctx context.Context, a core.AcceptInverse) error {
	return c.send(ctx, &scheduler.Call{
		Type: scheduler.Call_ACCEPT_INVERSE_OFFERS,
		AcceptInverseOffers: &scheduler.Call_AcceptInverseOffers{
			InverseOfferIDs: offerIDs(a.OfferIDs),
			Filters:         &mesos.Filters{RefuseSeconds: &a.RefuseSeconds},
		},
	})
}

// Revive clears the filters of earlier declines in some roles, and ends their suppression.
func (c *Conn) Revive(ctx context.Context, r core.Revive) error {
	return c.send(ctx, &scheduler.Call{Type: scheduler.Call_REVIVE, Revive: &scheduler.Call_Revive{Roles: r.Roles}})
}

// Suppress ends offers in some roles.
func (c *Conn) Suppress(ctx context.Context, s core.Suppress) error {
	return c.send(ctx, &scheduler.Call{Type: scheduler.Call_SUPPRESS, Suppress: &scheduler.Call_Suppress{Roles: s.Roles}})
}

// Acknowledge ends the retries of one status update.
func (c *Conn) Acknowledge(ctx context.Context, a core.Acknowledge) error {
	return c.send(ctx, &scheduler.Call{
		Type: scheduler.Call_ACKNOWLEDGE,
		Acknowledge: &scheduler.Call_Acknowledge{
			AgentID: mesos.AgentID{Value: a.AgentID},
			TaskID:  mesos.TaskID{Value: a.TaskID},
			UUID:    a.UUID,
		},
	})
}

// Kill asks the executor to end a task. A negative grace leaves the grace period to the executor.
func (c *Conn) Kill(ctx context.Context, k core.Kill) error {
	kill := &scheduler.Call_Kill{TaskID: mesos.TaskID{Value: k.TaskID}, AgentID: agentID(k.AgentID)}
	if k.Grace >= 0 {
		kill.KillPolicy = &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: int64(k.Grace)}}
	}
	return c.send(ctx, &scheduler.Call{Type: scheduler.Call_KILL, Kill: kill})
}

// Message sends a framework message to an executor.
func (c *Conn) Message(ctx context.Context, m core.Message) error {
	return c.send(ctx, &scheduler.Call{Type: scheduler.Call_MESSAGE, Message: &scheduler.Call_Message{
		AgentID: mesos.AgentID{Value: m.AgentID}, ExecutorID: mesos.ExecutorID{Value: m.ExecutorID}, Data: m.Data,
	}})
}

// Reconcile asks for the state of tasks; none asks for all that the master knows.
func (c *Conn) Reconcile(ctx context.Context, r core.Reconcile) error {
	reconcile := &scheduler.Call_Reconcile{}
	for _, task := range slices.Sorted(maps.Keys(r.Tasks)) {
		reconcile.Tasks = append(reconcile.Tasks, scheduler.Call_Reconcile_Task{
			TaskID:  mesos.TaskID{Value: task},
			AgentID: agentID(r.Tasks[task]),
		})
	}
	return c.send(ctx, &scheduler.Call{Type: scheduler.Call_RECONCILE, Reconcile: reconcile})
}

func offerIDs(ids []string) []mesos.OfferID {
	out := make([]mesos.OfferID, len(ids))
	for i, id := range ids {
		out[i].Value = id
	}
	return out
}

func agentID(id string) *mesos.AgentID {
	if id == "" {
		return nil
	}
	return &mesos.AgentID{Value: id}
}

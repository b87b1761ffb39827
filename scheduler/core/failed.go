package core

import (
	"errors"
	"fmt"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// retry is an effect that failed and is tried again, should it still make sense by then.
type retry struct {
	at     time.Time
	effect Effect
}

func (c *Core) onCallFailed(ev CallFailed) {
	switch effect := ev.Effect.(type) {
	case Accept:
		c.acceptFailed(effect, ev.Err)
	case Decline:
		c.declineFailed(effect, ev.Err)
	case Reconcile:
		c.reconcileFailed(ev.Err)
	case Revive:
		for _, role := range effect.Roles {
			c.revive.of(role).long = true
		}
		c.note("", fmt.Sprintf("REVIVE failed, it is sent again: %v", ev.Err))
	case Suppress:
		for _, role := range effect.Roles {
			c.revive.of(role).suppressed = false
		}
		c.note("", fmt.Sprintf("SUPPRESS failed, offers come and are declined: %v", ev.Err))
	case LookUpLimits:
		c.limits.asked, c.limits.at = false, c.now.Add(limitsPause)
		c.note("", fmt.Sprintf("quotas are not known: %v", ev.Err))
	case LookUpAgent, Survey:
		c.retry(effect, ev.Err)
	case StoreFrameworkID:
		if hopeless(ev.Err) {
			c.do(Stop{Err: ev.Err, Why: "nothing is launched before the framework id is stored"})
			return
		}
		c.retry(effect, ev.Err)
	case StoreNode:
		c.storeNodeFailed(effect, ev.Err)
	case FailPod, DeletePod:
		if errors.Is(ev.Err, errdefs.ErrConflict) {
			c.note("", "another pod has the name by now: "+ev.Err.Error())
			return
		}
		c.writeFailed(effect, ev.Err)
	case DeleteNode, TaintNode:
		c.writeFailed(effect, ev.Err)
	case Kill:
		c.note(effect.TaskID, fmt.Sprintf("KILL failed, it is repeated: %v", ev.Err))
	case Acknowledge:
		c.note(effect.TaskID, fmt.Sprintf("acknowledgement failed, Mesos sends the update again: %v", ev.Err))
	default:
		c.note("", fmt.Sprintf("%T failed: %v", ev.Effect, ev.Err))
	}
}

// acceptFailed fails the launches of an ACCEPT that Mesos did not take, and gives its offers back: they are still ours.
// When the outcome is not known the launches wait for a status, which is asked for, or for their deadline. The DECLINE does
// nothing to offers that were used after all, and its order keeps a belated ACCEPT from using them.
func (c *Core) acceptFailed(accept Accept, err error) {
	lost := errors.Is(err, errdefs.ErrLost)
	unknown := map[string]string{}
	failed := c.placeholdersFailed(accept, lost, unknown)
	for i := range accept.Tasks {
		id := accept.Tasks[i].TaskID.Value
		task := c.tasks.Get(id)
		if !task.Live() {
			continue
		}
		if lost {
			c.note(id, fmt.Sprintf("whether the launch reached Mesos is not known, asking for a status: %v", err))
			unknown[id] = accept.AgentID
			continue
		}
		failed = true
		delete(c.killing, id)
		if _, step := c.tasks.Apply(id, mesos.TASK_DROPPED); step != tasks.Take {
			continue
		}
		c.dirty[task.AgentID] = true
		if l := c.launches[task.UID]; l != nil && l.task == id {
			c.resolve(task.UID, fmt.Errorf("launch on node %s: %w", l.node, err), "Mesos did not take the launch")
		}
		if c.pods[task.UID] == nil {
			c.tasks.Drop(id)
		}
	}
	if !c.connected {
		return // The offers went with the connection, and the next one asks for all tasks.
	}
	if failed || lost {
		c.decline(accept.OfferIDs, shortRefusal, DeclinedFailed, "the ACCEPT on these offers failed")
	}
	if len(unknown) > 0 {
		c.do(Reconcile{Tasks: unknown, Why: "whether their launch reached Mesos is not known"})
	}
}

// declineFailed repeats a DECLINE that may not have reached the master, which would keep the offers for us for ever.
func (c *Core) declineFailed(decline Decline, err error) {
	if c.connected && (errors.Is(err, errdefs.ErrUnavailable) || errors.Is(err, errdefs.ErrLost)) {
		c.retry(decline, err)
		return
	}
	c.note("", fmt.Sprintf("DECLINE failed: %v", err))
}

// forgetDeclines drops the DECLINEs of offers that went with their connection.
func (c *Core) forgetDeclines() {
	c.again = slices.DeleteFunc(c.again, func(r retry) bool {
		_, is := r.effect.(Decline)
		return is
	})
}

// hopeless tells of an error that the same call will meet again until a person does something.
func hopeless(err error) bool {
	return errors.Is(err, errdefs.ErrConflict) || errors.Is(err, errdefs.ErrInvalid) || errors.Is(err, errdefs.ErrRefused)
}

// storeNodeFailed leaves an agent unused whose node the API server does not take. A conflict is somebody who wrote at the
// same time.
func (c *Core) storeNodeFailed(effect StoreNode, err error) {
	a := c.agents[c.nodes[effect.Node.Name]]
	if a == nil || errors.Is(err, errdefs.ErrConflict) || !hopeless(err) {
		c.retry(effect, err)
		return
	}
	c.refuse(a, fmt.Sprintf("agent %s is not used: %v", a.info.ID, err))
}

// writeFailed repeats a write that may succeed yet.
func (c *Core) writeFailed(effect Effect, err error) {
	switch {
	case errors.Is(err, errdefs.ErrNotFound):
		c.note("", "nothing is left to do: "+err.Error())
	case !errors.Is(err, errdefs.ErrConflict) && hopeless(err):
		c.note("", fmt.Sprintf("%T failed, and is not tried again: %v", effect, err))
	default:
		c.retry(effect, err)
	}
}

func (c *Core) retry(effect Effect, err error) {
	c.again = append(c.again, retry{at: c.now.Add(retryAfter), effect: effect})
	c.note("", fmt.Sprintf("%T failed and is tried again in %s: %v", effect, retryAfter, err))
}

// dueRetries repeats failed effects that still make sense.
func (c *Core) dueRetries() {
	kept := c.again[:0:0]
	for _, r := range c.again {
		switch {
		case c.now.Before(r.at):
			kept = append(kept, r)
		case c.sensible(r.effect):
			c.do(r.effect)
		}
	}
	c.again = kept
}

func (c *Core) sensible(effect Effect) bool {
	switch effect := effect.(type) {
	case Decline:
		return c.connected
	case StoreFrameworkID:
		return !c.idStored && effect.FrameworkID == c.frameworkID
	case LookUpAgent:
		a := c.agents[effect.AgentID]
		return a != nil && !a.found && a.refused == ""
	case StoreNode:
		id, known := c.nodes[effect.Node.Name]
		return known && effect.Node.Annotations[messages.AnnotationAgentID] == id && !c.agents[id].stored
	case Survey:
		return !c.survey.asked.IsZero()
	case TaintNode:
		a := c.agents[c.nodes[effect.Node]]
		if effect.Key == messages.TaintAgentDraining {
			return a != nil && a.stored && a.drainTainted == effect.On
		}
		return a != nil && a.stored && a.tainted == effect.On
	case DeleteNode:
		_, known := c.nodes[effect.Node]
		return !known
	case FailPod:
		pod := c.pods[effect.Pod.UID]
		return pod != nil && !tasks.Ended(pod) && pod.DeletionTimestamp == nil
	case DeletePod:
		return c.pods[effect.Pod.UID] != nil
	}
	return false
}

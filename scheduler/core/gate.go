package core

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/scheduler/tasks"
)

// gate is what kube-scheduler is told to hold back: every pod until the first reconciliation is over, and after that
// those whose earlier launch is not resolved.
type gate struct {
	shown   bool // that it is open was told
	held    map[types.UID]*hold
	touched map[types.UID]bool // pods whose hold may have changed in this Step
	// tellAt is when pods are told that the whole gate is closed, should it still be.
	tellAt time.Time
	told   map[types.UID]bool
}

// hold is one pod that is held back. tellAt is when the pod is told, zero once it was: most holds are over soon.
type hold struct {
	why    string
	tellAt time.Time
}

func newGate() gate {
	return gate{held: map[types.UID]*hold{}, touched: map[types.UID]bool{}, told: map[types.UID]bool{}}
}

// gateOpen: what runs is known, so nothing can be launched twice.
func (c *Core) gateOpen() bool { return c.podsSynced && c.reconciliation.over && c.survey.done }

// holdReason says why the pod must not be placed now; "" when it may.
func (c *Core) holdReason(uid types.UID) string {
	pod := c.pods[uid]
	if pod == nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || tasks.Ended(pod) {
		return ""
	}
	if l := c.launches[uid]; l != nil {
		if l.adopted {
			return "its launch by an earlier scheduler, task " + l.task + ", is not over"
		}
		return ""
	}
	if task := c.holder(uid); task != nil {
		return "task " + task.ID + " of an earlier attempt has not ended"
	}
	return ""
}

// showGate tells kube-scheduler of holds that began or ended.
func (c *Core) showGate() {
	g := &c.gate
	changed := map[types.UID]string{}
	for uid := range g.touched {
		why, old := c.holdReason(uid), g.held[uid]
		switch {
		case why == "" && old != nil:
			delete(g.held, uid)
			changed[uid] = ""
		case why != "" && (old == nil || old.why != why):
			g.held[uid] = &hold{why: why, tellAt: c.now.Add(tellAfter)}
			c.floors.held.lower(c.now.Add(tellAfter))
			changed[uid] = why
		}
	}
	clear(g.touched)
	open := c.gateOpen()
	if open == g.shown && len(changed) == 0 {
		return
	}
	g.shown = open
	if open {
		g.tellAt = time.Time{}
		clear(g.told)
	}
	c.do(GateChanged{Open: open, Held: changed})
}

// tellHeld says on pods that they are held, once each, when it takes long.
func (c *Core) tellHeld() {
	g := &c.gate
	for _, uid := range dueAbove(&c.floors.held, g.held, c.now, func(h *hold) time.Time { return h.tellAt }) {
		g.held[uid].tellAt = time.Time{}
		c.tellHold(c.pods[uid], g.held[uid].why)
	}
	if g.tellAt.IsZero() || c.now.Before(g.tellAt) || c.gateOpen() {
		return
	}
	g.tellAt = c.now.Add(tellAfter)
	why := c.closed()
	for _, uid := range sorted(c.pods) {
		pod := c.pods[uid]
		if !g.told[uid] && pod.Spec.NodeName == "" && slices.Contains(c.cfg.SchedulerNames, pod.Spec.SchedulerName) {
			g.told[uid] = true
			c.tellHold(pod, "the scheduler has started and "+why)
		}
	}
}

func (c *Core) tellHold(pod *corev1.Pod, why string) {
	if pod != nil {
		c.do(PodEvent{Pod: pod, Type: corev1.EventTypeWarning, Reason: "FailedScheduling", Note: fmt.Sprintf("held back: %s", why)})
	}
}

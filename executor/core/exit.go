package core

import (
	"fmt"
	"slices"
	"time"
)

// exit is the executor's own end.
type exit struct {
	// begun: launches are refused and every pod ends. done: Exit was said.
	begun, done bool
	code        int
	why         string
	// by is when the end is not put off any longer, zero for never.
	by time.Time
	// emptied: the kubelet was given an empty set.
	emptied bool
}

const (
	// exitReserve is what is left of the agent's grace for the process to end by itself.
	exitReserve = 2 * time.Second
	// podReserve is what is left, besides, between the end of the containers and the last acknowledgement.
	podReserve = 3 * time.Second
	// kubeletEndedCode is the exit code after the kubelet ended by itself (EX-129).
	kubeletEndedCode = 3
	// kubeletEndedWait bounds the wait for acknowledgements then.
	kubeletEndedWait = 5 * time.Second
)

// onShutdown ends every pod, reports each, and ends the executor when all is acknowledged or the grace is nearly over
// (EX-121 to EX-128). A second one is a no-op.
func (c *Core) onShutdown(now time.Time, ev Shutdown) {
	if c.exit.begun {
		c.note("", "shutdown asked again: "+ev.Why)
		return
	}
	c.begin(now, ev.Grace, ev.Why)
	c.exit.by = now.Add(max(ev.Grace-exitReserve, 0))
}

// endIdle ends an executor that has no work, at once, but for the word on its placeholder task.
func (c *Core) endIdle(now time.Time, why string) {
	c.begin(now, 0, why)
	c.exit.by = now
	if c.ledger.Open("") > 0 {
		c.exit.by = now.Add(kubeletEndedWait)
	}
}

// idleWhy is why an executor without work is to end now; empty while it is not.
func (c *Core) idleWhy(now time.Time) string {
	switch {
	case c.heldBy() != "":
		c.asked = false
		return ""
	case c.asked:
		return "the scheduler asked an idle executor to end"
	case c.drained && !c.leaving():
		return "the agent is drained"
	case c.watch.Due(now):
		return fmt.Sprintf("idle for %s", c.cfg.SuicideTimeout)
	}
	return ""
}

// begin starts the executor's end.
func (c *Core) begin(now time.Time, grace time.Duration, why string) {
	c.exit.begun, c.exit.why = true, why
	c.release("shutting down")
	most := max(grace-exitReserve-podReserve, time.Second)
	c.feed("shutting down: " + why)
	for _, t := range c.sorted() {
		p := c.podOf(t)
		switch {
		case !t.live():
		case t.placeholder():
			c.killPlaceholder(now, t, endShutdown, "shutting down: "+why)
			t.forceAt = time.Time{} // the executor's own end comes first
		case p == nil || !p.fed:
			e := endShutdown
			if t.state == Killing {
				e = t.ending
			}
			// A pod that gets bound all the same is left to the scheduler, which knows that this executor ends.
			t.unsure = false
			c.finishAs(now, t, e, "shutting down, no container was started")
		default:
			limit := min(gracePeriod(p.object), most)
			if t.state != Killing {
				c.beginKill(now, t, endShutdown, limit, "shutting down: "+why)
			}
			p.markDeleted(now, limit)
			t.forceAt = time.Time{} // the executor's own end comes first
		}
	}
	c.endPlaceholders(now)
}

// onKubeletEnded: nobody runs the pods any more (EX-129).
func (c *Core) onKubeletEnded(now time.Time, ev KubeletEnded) {
	why := fmt.Sprintf("the kubelet ended: %v", ev.Err)
	live := 0
	for _, t := range c.sorted() {
		if t.live() {
			live++
			t.unsure = false
			c.finishAs(now, t, endKubelet, why)
		}
	}
	c.kubeletReady = false
	clear(c.pods)
	clear(c.static.up)
	if c.exit.begun && live == 0 {
		c.note("", why+", while shutting down")
		return
	}
	c.exit.begun, c.exit.code, c.exit.why = true, kubeletEndedCode, why
	if by := now.Add(kubeletEndedWait); c.exit.by.IsZero() || by.Before(c.exit.by) {
		c.exit.by = by
	}
}

// leaving tells whether the kubelet has yet to complete the deletion of a pod on the API server.
func (c *Core) leaving() bool {
	return slices.ContainsFunc(c.fedPods(), func(p *pod) bool { return p.object.DeletionTimestamp != nil && !p.apiGone })
}

// endIfDue says Exit when nothing holds the executor any more: at the end of a shutdown, or of an idle executor's
// patience (EX-96, EX-97).
func (c *Core) endIfDue(now time.Time) {
	if !c.exit.begun {
		why := c.idleWhy(now)
		if why == "" {
			c.static.parked = ""
			return
		}
		if !c.park(now, why) {
			return
		}
		c.endIdle(now, why)
	}
	busy := c.liveTasks() != "" || len(c.fedPods()) > 0
	if !busy && !c.exit.emptied {
		c.exit.emptied = true
		c.feed("no pod is left")
	}
	switch {
	case !busy && c.ledger.Open("") == 0:
		c.exit.done = true
	case !c.exit.by.IsZero() && !now.Before(c.exit.by):
		c.exit.done = true
		c.feed("no time is left")
		for _, t := range c.sorted() {
			if t.live() {
				c.note(t.id, "containers still there at the end, left to the agent")
			}
		}
	}
}

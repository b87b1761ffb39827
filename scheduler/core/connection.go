package core

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// revive keeps the rate of REVIVE down.
type revive struct {
	// long: offers were declined with a long filter since the last REVIVE. used: an ACCEPT gave a remainder back.
	long, used bool
	last       time.Time
	at         time.Time // when a postponed REVIVE is due; zero for none
}

func (c *Core) onSubscribed(ev Subscribed) {
	if c.connected {
		c.onDisconnected() // The offers of the earlier stream are gone all the same.
	}
	c.connected = true
	c.survey.since = c.now
	if ev.FrameworkID != c.frameworkID {
		c.frameworkID, c.idStored = ev.FrameworkID, false
	}
	if !c.idStored {
		c.do(StoreFrameworkID{FrameworkID: ev.FrameworkID, Why: "subscribed; nothing is accepted before the id is stored"})
	}
	// A new subscription starts without filters and without offers.
	c.revive.long, c.revive.used = false, false
	c.reconcile("subscribed")
	c.askSurvey("subscribed")
	c.touchAll()
}

func (c *Core) onFrameworkIDStored(ev FrameworkIDStored) {
	if ev.FrameworkID != c.frameworkID {
		c.note("", fmt.Sprintf("framework id %s is stored, but the master knows %s", ev.FrameworkID, c.frameworkID))
		return
	}
	c.idStored = true
	c.touchAll()
}

// onDisconnected forgets all offers. Launches that were sent go on; those that were not fail at once.
func (c *Core) onDisconnected() {
	c.connected = false
	c.pool.Clear()
	c.forgetDeclines()
	c.revive.at = time.Time{}
	c.gateBy = time.Time{}
	err := fmt.Errorf("the connection to the Mesos master was lost before the launch: %w", errdefs.ErrUnavailable)
	for _, uid := range sorted(c.launches) {
		if c.launches[uid].task == "" {
			c.resolve(uid, err, "disconnected before the launch was sent")
		}
	}
	c.touchAll()
}

// reconcile asks for the state of all live tasks, and for tasks that only Mesos knows. The first round is the gate.
func (c *Core) reconcile(why string) {
	if !c.connected || !c.podsSynced {
		return
	}
	c.do(Reconcile{Tasks: map[string]string{}, Why: why + ": tasks that only Mesos knows"})
	live := map[string]string{}
	for _, task := range c.tasks.Live(nil) {
		live[task.ID] = task.AgentID
	}
	if len(live) > 0 {
		c.do(Reconcile{Tasks: live, Why: why + ": tasks that pods name"})
	}
	if c.reconciled {
		return
	}
	for id := range live {
		c.awaiting[id] = true
	}
	c.gateBy = c.now.Add(reconcileRound)
}

// closeReconciliation ends the first round when all is answered, or when its time is over.
func (c *Core) closeReconciliation() {
	if c.gateBy.IsZero() {
		return
	}
	if len(c.awaiting) > 0 && c.now.Before(c.gateBy) {
		return
	}
	if n := len(c.awaiting); n > 0 {
		c.note("", fmt.Sprintf("reconciliation: %d tasks are not answered for within %s, going on", n, reconcileRound))
	}
	c.gateBy, c.reconciled = time.Time{}, true
	clear(c.awaiting)
	c.touchAll()
}

func (c *Core) onWaiting(ev Waiting) {
	if ev.Pod.Spec.NodeName == "" && ev.Pod.DeletionTimestamp == nil && c.launches[ev.Pod.UID] == nil {
		c.waiting[ev.Pod.UID] = true
	}
}

// starved tells that some batch waits for offers.
func (c *Core) starved() bool {
	for _, b := range c.batches {
		if b.starved {
			return true
		}
	}
	return false
}

// considerRevive clears the filters if pods wait and something was given back since the last time.
func (c *Core) considerRevive() {
	r := &c.revive
	r.at = time.Time{}
	if !c.open() || !r.long && !r.used || !c.wanting() {
		return
	}
	gap, why := reviveGap, "pods wait, and offers were declined for long"
	if r.used {
		gap = min(leastGap+time.Duration(len(c.agents))*gapPerAgent, mostGap)
		why = "pods wait, and a launch left a remainder"
	}
	if at := r.last.Add(gap); !r.last.IsZero() && c.now.Before(at) {
		r.at = at
		return
	}
	r.last, r.long, r.used = c.now, false, false
	c.do(Revive{Why: why})
}

// due are the keys, in order, of what has come by now; a zero time never comes. Most steps find nothing, so nothing is
// sorted before something is found.
func due[K ~string, V any](m map[K]V, now time.Time, at func(V) time.Time) []K {
	var keys []K
	for key, v := range m {
		if t := at(v); !t.IsZero() && !now.Before(t) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// sorted are the keys of a map in order, so that equal events give equal effects.
func sorted[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

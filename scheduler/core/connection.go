package core

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
)

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
	clear(c.revive.roles)
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
	c.reconciliation.by, c.reconciliation.again = time.Time{}, time.Time{}
	err := fmt.Errorf("the connection to the Mesos master was lost before the launch: %w", errdefs.ErrUnavailable)
	for _, uid := range sorted(c.launches) {
		if c.launches[uid].task == "" {
			c.resolve(uid, err, "disconnected before the launch was sent")
		}
	}
	c.touchAll()
}

// reconciliation is the comparison of our tasks with those that Mesos knows. Its first round is part of the gate.
type reconciliation struct {
	over     bool
	awaiting map[string]bool // tasks whose answer the first round waits for
	marker   string          // the made-up one among them
	rounds   int
	by       time.Time // the round ends at this time; zero while none runs
	again    time.Time // a round that failed is repeated at this time; zero for none
}

// markerPrefix begins ids of tasks that never were, on an agent that never was: Mesos always answers for those.
const markerPrefix, markerAgent = "mesopod-reconciliation-", "mesopod-no-agent"

// reconcile asks for the state of all live tasks, and for tasks that only Mesos knows. The first round is the gate: it
// asks for a made-up task last, whose answer tells that those for tasks which only Mesos knows have all come before.
func (c *Core) reconcile(why string) {
	r := &c.reconciliation
	r.again = time.Time{}
	if !c.connected || !c.podsSynced {
		return
	}
	c.do(Reconcile{Tasks: map[string]string{}, Why: why + ": tasks that only Mesos knows"})
	named := map[string]string{}
	clear(r.awaiting)
	for _, task := range c.tasks.Live(nil) {
		named[task.ID] = task.AgentID
	}
	for id, all := range c.placeholders {
		for _, p := range all {
			named[p.id] = id
		}
	}
	if !r.over {
		r.rounds++
		r.marker = fmt.Sprint(markerPrefix, r.rounds)
		named[r.marker] = markerAgent
		for id := range named {
			r.awaiting[id] = true
		}
		r.by = c.now.Add(reconcileRound)
	}
	if len(named) > 0 {
		c.do(Reconcile{Tasks: named, Why: why + ": tasks that pods name"})
	}
}

// reconcileFailed lets the round start anew: what it has heard so far is not all.
func (c *Core) reconcileFailed(err error) {
	if !c.connected {
		c.note("", fmt.Sprintf("RECONCILE failed, the next connection asks anew: %v", err))
		return
	}
	r := &c.reconciliation
	clear(r.awaiting)
	r.by, r.again = time.Time{}, c.now.Add(retryAfter)
	c.note("", fmt.Sprintf("RECONCILE failed, all is asked for again in %s: %v", retryAfter, err))
}

// dueReconciliation repeats a round that failed, and ends the first one when all is answered or its time is over.
func (c *Core) dueReconciliation() {
	r := &c.reconciliation
	if !r.again.IsZero() && !c.now.Before(r.again) {
		c.reconcile("RECONCILE failed before")
	}
	if r.by.IsZero() || len(r.awaiting) > 0 && c.now.Before(r.by) {
		return
	}
	if len(r.awaiting) > 0 {
		unanswered := len(r.awaiting)
		if r.awaiting[r.marker] {
			unanswered--
		}
		c.note("", fmt.Sprintf("reconciliation: %d tasks are not answered for within %s, going on", unanswered, reconcileRound))
	}
	r.by, r.over = time.Time{}, true
	clear(r.awaiting)
	c.touchAll()
}

// floor is a time before which nothing of a table comes, so that most steps need not look at the table. It is lowered with each time
// that is entered there and may be too early, never too late; zero: nothing ever comes.
type floor struct{ at time.Time }

func (f *floor) lower(t time.Time) {
	if !t.IsZero() && (f.at.IsZero() || t.Before(f.at)) {
		f.at = t
	}
}

// dueAbove is due for a table with a floor, which it raises as far as what has not come lets it. What is due and stays in the
// table needs its time entered anew.
func dueAbove[K ~string, V any](f *floor, m map[K]V, now time.Time, at func(V) time.Time) []K {
	if f.at.IsZero() || now.Before(f.at) {
		return nil
	}
	f.at = time.Time{}
	for _, v := range m {
		if t := at(v); now.Before(t) {
			f.lower(t)
		}
	}
	return due(m, now, at)
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

package core_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// TestLaws lets random events happen, in any order and sensible or not, and holds the effects to the laws of the flow:
// every offer ends once, or again after a DECLINE that failed, and is used on its own agent and in its own role only; what is placed is no more than what was offered; nothing is
// accepted before the framework id is stored and the pods are known; a task id is launched once; a pod has one
// live task at most, and an agent one placeholder of a kind; every Bind and Reserve is answered once; updates are acknowledged only with a uuid, after everything else about them; a deadline that has
// passed does not stay; no order of events panics.
func TestLaws(t *testing.T) {
	accepts := 0
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			w := newWorld(t, rand.New(rand.NewPCG(seed, 7)))
			for range 500 {
				w.step(w.next())
				if t.Failed() {
					return
				}
			}
			w.settle()
			accepts += w.accepts
		})
	}
	if accepts < 1000 {
		t.Errorf("%d ACCEPTs in all: too few to prove anything", accepts)
	}
}

// step lets one event happen and checks what comes of it.
func (w *world) step(ev core.Event) {
	switch ev := ev.(type) {
	case core.Subscribed, core.Disconnected:
		clear(w.held) // Lost with the connection.
		clear(w.back)
		w.declined = nil
	case core.FrameworkIDStored:
		w.idStored = true
	case core.PodsSynced:
		w.synced = true
	case core.Bind:
		w.binds[ev.Request] = true
	case core.Rescinded:
		delete(w.held, ev.OfferID)
	case core.Surveyed:
		for id, agent := range w.running {
			if _, registered := ev.Registered[w.launched[id]]; !registered && agent != nil {
				w.over(id)
			}
		}
		w.surveyed = true
	case core.StatusUpdate:
		w.heard(ev.Status)
	case core.CallFailed:
		if decline, is := ev.Effect.(core.Decline); is && w.core.Snapshot().Connected && !errors.Is(ev.Err, errdefs.ErrRefused) {
			for _, id := range decline.OfferIDs {
				w.back[id] = true
			}
		}
		if accept, is := ev.Effect.(core.Accept); is && !errors.Is(ev.Err, errdefs.ErrLost) {
			for _, task := range accept.Tasks {
				w.over(task.TaskID.Value)
			}
		}
	case core.AgentRemoved:
		for id, agent := range w.launched {
			if agent == ev.AgentID {
				w.over(id)
			}
		}
		maps.DeleteFunc(w.held, func(_ string, o mesos.Offer) bool { return o.AgentID.Value == ev.AgentID })
	case core.Offers:
		for _, o := range ev.Offers {
			w.held[o.ID.Value] = o
		}
	}
	effects := w.core.Step(w.now, ev)
	for i, effect := range effects {
		w.check(ev, effect, effects[i+1:])
		w.react(effect)
	}
	if next, waits := w.core.NextDeadline(); waits && !next.After(w.now) {
		w.t.Errorf("after %T a deadline of the past stays", ev)
	}
	if late := w.core.LateFloor(); late != "" {
		w.t.Errorf("after %T something of %s would come too late", ev, late)
	}
}

func (w *world) check(ev core.Event, effect core.Effect, rest []core.Effect) {
	switch e := effect.(type) {
	case core.Accept:
		w.accept(e)
		w.effects = append(w.effects, e)
	case core.Decline:
		for _, id := range e.OfferIDs {
			if _, open := w.held[id]; !open && !w.failedAccept(ev, id) && !w.back[id] {
				w.offerGone(id)
			}
			delete(w.held, id)
			delete(w.back, id)
		}
		w.declined = &e
	case core.BindDone:
		w.answer(w.binds, e.Request)
		if e.Why == "" {
			w.t.Errorf("bind-done without a why")
		}
	case core.ReserveDone:
		w.answer(w.reserves, e.Request)
	case core.Acknowledge:
		status, is := ev.(core.StatusUpdate)
		if !is || len(status.Status.UUID) == 0 {
			w.t.Errorf("acknowledgement of nothing after %T", ev)
		}
		for _, later := range rest {
			if done, is := later.(core.BindDone); is && strings.HasPrefix(done.Why, "the task ended") {
				w.t.Errorf("the update is applied after its acknowledgement")
			}
		}
	case core.PoolChanged:
		for node, view := range e.Views {
			if view != nil && (view.Node != node || !w.idStored || !w.synced || !w.surveyed) {
				w.t.Errorf("view of %s is published as %+v", node, view)
			}
		}
	case core.Kill:
		if life := w.running[e.TaskID]; life != nil {
			life.killed = true
		}
		w.effects = append(w.effects, e)
	case core.Survey, core.TaintNode, core.LookUpAgent, core.LookUpLimits, core.StoreNode, core.DeleteNode, core.FailPod, core.DeletePod, core.StoreFrameworkID, core.Revive, core.Suppress:
		w.effects = append(w.effects, e)
	}
}

func (w *world) failedAccept(ev core.Event, offerID string) bool {
	failed, is := ev.(core.CallFailed)
	if !is {
		return false
	}
	accept, is := failed.Effect.(core.Accept)
	return is && slices.Contains(accept.OfferIDs, offerID)
}

func (w *world) offerGone(id string) { w.t.Errorf("offer %s ends twice, or was never made", id) }

func (w *world) answer(open map[uint64]bool, request uint64) {
	if !open[request] {
		w.t.Errorf("request %d is answered twice", request)
	}
	delete(open, request)
}

// accept checks that what is placed was offered.
func (w *world) accept(e core.Accept) {
	if !w.idStored || !w.synced || !w.surveyed {
		w.t.Errorf("ACCEPT before the framework id is stored, the pods are known and the executors surveyed")
	}
	left := map[string]float64{} // by name and reservations
	ports := map[uint64]int{}
	for _, id := range e.OfferIDs {
		o, open := w.held[id]
		if !open {
			w.offerGone(id)
		}
		delete(w.held, id)
		if o.AgentID.Value != e.AgentID || o.AllocationInfo.GetRole() != e.Role {
			w.t.Errorf("offer of agent %s in role %s is used on %s in role %s", o.AgentID.Value, o.AllocationInfo.GetRole(), e.AgentID, e.Role)
		}
		w.count(left, ports, o.Resources, 1)
	}
	w.accepts++
	if len(e.Tasks) == 0 {
		w.t.Errorf("ACCEPT without tasks")
	}
	for _, task := range e.Tasks {
		uid, _, _ := messages.ParseTaskID(task.TaskID.Value)
		if w.launched[task.TaskID.Value] != "" && w.pods[uid] != nil {
			w.t.Errorf("task %s is launched twice", task.TaskID.Value)
		}
		w.launched[task.TaskID.Value] = e.AgentID
		key, placeholder := messages.ParsePlaceholderID(task.TaskID.Value)
		for id, other := range w.running {
			if other, is := messages.ParsePlaceholderID(id); placeholder && is && other == key && w.launched[id] == e.AgentID && !w.running[id].killed {
				w.t.Errorf("placeholder %s is launched beside %s", task.TaskID.Value, id)
			}
			if of, _, _ := messages.ParseTaskID(id); of == uid && !placeholder && !(other.killed && other.away) {
				w.t.Errorf("task %s is launched beside %s", task.TaskID.Value, id)
			}
		}
		w.running[task.TaskID.Value] = &life{}
		for _, r := range task.Resources {
			if r.AllocationInfo.GetRole() != e.Role {
				w.t.Errorf("%s of task %s is allocated to role %s, the ACCEPT is of role %s", r.Name, task.TaskID.Value, r.AllocationInfo.GetRole(), e.Role)
			}
		}
		w.count(left, ports, task.Resources, -1)
	}
	for kind, amount := range left {
		if amount < -1e-9 {
			w.t.Errorf("more of %s is placed than offered: %g too much", kind, -amount)
		}
	}
	for port, n := range ports {
		if n < 0 {
			w.t.Errorf("port %d is placed, but not offered", port)
		}
	}
}

// count adds resources to scalars, by name and reservations, and to ports.
func (w *world) count(scalars map[string]float64, ports map[uint64]int, resources []mesos.Resource, sign int) {
	for _, r := range resources {
		kind := r.Name
		for _, reservation := range r.Reservations {
			kind += "[" + reservation.GetRole() + "]"
		}
		if r.Scalar != nil {
			scalars[kind] += float64(sign) * r.Scalar.Value
		}
		for _, rng := range r.GetRanges().GetRange() {
			for port := rng.Begin; port <= rng.End; port++ {
				if ports[port] += sign; sign > 0 {
					ports[port] = 1 // offers of an agent may overlap in a random world
				}
			}
		}
	}
}

// life is a launched task that has not ended, as the core can know.
type life struct{ killed, away bool }

func (w *world) over(taskID string) { delete(w.running, taskID) }

func (w *world) heard(status mesos.TaskStatus) {
	id, state := status.TaskID.Value, status.GetState()
	l := w.running[id]
	if l == nil || !w.synced {
		return
	}
	switch kind := tasks.KindOf(state); {
	case tasks.Terminal(state):
		w.over(id)
	case state == mesos.TASK_UNKNOWN && isPlaceholder(id):
		w.over(id)
	case kind != tasks.Unheard:
		l.away = kind == tasks.Away
	}
}

func isPlaceholder(id string) bool { _, is := messages.ParsePlaceholderID(id); return is }

// settle lets all time pass: every Bind is answered in the end.
func (w *world) settle() {
	w.now = w.now.Add(10 * time.Second)
	w.step(core.Tick{})
	if len(w.back) > 0 {
		w.t.Errorf("offers whose DECLINE failed are not declined again: %v", slices.Sorted(maps.Keys(w.back)))
	}
	w.step(core.Disconnected{})
	for range 10_000 {
		next, waits := w.core.NextDeadline()
		if !waits {
			break
		}
		w.now = next
		w.step(core.Tick{})
	}
	if len(w.binds) > 0 || len(w.reserves) > 0 {
		w.t.Errorf("%d binds and %d reserves are never answered", len(w.binds), len(w.reserves))
	}
}

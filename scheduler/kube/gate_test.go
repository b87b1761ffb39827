package kube

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
)

// Pods wait at the gate though there is room; it opens for all but those that are held, and for these later.
func TestGate(t *testing.T) {
	h := newHarness(t, newNode("a1"))
	h.Deliver(core.GateChanged{Open: false, Held: map[types.UID]string{"uid-held": "an earlier launch is not over"}})
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 4000)}})
	h.run(t)
	for _, name := range []string{"free", "held"} {
		pod := newPod(name, "mesos", "1")
		pod.UID = types.UID("uid-" + name)
		h.create(t, pod)
	}
	h.awaitStopped(t, 2)
	select {
	case e := <-h.events:
		t.Fatalf("got %T through a closed gate", e)
	default:
	}
	h.Deliver(core.GateChanged{Open: true})
	reserve := await[core.Reserve](t, h)
	if reserve.Pod.Name != "free" {
		t.Fatalf("got %s through the gate", reserve.Pod.Name)
	}
	h.Deliver(core.ReserveDone{Request: reserve.Request})
	await[core.Bind](t, h)
	select {
	case e := <-h.events:
		t.Fatalf("got %T of a pod that is held", e)
	default:
	}
	h.Deliver(core.GateChanged{Open: true, Held: map[types.UID]string{"uid-held": ""}})
	if reserve := await[core.Reserve](t, h); reserve.Pod.Name != "held" {
		t.Fatalf("got %s", reserve.Pod.Name)
	}
}

func (h *harness) awaitStopped(t *testing.T, n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); ; {
		h.gate.mu.Lock()
		have := len(h.gate.stopped)
		h.gate.mu.Unlock()
		if have == n {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d pods at the gate, want %d", have, n)
		}
	}
}

// What the gate remembers goes with what it let through.
func TestGateForgets(t *testing.T) {
	g := newGate()
	for i := range 10 {
		pod := &corev1.Pod{}
		pod.Name, pod.UID = fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i))
		if g.stop(pod) == "" {
			t.Fatal("a closed gate lets a pod pass")
		}
	}
	if got := g.change(true, map[types.UID]string{"u3": "why"}); len(got) != 9 {
		t.Errorf("%d pods are let go, want 9", len(got))
	}
	if got := g.change(true, map[types.UID]string{"u3": ""}); len(got) != 1 || len(g.stopped)+len(g.held) != 0 {
		t.Errorf("%d pods are let go, %d are remembered", len(got), len(g.stopped)+len(g.held))
	}
}

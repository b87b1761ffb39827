package kube

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
)

// plan asks until the nodes are known.
func plan(t *testing.T, h *harness, pod *corev1.Pod, nodes int, expected map[string]*offers.View) Plan {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		p, err := h.Plan(t.Context(), pod, expected)
		if err != nil && !errors.Is(err, errdefs.ErrUnavailable) {
			t.Fatal(err)
		}
		if err == nil && len(p.Nodes) == nodes {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, %v", p, err)
		}
	}
}

// A plan tells of each node by the filters that a scheduling cycle has, counts what is to be expected of nodes without an offer,
// and changes nothing: nothing is asked of the core, and the pod may be planned again and again.
func TestPlan(t *testing.T) {
	tainted := newNode("a4", corev1.Taint{Key: "ours", Effect: corev1.TaintEffectNoSchedule})
	h := newHarness(t, newNode("a1"), newNode("a2"), newNode("a3"), tainted, newNode("a5"))
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 4000), "a2": view("a2", 500), "a4": view("a4", 4000)}})
	h.run(t)
	pod := newPod("p", "mesos", "1")
	expected := map[string]*offers.View{"a3": view("a3", 4000)}
	for range 2 {
		want := Plan{Nodes: []Verdict{{"a1", ""}, {"a2", "too few cpus on offer"}, {"a3", ""}, {"a4", "node(s) had untolerated taint(s)"}, {"a5", "no offer from the agent"}}}
		if diff := cmp.Diff(want, plan(t, h, pod, 5, expected)); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
	}

	giant := newPod("giant", "other", "64")
	const all = "0/5 nodes are available: 4 too few cpus on offer, 1 no offer from the agent."
	if p := plan(t, h, giant, 5, expected); p.Sentence != all || p.Held != "" {
		t.Errorf("got %+v, want the sentence %q", p, all)
	}
	picky := newPod("picky", "mesos", "1")
	picky.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "a3"}
	gated := picky.DeepCopy()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	p := plan(t, h, gated, 5, expected)
	if p.Nodes[2].Why != "" || p.Nodes[0].Why != "node(s) didn't match Pod's node affinity/selector" || p.Held != "spec.schedulingGates holds it, the first is example.com/later" {
		t.Errorf("with a selector and a gate: %+v", p)
	}
	assigned := newPod("assigned", "mesos", "1")
	assigned.Spec.NodeName = "a2"
	if p := plan(t, h, assigned, 5, expected); p.Nodes[0].Why != "spec.nodeName names another node" || p.Nodes[1].Why != "too few cpus on offer" {
		t.Errorf("with a node: %+v", p)
	}
	if _, err := h.Plan(t.Context(), newPod("foreign", "default-scheduler", "1"), nil); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("a pod of another scheduler: %v", err)
	}
	select {
	case e := <-h.events:
		t.Errorf("the core was told %T", e)
	default:
	}

	// kube-scheduler goes on as if nothing had been.
	h.create(t, pod)
	r := await[core.Reserve](t, h)
	if r.Node != "a1" {
		t.Errorf("the pod is placed on %s, a1 alone has an offer", r.Node)
	}
	h.Deliver(core.ReserveDone{Request: r.Request})
	h.Deliver(core.GateChanged{Open: true, Held: map[types.UID]string{"uid-1": "an earlier task has not ended"}})
	if p := plan(t, h, pod, 5, expected); p.Held != "an earlier task has not ended" {
		t.Errorf("held: %+v", p)
	}
	b := await[core.Bind](t, h)
	h.Deliver(core.BindDone{Request: b.Request})
}

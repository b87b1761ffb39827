package kube

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
)

// ranked is a pod that runs on a1, or waits (node ""), with a priority and its own UID.
func ranked(name, scheduler, cpu, node string, priority int32) *corev1.Pod {
	pod := newPod(name, scheduler, cpu)
	pod.UID, pod.Spec.NodeName, pod.Spec.Priority = types.UID("uid-"+name), node, &priority
	if node != "" {
		pod.Status.Phase = corev1.PodRunning
		now := metav1.Now()
		pod.Status.StartTime = &now
		if scheduler == "mesos" {
			pod.Annotations = map[string]string{messages.AnnotationTaskID: string(pod.UID) + ".1"}
		}
	}
	return pod
}

// A full agent makes no offer. With preemption on, a more important pod evicts pods of ours there, the least important
// first and no more than needed; pods of other schedulers are spared.
func TestPreemption(t *testing.T) {
	h := newHarness(t, newNode("a1"))
	h.cfg.Preemption = true
	p, err := newProfile("mesos", true)
	if err != nil {
		t.Fatal(err)
	}
	h.profiles = h.profiles[:1]
	h.profiles[0] = p
	for _, pod := range []*corev1.Pod{
		ranked("foreign", "default-scheduler", "1", "a1", 0), ranked("low", "mesos", "2", "a1", 1), ranked("middle", "mesos", "1", "a1", 2),
	} {
		h.create(t, pod)
	}
	watcher, err := h.client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	h.run(t)
	h.create(t, ranked("high", "mesos", "2", "", 100))
	deleted := ""
	for deleted == "" {
		select {
		case e := <-watcher.ResultChan():
			if e.Type == watch.Deleted {
				deleted = e.Object.(*corev1.Pod).Name
			}
		case e := <-h.events:
			t.Logf("core: %T", e)
		}
	}
	if deleted != "low" {
		t.Fatalf("%s was evicted, want low", deleted)
	}
	// What it leaves is offered, and the pod is placed.
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 2000)}})
	if reserve := await[core.Reserve](t, h); reserve.Pod.Name != "high" {
		t.Fatalf("got %s", reserve.Pod.Name)
	}
	for _, name := range []string{"foreign", "middle"} {
		if _, err := h.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What an evicted pod leaves belongs to the pod that evicted it, also while Mesos has not offered it yet and that pod is tried in
// vain: a less important one that comes then does not get it.
func TestVictimsRoomIsKept(t *testing.T) {
	h := newHarness(t, newNode("a1"))
	h.cfg.Preemption = true
	p, err := newProfile("mesos", true)
	if err != nil {
		t.Fatal(err)
	}
	h.profiles = h.profiles[:1]
	h.profiles[0] = p
	h.create(t, ranked("low", "mesos", "3", "a1", 1))
	h.run(t)
	high := ranked("high", "mesos", "3", "", 100)
	h.create(t, high)
	// Tried again once its victim is gone, and no offer there: this is the news of it.
	for tried := false; !tried; {
		await[core.Waiting](t, h)
		_, err := h.client.CoreV1().Pods("default").Get(t.Context(), "low", metav1.GetOptions{})
		tried = apierrors.IsNotFound(err)
		if err != nil && !tried {
			t.Fatal(err)
		}
	}
	middle := ranked("middle", "mesos", "3", "", 50)
	h.create(t, middle)
	for await[core.Waiting](t, h).Pod.Name != "middle" {
	}
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 3000)}})
	if reserve := await[core.Reserve](t, h); reserve.Pod.Name != "high" {
		t.Fatalf("%s got what high had evicted a pod for", reserve.Pod.Name)
	}
}

// A claim on what victims left has an end, and the next eviction begins another.
func TestClaims(t *testing.T) {
	c, start := claims{pods: map[types.UID]claim{}}, time.Unix(0, 0)
	want := func(node string, held bool, at time.Time) {
		t.Helper()
		if got, holds := c.waits("a", at); got != node || holds != held {
			t.Errorf("after %s: node %q, %t; want %q, %t", at.Sub(start), got, holds, node, held)
		}
	}
	want("", false, start)
	c.make("a", "a1", start)
	want("a1", true, start.Add(time.Minute)) // victims may take long to end
	want("a1", true, start.Add(time.Minute+offerPatience))
	want("a1", false, start.Add(time.Minute+offerPatience+1))
	c.make("a", "a2", start.Add(time.Hour))
	want("a2", true, start.Add(time.Hour))
	if c.make("b", "a1", start.Add(3*time.Hour)); len(c.pods) != 1 {
		t.Errorf("%d pods are remembered, want the one that evicts still", len(c.pods))
	}
}

// An agent with room whose offer is away is no ground to evict anybody, nor is one that is full of others' pods; and with
// preemption off nobody is evicted at all.
func TestNoPreemption(t *testing.T) {
	for _, tc := range []struct {
		name string
		on   bool
		runs []*corev1.Pod
	}{
		{"off", false, []*corev1.Pod{ranked("low", "mesos", "4", "a1", 0)}},
		{"offer is away", true, []*corev1.Pod{ranked("low", "mesos", "1", "a1", 0)}},
		{"others' pods", true, []*corev1.Pod{ranked("foreign", "default-scheduler", "4", "a1", 0)}},
		{"no task", true, []*corev1.Pod{func() *corev1.Pod {
			pod := ranked("preset", "mesos", "4", "a1", 0)
			pod.Annotations = nil
			return pod
		}()}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t, newNode("a1"))
			h.cfg.Preemption = tc.on
			p, err := newProfile("mesos", tc.on)
			if err != nil {
				t.Fatal(err)
			}
			h.profiles = h.profiles[:1]
			h.profiles[0] = p
			for _, pod := range tc.runs {
				h.create(t, pod)
			}
			h.run(t)
			h.create(t, ranked("high", "mesos", "2", "", 100))
			await[core.Waiting](t, h)
			// The next cycle comes after what the first one began.
			h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 2000)}})
			if tc.name == "offer is away" {
				await[core.Reserve](t, h)
			}
			for _, pod := range tc.runs {
				if _, err := h.client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
					t.Errorf("%s was evicted: %v", pod.Name, err)
				}
			}
		})
	}
}

// What is played on a copy of the state does not show in the original, and a pod that comes back is no move.
func TestCycleClone(t *testing.T) {
	h := newHarness(t)
	p := offersPlugin{s: h.Scheduler}
	state := framework.NewCycleState()
	preemptor := ranked("high", "mesos", "3", "", 100)
	if _, status := p.PreFilter(t.Context(), state, preemptor, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	node := framework.NewNodeInfo()
	node.SetNode(newNode("a1"))
	victim, err := framework.NewPodInfo(ranked("low", "mesos", "2", "a1", 0))
	if err != nil {
		t.Fatal(err)
	}
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 1000)}})
	fits := func(s fwk.CycleState) bool { return p.Filter(context.Background(), s, preemptor, node).IsSuccess() }
	copied := state.Clone()
	if status := p.PreFilterExtensions().RemovePod(t.Context(), copied, preemptor, victim, node); !status.IsSuccess() {
		t.Fatal(status)
	}
	if !fits(copied) || fits(state) {
		t.Errorf("with the victim away the pod fits: %t, want true; in the original: %t, want false", fits(copied), fits(state))
	}
	again := copied.Clone()
	if status := p.AddPod(t.Context(), again, preemptor, victim, node); !status.IsSuccess() {
		t.Fatal(status)
	}
	if fits(again) || !fits(copied) {
		t.Errorf("with the victim back the pod fits: %t, want false; in the copy before: %t, want true", fits(again), fits(copied))
	}
}

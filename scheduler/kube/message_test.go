package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// One sentence with counts, the same in the condition, in the event and in what the core is told.
func TestMessage(t *testing.T) {
	h := newHarness(t, newNode("a1"), newNode("a2"), newNode("a3"))
	little := func(node string) *offers.View {
		v := view(node, 4000)
		v.Roles[0].Free.MemMB = 10
		return v
	}
	taken := view("a3", 4000)
	taken.Roles[0].Ports = offers.Ports{{Begin: 31000, End: 32000}}
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": little("a1"), "a2": little("a2"), "a3": taken}})
	h.run(t)
	pod := newPod("p", "mesos", "1")
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 8080, ContainerPort: 80}}
	h.create(t, pod)
	const want = "0/3 nodes are available: 2 too little memory on offer, 1 host port 8080 is taken or not on offer."
	if w := await[core.Waiting](t, h); w.Why != want {
		t.Errorf("the core is told %q, want %q", w.Why, want)
	}
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		events, err := h.client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(events.Items) > 0 && len(got.Status.Conditions) > 0 {
			if note := events.Items[0].Note; note != want {
				t.Errorf("event says %q, want %q", note, want)
			}
			if message := got.Status.Conditions[0].Message; message != want {
				t.Errorf("condition says %q, want %q", message, want)
			}
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("no event or no condition")
		}
	}
}

func TestSentence(t *testing.T) {
	pod := newPod("p", "mesos", "1")
	if got := sentence(pod, map[string]int{procure.PortTaken: 2, "b": 2, "a": 3}); got != "3 a, 2 a host port is not on offer, 2 b" {
		t.Errorf("got %q", got)
	}
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 8080}, {HostPort: 80}}
	if got := sentence(pod, map[string]int{procure.PortTaken: 1}); got != "1 one of the host ports 80, 8080 is taken or not on offer" {
		t.Errorf("got %q", got)
	}
	many := map[string]int{}
	for i := range 100 {
		many[fmt.Sprintf("%s%02d", strings.Repeat("reason ", 10), i)] = 1
	}
	if got := sentence(pod, many); len(got) > 1000 || !strings.HasSuffix(got, ", and 92 more reasons") {
		t.Errorf("got %d bytes: %q", len(got), got)
	}
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

func sized(name, cpu string, labels map[string]string, conditions ...corev1.NodeCondition) *corev1.Node {
	size := corev1.ResourceList{"cpu": resource.MustParse(cpu)}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size, Conditions: conditions}}
}

// An existing node gets our labels; those of people stay; its size is the kubelet's while one runs.
func TestStoreNode(t *testing.T) {
	const ours = messages.LabelAttributePrefix
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}
	asleep := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: reasonExecutorNotRunning}
	want := sized("a1", "4", map[string]string{ours + "rack": "r1", "kubernetes.io/os": "linux", "zone": "z1"})
	want.Annotations = map[string]string{messages.AnnotationAgentID: "A1"}
	for _, tc := range []struct {
		name   string
		have   *corev1.Node
		cpu    string
		labels map[string]string
	}{
		{name: "new", cpu: "4", labels: want.Labels},
		{name: "kubelet runs", have: sized("a1", "2", map[string]string{ours + "rack": "old", ours + "gone": "x", "zone": "of a person", "team": "t"}, ready), cpu: "2",
			labels: map[string]string{ours + "rack": "r1", "kubernetes.io/os": "linux", "zone": "of a person", "team": "t"}},
		{name: "asleep", have: sized("a1", "2", nil, asleep), cpu: "4", labels: want.Labels},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := newAPIServer("37")
			if tc.have != nil {
				if _, err := client.CoreV1().Nodes().Create(t.Context(), tc.have, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			w := newWriter(client, nil)
			answer, err := w.write(t.Context(), core.StoreNode{Node: want})
			if diff := cmp.Diff(core.Event(core.NodeStored{Node: "a1", AgentID: "A1"}), answer); err != nil || diff != "" {
				t.Fatalf("got %v, %s", err, diff)
			}
			got, err := client.CoreV1().Nodes().Get(t.Context(), "a1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if cpu := got.Status.Capacity.Cpu().String(); cpu != tc.cpu {
				t.Errorf("got %s cpus, want %s", cpu, tc.cpu)
			}
			if diff := cmp.Diff(tc.labels, got.Labels); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A node that is deleted twice is gone; a pod that is not there cannot fail, and that comes back as an event.
func TestWriterAnswers(t *testing.T) {
	posted := make(chan core.Event, 4)
	w := newWriter(newAPIServer("37"), func(e core.Event) { posted <- e })
	if _, err := w.write(t.Context(), core.DeleteNode{Node: "a1"}); err != nil {
		t.Errorf("delete a node that is gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, writers)
	for i := range writers {
		go func() { done <- w.run(ctx, i) }()
	}
	effect := core.FailPod{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u"}}, Reason: "Lost"}
	w.push("u", effect)
	select {
	case e := <-posted:
		if failed, ok := e.(core.CallFailed); !ok || !errors.Is(failed.Err, errdefs.ErrNotFound) || !strings.Contains(failed.Err.Error(), "fail pod default/p") {
			t.Errorf("got %#v", e)
		}
	case <-time.After(patience):
		t.Error("no answer")
	}
	cancel()
	for range writers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestFailPod(t *testing.T) {
	client := newAPIServer("37")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u"}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := newWriter(client, nil).write(t.Context(), core.FailPod{Pod: pod, Reason: "TaskLost", Message: "m"}); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || got.Status.Phase != corev1.PodFailed || got.Status.Reason != "TaskLost" || got.Status.PodIP != "10.0.0.1" {
		t.Errorf("got %+v, %v", got.Status, err)
	}
	if c := got.Status.Conditions; len(c) != 1 || c[0].Type != messages.ConditionTask || c[0].Reason != "TaskLost" || c[0].Message != "m" {
		t.Errorf("got conditions %+v: the reason must stand where no kubelet writes", c)
	}
}

// The deletion of a pod whose kubelet is gone is ended at once, and only of that pod.
func TestDeletePod(t *testing.T) {
	client := newAPIServer("37")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u"}}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w := newWriter(client, nil)
	for range 2 { // gone the second time
		if _, err := w.write(t.Context(), core.DeletePod{Pod: pod}); err != nil {
			t.Fatal(err)
		}
	}
	var options metav1.DeleteOptions
	for _, action := range client.Actions() {
		if deletion, is := action.(ktesting.DeleteActionImpl); is {
			options = deletion.DeleteOptions
		}
	}
	if options.GracePeriodSeconds == nil || *options.GracePeriodSeconds != 0 || options.Preconditions == nil || *options.Preconditions.UID != "u" {
		t.Errorf("got options %+v", options)
	}
	if _, err := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want the pod gone", err)
	}
}

// Our taint comes and goes without touching those of others.
func TestTaintNode(t *testing.T) {
	client := newAPIServer("37")
	node := sized("a1", "1", nil)
	node.Spec.Taints = []corev1.Taint{{Key: "of-a-person", Effect: corev1.TaintEffectNoExecute}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w := newWriter(client, nil)
	for _, on := range []bool{true, true, false, false} {
		if _, err := w.write(t.Context(), core.TaintNode{Node: "a1", Key: messages.TaintAgentUnreachable, On: on}); err != nil {
			t.Fatal(err)
		}
		got, err := client.CoreV1().Nodes().Get(t.Context(), "a1", metav1.GetOptions{})
		if err != nil || hasTaint(got, messages.TaintAgentUnreachable) != on || !hasTaint(got, "of-a-person") {
			t.Errorf("on %t: got %v, %v", on, got.Spec.Taints, err)
		}
	}
	if _, err := w.write(t.Context(), core.TaintNode{Node: "gone", Key: messages.TaintAgentUnreachable, On: true}); !errors.Is(err, errdefs.ErrNotFound) {
		t.Errorf("a node that is gone: got %v", err)
	}
}

// EX-108: a conflict on the node is met by reading it anew; one that stays comes back as an error, which nobody dies of.
func TestTaintNodeConflict(t *testing.T) {
	for _, tc := range []struct {
		conflicts int
		ok        bool
	}{{0, true}, {3, true}, {1000, false}} {
		client := newAPIServer("37")
		if _, err := client.CoreV1().Nodes().Create(t.Context(), sized("a1", "1", nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		left := tc.conflicts
		client.PrependReactor("update", "nodes", func(ktesting.Action) (bool, runtime.Object, error) {
			left--
			return left >= 0, nil, apierrors.NewConflict(corev1.Resource("nodes"), "a1", errors.New("changed meanwhile"))
		})
		_, err := newWriter(client, nil).write(t.Context(), core.TaintNode{Node: "a1", Key: messages.TaintAgentUnreachable, On: true})
		if (err == nil) != tc.ok || !tc.ok && !errors.Is(err, errdefs.ErrConflict) {
			t.Errorf("%d conflicts: %v", tc.conflicts, err)
		}
	}
}

// A survey adds the nodes of agents to what the master says; a master that cannot be asked makes it fail.
func TestSurvey(t *testing.T) {
	client := newAPIServer("37")
	ours, foreign := sized("a1", "1", nil), sized("b1", "1", nil)
	ours.Annotations = map[string]string{messages.AnnotationAgentID: "A1"}
	ours.Spec.Taints = []corev1.Taint{{Key: messages.TaintAgentUnreachable, Effect: corev1.TaintEffectNoSchedule}}
	for _, node := range []*corev1.Node{ours, foreign} {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var fault error
	posted := make(chan core.Event, 1)
	s := &surveyor{client: client, asked: newQueue[core.Survey](), post: func(e core.Event) { posted <- e },
		mesos: func(context.Context) (core.Surveyed, error) { return core.Surveyed{Complete: true}, fault }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	s.asked.push(core.Survey{})
	want := core.Surveyed{Complete: true, Nodes: []core.NodeSeen{{Name: "a1", AgentID: "A1", Unreachable: true}}}
	if diff := cmp.Diff(core.Event(want), <-posted); diff != "" {
		t.Error(diff)
	}
	fault = errdefs.ErrUnavailable
	s.asked.push(core.Survey{})
	if failed, is := (<-posted).(core.CallFailed); !is || failed.Effect != (core.Survey{}) || !errors.Is(failed.Err, fault) {
		t.Errorf("got %v", failed)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A node kept by us is Ready with our reason and without pressure; off, it is left alone.
func TestKeeper(t *testing.T) {
	client := newAPIServer("37")
	pressed := corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), sized("a1", "1", nil, pressed), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k := newKeeper(client, func(string) *corev1.Node { return nil })
	k.set("a1", true)
	b := k.nodes["a1"]
	for range 2 { // the second time finds nothing due
		if err := k.keep(t.Context(), "a1", b, leasePeriod); err != nil {
			t.Fatal(err)
		}
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "a1", metav1.GetOptions{})
	if err != nil || !keptByUs(node) || condition(node, corev1.NodeDiskPressure).Status != corev1.ConditionFalse {
		t.Errorf("got conditions %+v, %v", node.Status.Conditions, err)
	}
	for _, p := range pressures {
		// The next kubelet keeps the reason of what it does not change.
		if c := condition(node, p.kind); c == nil || !strings.HasPrefix(c.Reason, "KubeletHas") {
			t.Errorf("condition %s is %+v, want the kubelet's own reason", p.kind, c)
		}
	}
	lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "a1", metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != "a1" || *lease.Spec.LeaseDurationSeconds != 40 {
		t.Errorf("got lease %+v, %v", lease, err)
	}
	k.set("a1", false)
	if k.is("a1", b) {
		t.Error("the node is kept alive after it was given to its kubelet")
	}
}

// One PodsSynced first, in order of creation and without other schedulers' pods; changes after it; a pod that ended is a
// change and no deletion.
func TestPodFeed(t *testing.T) {
	var got []string
	posted := make(chan struct{}, 8)
	feed := newPodFeed([]string{"mesos"}, func(e core.Event) {
		got = append(got, describeEvent(e))
		posted <- struct{}{}
	})
	pod := func(name, scheduler string, created int64) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), CreationTimestamp: metav1.Unix(created, 0)},
			Spec: corev1.PodSpec{SchedulerName: scheduler}}
	}
	h := feed.handler()
	h.OnAdd(pod("a", "mesos", 2), true)
	h.OnAdd(pod("b", "default-scheduler", 1), true)
	// Launched under a name that the scheduler had before.
	old := pod("old", "earlier", 1)
	old.Annotations = map[string]string{messages.AnnotationTaskID: "uid-old.1"}
	h.OnAdd(old, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- feed.run(ctx, func() bool { return true }) }()
	<-posted
	ended := pod("a", "mesos", 2)
	ended.Status.Phase = corev1.PodSucceeded
	h.OnUpdate(pod("b", "default-scheduler", 1), pod("b", "default-scheduler", 1))
	h.OnDelete(pod("b", "default-scheduler", 1))
	h.OnUpdate(pod("a", "mesos", 2), ended)
	h.OnDelete(old)
	next := pod("a", "mesos", 3)
	next.UID = "uid-2"
	h.OnUpdate(ended, next)
	h.OnDelete(next)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want := []string{
		"event=PodsSynced pods=2", "event=PodChanged pod=ns/a phase=Succeeded node=", "event=PodGone pod=ns/old",
		"event=PodGone pod=ns/a", "event=PodChanged pod=ns/a phase= node=", "event=PodGone pod=ns/a",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A part that does not end is named.
func TestGroupNamesTheLate(t *testing.T) {
	g := newGroup(t.Context(), time.Millisecond)
	release := make(chan struct{})
	defer close(release)
	boom := errors.New("boom")
	g.run("slow part", func(context.Context) error { <-release; return nil })
	g.run("broken part", func(context.Context) error { return boom })
	err := g.wait()
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "slow part") {
		t.Errorf("got %v, want boom and the name of the slow part", err)
	}
}

// However many nodes are kept, a lease that is missed once is written again before the node controller gives the node up, 40 s after the
// last one at the earliest.
func TestLeasePeriod(t *testing.T) {
	for nodes, want := range map[int]time.Duration{0: 10 * time.Second, 200: 10 * time.Second, 300: 15 * time.Second, 1000: mostPeriod, 10_000: mostPeriod} {
		if got := periodOf(nodes); got != want || 2*got >= leaseDuration {
			t.Errorf("%d nodes: every %s, want %s", nodes, got, want)
		}
	}
}

// Of many nodes each is kept, whichever of several workers comes by.
func TestKeepMany(t *testing.T) {
	client := newAPIServer("37")
	k := newKeeper(client, func(string) *corev1.Node { return nil })
	k.perWorker = 5
	const many = 20
	for n := range many {
		name := fmt.Sprint("a", n)
		if _, err := client.CoreV1().Nodes().Create(t.Context(), sized(name, "1", nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		k.set(name, true)
	}
	k.round(t.Context())
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) != many {
		t.Errorf("%d of %d nodes have a lease, %v", len(leases.Items), many, err)
	}
}

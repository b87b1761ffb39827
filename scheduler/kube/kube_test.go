package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
)

const patience = 20 * time.Second

func newNode(name string, taints ...corev1.Taint) *corev1.Node {
	size := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status:     corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
}

func newPod(name, scheduler, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "uid-1"},
		Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "c", Image: "i",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func view(node string, milli int64) *offers.View {
	return &offers.View{AgentID: "A-" + node, Node: node, Roles: []offers.RoleView{
		{Role: "*", Free: offers.Amounts{CPUs: milli, MemMB: 2048, DiskMB: 1000}}}}
}

// harness runs the scheduler on a fake API server. The test plays the core.
type harness struct {
	*Scheduler
	client kubernetes.Interface
	events chan core.Event
}

func newHarness(t *testing.T, objects ...*corev1.Node) *harness {
	t.Helper()
	client := fake.NewClientset()
	for _, node := range objects {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h := &harness{client: client, events: make(chan core.Event, 64)}
	s, err := New(Config{Client: client, SchedulerNames: []string{"mesos", "other"}, Window: time.Millisecond, RefusedPause: time.Millisecond},
		Deps{Post: func(e core.Event) { h.events <- e }})
	if err != nil {
		t.Fatal(err)
	}
	h.Scheduler = s
	h.Deliver(core.GateChanged{Open: true})
	return h
}

func (h *harness) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := h.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

func (h *harness) create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if _, err := h.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, h *harness) core.Event {
	t.Helper()
	select {
	case e := <-h.events:
		return e
	case <-time.After(patience):
		t.Fatalf("no event within %s", patience)
		panic("unreachable")
	}
}

// await returns the next event of type T; others in between are dropped.
func await[T core.Event](t *testing.T, h *harness) T {
	t.Helper()
	for {
		if e, ok := next(t, h).(T); ok {
			return e
		}
	}
}

// Our Filter is first, DefaultBinder is gone, and the default spread is off, in each profile.
func TestProfile(t *testing.T) {
	h := newHarness(t)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: h.client.EventsV1()})
	defer broadcaster.Shutdown()
	sched, err := h.build(t.Context(), profile.NewRecorderFactory(broadcaster))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mesos", "other"} {
		f := sched.Profiles[name]
		if f == nil {
			t.Fatalf("no profile %s", name)
		}
		plugins := f.ListPlugins()
		named := func(set schedulerapi.PluginSet) []string {
			var out []string
			for _, p := range set.Enabled {
				out = append(out, p.Name)
			}
			return out
		}
		if filters := named(plugins.Filter); filters[0] != OffersName || !slices.Contains(filters, "NodeResourcesFit") || slices.Index(filters[1:], OffersName) >= 0 {
			t.Errorf("%s: got filters %v, want %s first, once, and the stock ones", name, filters, OffersName)
		}
		if binders := named(plugins.Bind); !slices.Equal(binders, []string{LaunchName}) {
			t.Errorf("%s: got binders %v, want %s alone", name, binders, LaunchName)
		}
		if reserve := named(plugins.Reserve); !slices.Contains(reserve, OffersName) {
			t.Errorf("%s: got reserve plugins %v", name, reserve)
		}
		if gates := named(plugins.PreEnqueue); !slices.Contains(gates, GateName) {
			t.Errorf("%s: got gates %v, want %s among them", name, gates, GateName)
		}
		if after := named(plugins.PostFilter); slices.Contains(after, "DefaultPreemption") || slices.Contains(after, PreemptionName) {
			t.Errorf("%s: got %v, want no preemption", name, after)
		}
		if signature := f.SignPod(t.Context(), newPod("p", name, "1")); signature == nil {
			t.Errorf("%s: a plain pod cannot be signed, so equal pods are not placed in one go", name)
		}
	}
}

// The way of a pod: no offer, waiting; an offer wakes it; reserved, bound by a launch.
func TestWaitWakeBind(t *testing.T) {
	h := newHarness(t, newNode("a1", corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}))
	h.run(t)
	h.create(t, newPod("p", "mesos", "1"))
	if w := await[core.Waiting](t, h); w.Pod.Name != "p" || !strings.HasPrefix(w.Why, "0/1 nodes are available: 1 no offer from the agent") {
		t.Fatalf("got %s: %q", w.Pod.Name, w.Why)
	}
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 2000)}})
	reserve := await[core.Reserve](t, h)
	if reserve.Node != "a1" || reserve.Pod.Name != "p" {
		t.Fatalf("got %+v", reserve)
	}
	h.Deliver(core.ReserveDone{Request: reserve.Request})
	bind := await[core.Bind](t, h)
	if bind.Node != "a1" || bind.Request == reserve.Request {
		t.Fatalf("got %+v", bind)
	}
	// The assumed pod's node would make the executor take it for one that is bound already.
	if bind.Pod.Name != "p" || bind.Pod.Spec.NodeName != "" {
		t.Fatalf("got pod %s on node %q, want an unbound one", bind.Pod.Name, bind.Pod.Spec.NodeName)
	}
	h.Deliver(core.BindDone{Request: bind.Request})
	// An answer nobody waits for is dropped.
	h.Deliver(core.BindDone{Request: bind.Request})
	h.Deliver(core.ReserveDone{Request: 1 << 40})
}

// A pod that may not go to a cordoned node is told so, and woken by the end of the cordon, though what is on offer stays the same.
func TestCordoned(t *testing.T) {
	node := newNode("a1")
	node.Spec.Unschedulable = true
	h := newHarness(t, node)
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 2000)}})
	h.run(t)
	h.create(t, newPod("p", "mesos", "1"))
	if w := await[core.Waiting](t, h); w.Pod.Name != "p" || !strings.HasPrefix(w.Why, "0/1 nodes are available: 1 agent's node is cordoned") {
		t.Fatalf("got %s: %q", w.Pod.Name, w.Why)
	}
	node = node.DeepCopy()
	node.Spec.Unschedulable = false
	if _, err := h.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if reserve := await[core.Reserve](t, h); reserve.Node != "a1" || reserve.Pod.Name != "p" {
		t.Fatalf("got %+v", reserve)
	}
}

// A refused reservation wakes the pod again, though the pool does not change; it is no pod that waits for offers.
func TestReserveRefused(t *testing.T) {
	h := newHarness(t, newNode("a1"))
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 2000)}})
	h.run(t)
	h.create(t, newPod("p", "mesos", "1"))
	refused := await[core.Reserve](t, h)
	h.Deliver(core.ReserveDone{Request: refused.Request, Refusal: "an offer was rescinded"})
	if e := next(t, h); e != (core.Unreserve{UID: "uid-1"}) {
		t.Fatalf("got %T, want Unreserve: kube-scheduler takes back what was refused", e)
	}
	e := next(t, h)
	again, ok := e.(core.Reserve)
	if !ok {
		t.Fatalf("got %T, want the next Reserve", e)
	}
	h.Deliver(core.ReserveDone{Request: again.Request})
	await[core.Bind](t, h)
}

// A failed launch unreserves.
func TestBindFails(t *testing.T) {
	h := newHarness(t, newNode("a1"))
	h.run(t)
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 2000)}})
	h.create(t, newPod("p", "mesos", "1"))
	h.Deliver(core.ReserveDone{Request: await[core.Reserve](t, h).Request})
	bind := await[core.Bind](t, h)
	h.Deliver(core.BindDone{Request: bind.Request, Err: errors.New("launch timed out")})
	if u := await[core.Unreserve](t, h); u.UID != bind.Pod.UID {
		t.Fatalf("got %v", u)
	}
}

// A launch that is told failed is a success if the pod is bound by now, and only if it is the same pod.
func TestBindOfBoundPod(t *testing.T) {
	for _, tc := range []struct {
		name string
		uid  types.UID
		node string
		fail bool
	}{
		{name: "bound", uid: "uid-1", node: "a1"},
		{name: "not bound", uid: "uid-1", fail: true},
		{name: "another pod of the name", uid: "uid-2", node: "a1", fail: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t)
			pod := newPod("p", "mesos", "1")
			pod.UID, pod.Spec.NodeName = tc.uid, tc.node
			h.create(t, pod)
			status := make(chan *fwk.Status, 1)
			go func() { status <- launchPlugin{h.Scheduler}.Bind(t.Context(), nil, newPod("p", "mesos", "1"), "a1") }()
			h.Deliver(core.BindDone{Request: await[core.Bind](t, h).Request, Err: errors.New("launch timed out")})
			if s := <-status; s.IsSuccess() == tc.fail {
				t.Fatalf("got %v", s)
			}
		})
	}
}

// At the end of Run waiting Binds end, and nothing is given back.
func TestStop(t *testing.T) {
	h := newHarness(t, newNode("a1"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	h.Deliver(core.PoolChanged{Views: map[string]*offers.View{"a1": view("a1", 2000)}})
	h.create(t, newPod("p", "mesos", "1"))
	h.Deliver(core.ReserveDone{Request: await[core.Reserve](t, h).Request})
	bind := await[core.Bind](t, h)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	status := launchPlugin{h.Scheduler}.Bind(ctx, nil, bind.Pod, "a1")
	if !errors.Is(status.AsError(), errStopping) {
		t.Fatalf("got %v, want %v", status, errStopping)
	}
	for {
		select {
		case e := <-h.events:
			if _, is := e.(core.Unreserve); is {
				t.Fatal("resources were given back while stopping")
			}
			continue
		default:
		}
		break
	}
}

func TestHint(t *testing.T) {
	h := newHarness(t)
	p := offersPlugin{s: h.Scheduler}
	for _, tc := range []struct {
		name   string
		change *poolChange
		want   string
	}{
		{"fits", &poolChange{views: map[string]*offers.View{"a1": view("a1", 100), "a2": view("a2", 1000)}}, "Queue"},
		{"fits nowhere", &poolChange{views: map[string]*offers.View{"a1": view("a1", 999)}}, "QueueSkip"},
		{"refused before", &poolChange{refused: map[types.UID]struct{}{"uid-1": {}}}, "Queue"},
		{"another refused", &poolChange{refused: map[types.UID]struct{}{"uid-2": {}}}, "QueueSkip"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := p.hint(klog.Background(), newPod("p", "mesos", "1"), nil, tc.change)
			if err != nil || got.String() != tc.want {
				t.Fatalf("got %v, %v, want %s", got, err, tc.want)
			}
		})
	}
}

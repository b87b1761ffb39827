package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// TestLawsOverRandomOrders sends events in random orders, most of them senseless, and checks what must always hold:
// EX-42 (STARTING first, never back), EX-78 (one terminal update), EX-120 (replay in order with the same uuids),
// EX-127 (one Exit, nothing after it), PC-50 (no set before the kubelet is ready), P-10 (what the kubelet writes does not come back), and that
// the same events give the same effects. In the end each launch that was taken has its terminal update.
//
// Now and then the process dies: between two events, before its records are on the disk, in the middle of writing them, or
// between two effects. The next one starts from what the disk has, and all laws go on across it.
func TestLawsOverRandomOrders(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			first, second := newChaos(t, seed), newChaos(t, seed)
			for range 150 {
				if first.rand.IntN(25) == 0 {
					first.crash(first.random())
					second.rand.IntN(25)
					second.crash(second.random())
					continue
				}
				second.rand.IntN(25)
				a, b := first.step(first.random()), second.step(second.random())
				if a != b {
					t.Fatalf("the same events gave other effects:\n%s\nand\n%s", a, b)
				}
			}
			first.settle()
		})
	}
}

// chaos makes events and keeps the laws.
type chaos struct {
	t       *testing.T
	rand    *rand.Rand
	core    *core.Core
	now     time.Time
	version int

	// What the core said so far.
	sent     map[string]ledger.Update // by uuid
	states   map[string][]mesos.TaskState
	order    []string // uuids as first sent or recorded
	fed      []*corev1.Pod
	calls    []string
	launched map[string]bool
	ready    bool
	stopping bool
	exited   bool
	diary    string

	// cfg makes the next core after a crash; disk is what the one before saved.
	cfg  core.Config
	disk []byte
	// held: the core was made from a ledger with pods, and the kubelet had no set since. listed: the API server was heard,
	// and readyAt is when the kubelet took pods.
	held, listed bool
	readyAt      time.Time
}

func newChaos(t *testing.T, seed uint64) *chaos {
	cfg := core.Config{Node: node, NewUUID: names(), LaunchGrace: time.Minute, SuicideTimeout: time.Hour}
	disk, err := ledger.AppendHeader(nil, ledger.Owner{Container: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	return &chaos{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_000_000, 0),
		core: core.New(cfg), cfg: cfg, disk: disk,
		sent: map[string]ledger.Update{}, states: map[string][]mesos.TaskState{}, launched: map[string]bool{},
	}
}

func (c *chaos) pod() *corev1.Pod {
	n := c.rand.IntN(4)
	uid := types.UID(fmt.Sprintf("uid%d-%d", n, c.rand.IntN(2)))
	c.version++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("pod%d", n), UID: uid, ResourceVersion: fmt.Sprint(c.version),
			Annotations: map[string]string{
				messages.AnnotationTaskID:      messages.TaskID(uid, 1+c.rand.IntN(2)),
				messages.AnnotationBindingHost: node,
			},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}
	if c.rand.IntN(3) == 0 {
		seconds := int64(c.rand.IntN(20))
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: c.now}, &seconds
	}
	pod.Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}[c.rand.IntN(5)]
	return pod
}

func (c *chaos) random() core.Event {
	pod := c.pod()
	id := pod.Annotations[messages.AnnotationTaskID]
	errs := []error{errdefs.ErrUnavailable, errdefs.ErrUnavailable, errdefs.ErrLost, errdefs.ErrConflict, errdefs.ErrNotFound, errdefs.ErrRefused}
	switch c.rand.IntN(31) {
	case 0:
		return core.Disconnected{}
	case 1, 2:
		return core.Connected{TaskKilling: c.rand.IntN(2) == 0}
	case 3, 4, 5, 6, 7:
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = nil, nil
		if c.rand.IntN(3) == 0 {
			pod.Spec.NodeName = node
		}
		return core.Launch{TaskID: id, Data: c.envelope(id, pod)}
	case 8, 9:
		grace := time.Duration(c.rand.IntN(40)) * time.Second
		return core.Kill{TaskID: id, Grace: &grace}
	case 10, 11, 12, 13:
		if len(c.calls) > 0 {
			id = c.calls[c.rand.IntN(len(c.calls))]
			uid, attempt, _ := messages.ParseTaskID(id)
			pod.UID, pod.Name = uid, string("pod"+uid[3:4])
			pod.Annotations[messages.AnnotationTaskID] = messages.TaskID(uid, attempt)
		}
		return core.Bound{TaskID: id, Pod: pod}
	case 14:
		return core.BindFailed{TaskID: id, Err: errs[c.rand.IntN(len(errs))]}
	case 15, 16:
		return core.PodChanged{Pod: pod}
	case 17:
		return core.PodGone{UID: pod.UID}
	case 18:
		return core.DeleteFailed{TaskID: id, Err: errs[c.rand.IntN(len(errs))]}
	case 19:
		return core.KubeletReady{}
	case 20, 21, 22:
		return core.KubeletPod{Pod: pod}
	case 23, 24:
		return core.KubeletPods{Pods: slices.Clone(c.fed[:c.rand.IntN(len(c.fed)+1)])}
	case 25:
		if c.rand.IntN(40) == 0 {
			return core.Shutdown{Grace: time.Minute, Why: "chaos"}
		}
		if c.rand.IntN(40) == 0 {
			return core.KubeletEnded{}
		}
		return core.Message{Data: []byte([]string{"kamikaze", "task-lost:" + id, "rubbish"}[c.rand.IntN(3)])}
	case 29:
		listed := core.PodsListed{}
		for _, pod := range c.fed {
			if c.rand.IntN(4) > 0 {
				listed.UIDs = append(listed.UIDs, pod.UID)
			}
		}
		return listed
	case 26, 27, 28:
		if _, open := c.core.Unacknowledged(); len(open) > 0 {
			u := open[c.rand.IntN(len(open))]
			return core.Acknowledged{TaskID: u.TaskID, UUID: u.UUID}
		}
	}
	c.now = c.now.Add(time.Duration(c.rand.IntN(15000)) * time.Millisecond)
	return core.Tick{}
}

func (c *chaos) envelope(id string, pod *corev1.Pod) []byte {
	data, err := messages.EncodeLaunch(messages.Launch{TaskID: id, Node: node, Pod: pod})
	if err != nil {
		c.t.Fatal(err)
	}
	return data
}

// step sends an event, checks the laws and returns the effects as text.
func (c *chaos) step(ev core.Event) string {
	if launch, ok := ev.(core.Launch); ok && !c.stopping && !c.exited {
		c.launched[launch.TaskID] = true
	}
	effects := c.take(ev)
	for _, e := range effects {
		c.perform(e)
	}
	if v := c.core.Snapshot(); v.ShuttingDown {
		c.stopping = true
	}
	c.replay()
	return show(effects)
}

// take gives the core an event.
func (c *chaos) take(ev core.Event) []core.Effect {
	effects := c.core.Step(c.now, ev)
	c.diary += fmt.Sprintf("%T %s\n%s", ev, c.now.Format(time.TimeOnly), show(effects))
	if c.exited && len(effects) > 0 {
		c.fail("effects after Exit")
	}
	switch ev.(type) {
	case core.KubeletReady:
		if !c.ready {
			c.ready, c.readyAt = true, c.now
		}
	case core.PodsListed:
		c.listed = true
	}
	return effects
}

// perform is the shell: it carries out one effect, which the laws look at.
func (c *chaos) perform(e core.Effect) {
	switch e := e.(type) {
	case core.Save:
		c.save(e)
	case core.SendUpdate:
		c.update(e.Update)
	case core.Feed:
		c.feed(e)
	case core.Bind:
		c.calls = append(c.calls, e.TaskID)
	case core.Patch:
		c.calls = append(c.calls, e.TaskID)
	case core.Exit:
		c.exited = true
	}
}

func (c *chaos) fail(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), c.diary)
}

// update checks one update, sent for the first time or again.
func (c *chaos) update(u ledger.Update) {
	if before, again := c.sent[name(u.UUID)]; again {
		if before.State != u.State || before.TaskID != u.TaskID {
			c.fail("update %s changed", name(u.UUID))
		}
		return
	}
	c.sent[name(u.UUID)] = u
	said := c.states[u.TaskID]
	if len(said) > 0 && ledger.IsTerminal(said[len(said)-1]) {
		c.fail("task %s: %s after %s", u.TaskID, u.State, said[len(said)-1])
	}
	if u.State == mesos.TASK_RUNNING && (len(said) == 0 || said[0] != mesos.TASK_STARTING) {
		c.fail("task %s: RUNNING without STARTING", u.TaskID)
	}
	if u.State == mesos.TASK_STARTING && len(said) > 0 || u.State == mesos.TASK_RUNNING && said[len(said)-1] == mesos.TASK_KILLING {
		c.fail("task %s: %s after %s", u.TaskID, u.State, said[len(said)-1])
	}
	c.states[u.TaskID] = append(said, u.State)
}

// replay checks that the open updates of the ledger keep their order.
func (c *chaos) replay() {
	_, open := c.core.Unacknowledged()
	at := 0
	for _, u := range open {
		c.update(u) // what waits for the agent counts as said: SUBSCRIBE takes it along
		i := slices.Index(c.order[at:], name(u.UUID))
		if i < 0 {
			if slices.Contains(c.order, name(u.UUID)) {
				c.fail("update %s lost its place", name(u.UUID))
			}
			c.order = append(c.order, name(u.UUID))
			at = len(c.order)
			continue
		}
		at += i + 1
	}
}

func (c *chaos) feed(f core.Feed) {
	if !c.ready {
		c.fail("the kubelet was fed before it was ready")
	}
	if c.held {
		c.held = false
		c.firstSet(f)
	}
	seen := map[string]bool{}
	for _, pod := range f.Pods {
		if seen[pod.Name] {
			c.fail("two pods named %s in one set", pod.Name)
		}
		seen[pod.Name] = true
		if pod.Labels["kubelet"] != "" {
			c.fail("the kubelet's writing came back")
		}
		if pod.Spec.NodeName != node && pod.Spec.NodeName != "" {
			c.fail("fed a pod of node %s", pod.Spec.NodeName)
		}
	}
	c.fed = nil
	for _, pod := range f.Pods {
		own := *pod // as executor/kubelet makes it for the kubelet, which writes to the top of it
		own.Labels = map[string]string{"kubelet": "wrote this"}
		c.fed = append(c.fed, &own)
	}
}

// settle answers all that is open and kills all that lives; then no launch may be without its end.
func (c *chaos) settle() {
	c.step(core.Connected{})
	c.step(core.KubeletReady{})
	for round := 0; round < 200 && !c.exited; round++ {
		for _, id := range c.calls {
			c.step(core.BindFailed{TaskID: id, Err: errdefs.ErrRefused})
		}
		c.calls = nil
		live := false
		for _, task := range c.core.Snapshot().Tasks {
			if task.State != core.Done {
				live = true
				c.step(core.Kill{TaskID: task.TaskID})
			}
		}
		if !live {
			break
		}
		c.step(core.KubeletPods{})
		c.now = c.now.Add(5 * time.Second)
		c.step(core.Tick{})
	}
	for id := range c.launched {
		states := c.states[id]
		if !c.exited && (len(states) == 0 || !ledger.IsTerminal(states[len(states)-1])) {
			c.fail("launch %s came to no end: %v", id, states)
		}
	}
}

// FuzzLaunchData: whatever a task's data is, a launch is answered and never a panic (EX-3, EX-4, EX-8).
func FuzzLaunchData(f *testing.F) {
	f.Add([]byte(nil), "t1")
	f.Add([]byte("{}"), "t1")
	f.Add([]byte(`{"version":1,"taskID":"u.1","node":"a1","pod":{"metadata":{"name":"web","namespace":"default","uid":"u",`+
		`"annotations":{"k8s.mesosphere.io/taskId":"u.1","k8s.mesosphere.io/bindingHost":"a1"}}}}`), "u.1")
	f.Add([]byte(`{"version":1,"pod":null}`), "")
	f.Fuzz(func(t *testing.T, data []byte, id string) {
		c := core.New(core.Config{Node: node, NewUUID: names()})
		now := time.Unix(0, 0)
		c.Step(now, core.Connected{})
		effects := c.Step(now, core.Launch{TaskID: id, Data: data})
		if _, ok := effects[0].(core.Save); ok {
			effects = effects[1:]
		}
		if len(effects) != 1 {
			t.Fatalf("a launch had %d answers, want 1: %v", len(effects), effects)
		}
		switch e := effects[0].(type) {
		case core.SendUpdate:
			if !ledger.IsTerminal(e.Update.State) || e.Update.TaskID != id {
				t.Fatalf("a refused launch was answered with %v", e.Update)
			}
		case core.Bind, core.Patch:
		case core.Note:
			if id != "" {
				t.Fatalf("launch of %q was answered by a note alone: %s", id, e.Why)
			}
		default:
			t.Fatalf("a launch was answered with %T", e)
		}
	})
}

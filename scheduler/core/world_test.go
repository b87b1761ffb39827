package core_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// world is what a random run knows, apart from the core.
type world struct {
	t        *testing.T
	rand     *rand.Rand
	core     *core.Core
	now      time.Time
	idStored bool
	synced   bool
	surveyed bool
	held     map[string]mesos.Offer // offers that have not ended
	back     map[string]bool        // offers whose last DECLINE failed
	declined *core.Decline          // the last one, which may fail
	offers   int
	requests uint64
	binds    map[uint64]bool // not answered
	reserves map[uint64]bool
	launched map[string]string // task id to agent
	running  map[string]*life  // launched tasks that have not ended
	effects  []core.Effect     // that may fail
	answers  []core.Event      // what a sensible world says next
	asked    map[uint64]core.Reserve
	pods     map[types.UID]*corev1.Pod
	lives    map[string]int // pods of the same name so far
	accepts  int
}

// next is mostly what a sensible world answers to the effects, else anything.
func (w *world) next() core.Event {
	if len(w.answers) > 0 && w.rand.IntN(10) < 6 {
		ev := w.answers[0]
		w.answers = w.answers[1:]
		return ev
	}
	return w.event()
}

// answer lets the sensible world react to an effect.
func (w *world) react(effect core.Effect) {
	switch e := effect.(type) {
	case core.StoreFrameworkID:
		w.answers = append(w.answers, core.FrameworkIDStored{FrameworkID: e.FrameworkID})
	case core.Reconcile:
		w.effects = append(w.effects, e)
		if answer := markerAnswer(e); answer.Status.TaskID.Value != "" {
			w.answers = append(w.answers, answer)
		}
	case core.Survey:
		w.answers = append(w.answers, w.survey())
	case core.LookUpLimits:
		w.answers = append(w.answers, core.LimitsFound{Limits: []procure.RoleLimit{{Role: "prod", Resource: "cpus", Limit: float64(w.rand.IntN(3))}}})
	case core.LookUpAgent:
		w.answers = append(w.answers, w.found(e.AgentID))
	case core.StoreNode:
		w.answers = append(w.answers, core.NodeStored{Node: e.Node.Name, AgentID: e.Node.Annotations[messages.AnnotationAgentID]})
	case core.ReserveDone:
		if ask := w.asked[e.Request]; e.Refusal == "" {
			w.requests++
			w.answers = append(w.answers, core.Bind{Request: w.requests, Pod: ask.Pod, Node: ask.Node})
		}
	case core.Accept:
		for _, task := range e.Tasks {
			uid, _, _ := messages.ParseTaskID(task.TaskID.Value)
			pod := w.pods[uid]
			if pod == nil || w.rand.IntN(3) == 0 {
				continue
			}
			pod = pod.DeepCopy()
			if pod.Spec.NodeName == "" {
				pod.Spec.NodeName = "a" + e.AgentID[1:]
			}
			pod.Annotations = map[string]string{messages.AnnotationTaskID: task.TaskID.Value, messages.AnnotationAgentID: e.AgentID}
			w.pods[uid] = pod
			w.answers = append(w.answers, core.PodChanged{Pod: pod})
		}
	}
}

// survey knows each agent as registered, or lost, or not at all.
func (w *world) survey() core.Surveyed {
	ev := core.Surveyed{Complete: w.rand.IntN(3) > 0, Registered: map[string]string{}}
	for i := range 3 {
		id, node := fmt.Sprint("A", i), fmt.Sprint("a", i)
		switch w.rand.IntN(8) {
		case 0:
		case 1:
			ev.Unreachable = append(ev.Unreachable, id)
		case 2:
			ev.Recovered = append(ev.Recovered, id)
		default:
			ev.Registered[id] = node
		}
		if w.rand.IntN(2) == 0 {
			ev.Nodes = append(ev.Nodes, core.NodeSeen{Name: node, AgentID: id, Unreachable: w.rand.IntN(2) == 0})
		}
	}
	return ev
}

// static is a document with some static pods, or none.
func (w *world) static() core.StaticPods {
	var ev core.StaticPods
	for i := range w.rand.IntN(3) {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Ports: []corev1.ContainerPort{{HostPort: int32(31000 + i)}}}}}}
		ev.Pods = append(ev.Pods, messages.StaticPod{Pod: pod, Claim: fmt.Sprint("default/s", i)})
	}
	return ev
}

func (w *world) found(id string) core.AgentFound {
	return core.AgentFound{Agent: core.Agent{ID: id, Hostname: "a" + id[1:], Total: messages.Resources{CPUs: 4, MemMB: 4096}, Limits: w.rand.IntN(2) == 0}}
}

func newWorld(t *testing.T, r *rand.Rand) *world {
	return &world{
		t: t, rand: r, core: core.New(core.Config{RemovalWait: 20 * time.Second, Roles: procure.RolePolicy{Framework: []string{"*", "prod"}, Default: []string{"prod", "*"}}}), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		held: map[string]mesos.Offer{}, back: map[string]bool{}, binds: map[uint64]bool{}, reserves: map[uint64]bool{}, launched: map[string]string{}, running: map[string]*life{},
		asked: map[uint64]core.Reserve{}, pods: map[types.UID]*corev1.Pod{}, lives: map[string]int{},
	}
}

func (w *world) agentID() string { return fmt.Sprint("A", w.rand.IntN(3)) }
func (w *world) node() string    { return fmt.Sprint("a", w.rand.IntN(3)) }

func (w *world) pod() *corev1.Pod {
	name := fmt.Sprint("p", w.rand.IntN(8))
	uid := types.UID(fmt.Sprint("uid-", name, "-", w.lives[name]))
	if pod := w.pods[uid]; pod != nil {
		return pod
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: uid},
		Spec:       corev1.PodSpec{SchedulerName: "mesos", Containers: []corev1.Container{{Name: "main"}}},
	}
	if w.rand.IntN(3) == 0 {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: int32(31000 + w.rand.IntN(4))}}
	}
	if w.rand.IntN(4) == 0 {
		pod.Spec.NodeName = w.node() // a preset one
	}
	w.pods[uid] = pod
	return pod
}

// changed is the pod in some later state.
func (w *world) changed() *corev1.Pod {
	pod := w.pod().DeepCopy()
	switch w.rand.IntN(4) {
	case 0:
		pod.Spec.NodeName = w.node()
		if id := w.taskOf(pod.UID); id != "" {
			pod.Annotations = map[string]string{messages.AnnotationTaskID: id, messages.AnnotationAgentID: w.launched[id]}
		}
	case 1:
		pod.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed, corev1.PodSucceeded}[w.rand.IntN(3)]
	case 2:
		at, grace := metav1.NewTime(w.now), int64(w.rand.IntN(2)*30)
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &grace
	}
	w.pods[pod.UID] = pod
	return pod
}

func (w *world) taskOf(uid types.UID) string {
	for _, id := range slices.Sorted(maps.Keys(w.launched)) {
		if of, _, err := messages.ParseTaskID(id); err == nil && of == uid {
			return id
		}
	}
	return ""
}

func (w *world) task() string {
	ids := slices.Sorted(maps.Keys(w.launched))
	if len(ids) == 0 || w.rand.IntN(10) == 0 {
		return messages.TaskID(w.pod().UID, 1+w.rand.IntN(3))
	}
	return ids[w.rand.IntN(len(ids))]
}

func (w *world) event() core.Event {
	w.now = w.now.Add(time.Duration(w.rand.IntN(8)) * time.Millisecond)
	switch w.rand.IntN(20) {
	case 0:
		if w.rand.IntN(9) == 0 {
			return core.Disconnected{}
		}
		if w.rand.IntN(3) == 0 {
			return core.NamespaceRoles{Namespace: "default", Roles: []string{"", "*", "prod", "*,prod", "test"}[w.rand.IntN(5)]}
		}
		return core.Tick{}
	case 1:
		if w.rand.IntN(3) == 0 || !w.core.Snapshot().Connected {
			return core.Subscribed{FrameworkID: "fw"}
		}
		return core.FrameworkIDStored{FrameworkID: "fw"}
	case 2, 3:
		w.offers++
		id := fmt.Sprint("o", w.offers)
		agent := w.agentID()
		role := []string{"*", "prod", "test"}[w.rand.IntN(5)/2]
		o := offer(id, agent, "a"+agent[1:], float64(w.rand.IntN(12))/4, float64(w.rand.IntN(2048)), w.rand.IntN(2) == 0, role)
		if w.rand.IntN(2) == 0 {
			o.Resources = append(o.Resources, mesos.Resource{Name: "cpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: float64(w.rand.IntN(4)) / 4},
				Reservations: []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: &role}}})
		}
		o.Resources = append(o.Resources, mesos.Resource{Name: "ports", Type: mesos.RANGES.Enum(),
			Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 31000, End: uint64(31000 + w.rand.IntN(4))}}}})
		return core.Offers{Offers: []mesos.Offer{o}}
	case 4:
		ids := slices.Sorted(maps.Keys(w.held))
		if len(ids) == 0 {
			return core.Rescinded{OfferID: "unknown"}
		}
		return core.Rescinded{OfferID: ids[w.rand.IntN(len(ids))]}
	case 5:
		if w.rand.IntN(6) == 0 {
			return w.static()
		}
		return w.found(w.agentID())
	case 6:
		if w.rand.IntN(3) == 0 {
			return core.NodeGone{Node: w.node(), AgentID: w.agentID()}
		}
		if w.rand.IntN(3) == 0 {
			return core.NodeCordoned{Node: w.node(), On: w.rand.IntN(2) == 0}
		}
		return core.NodeStored{Node: w.node(), AgentID: w.agentID()}
	case 7, 8, 9, 10:
		w.requests++
		w.reserves[w.requests] = true
		w.asked[w.requests] = core.Reserve{Request: w.requests, Pod: w.pod(), Node: w.node()}
		return w.asked[w.requests]
	case 11:
		w.requests++
		return core.Bind{Request: w.requests, Pod: w.pod(), Node: w.node()}
	case 12, 13, 14:
		return w.status()
	case 15:
		switch w.rand.IntN(6) {
		case 0:
			return core.ExecutorFailed{AgentID: w.agentID(), ExecutorID: messages.ExecutorID}
		case 1:
			return core.AgentRemoved{AgentID: w.agentID()}
		}
		return core.Unreserve{UID: w.pod().UID}
	case 16:
		return core.PodChanged{Pod: w.changed()}
	case 17:
		if !w.synced {
			return core.PodsSynced{Pods: []*corev1.Pod{w.changed(), w.changed()}}
		}
		pod := w.pod()
		delete(w.pods, pod.UID)
		w.lives[pod.Name]++
		return core.PodGone{Pod: pod}
	case 18:
		if w.declined != nil && w.rand.IntN(2) == 0 {
			decline := *w.declined
			w.declined = nil
			return core.CallFailed{Effect: decline, Err: []error{errdefs.ErrLost, errdefs.ErrRefused, errdefs.ErrUnavailable}[w.rand.IntN(3)]}
		}
		if len(w.effects) > 0 {
			i := w.rand.IntN(len(w.effects))
			effect := w.effects[i]
			w.effects = slices.Delete(w.effects, i, i+1) // what failed has failed once
			return core.CallFailed{Effect: effect, Err: []error{errdefs.ErrLost, errdefs.ErrRefused, errdefs.ErrNotFound}[w.rand.IntN(3)]}
		}
		return core.Waiting{Pod: w.pod()}
	}
	w.now = w.now.Add(time.Duration(w.rand.IntN(20000)) * time.Millisecond)
	return core.Waiting{Pod: w.pod()}
}

func (w *world) status() core.Event {
	states := []mesos.TaskState{
		mesos.TASK_STAGING, mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_KILLING, mesos.TASK_UNREACHABLE, mesos.TASK_UNKNOWN,
		mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_ERROR, mesos.TASK_LOST, mesos.TASK_DROPPED, mesos.TASK_GONE, 77,
	}
	id := w.task()
	agent := w.launched[id]
	if agent == "" {
		agent = w.agentID()
	}
	reasons := []mesos.TaskStatus_Reason{mesos.REASON_EXECUTOR_TERMINATED, mesos.REASON_RECONCILIATION, mesos.REASON_CONTAINER_LAUNCH_FAILED}
	status := mesos.TaskStatus{
		Reason: reasons[w.rand.IntN(len(reasons))].Enum(),
		TaskID: mesos.TaskID{Value: id}, AgentID: &mesos.AgentID{Value: agent}, State: states[w.rand.IntN(len(states))].Enum(),
		Source: mesos.TaskStatus_Source(w.rand.IntN(3)).Enum(),
	}
	if w.rand.IntN(2) == 0 {
		status.UUID = []byte("u")
	}
	return core.StatusUpdate{Status: status}
}

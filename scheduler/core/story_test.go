package core_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/constraints"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// TestScenarios runs the stories in testdata. Rewrite the outputs with -rewrite and read the diff as a change of
// behaviour.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newStory()
		datadriven.RunTest(t, path, s.run)
	})
}

// story is one scenario: a core, a clock, the pods as the API server shows them, and the last ACCEPT.
type story struct {
	core    *core.Core
	now     time.Time
	pods    map[string]*corev1.Pod
	request uint64
	asked   map[string]uint64      // pod to the request of its last Reserve
	last    map[string]core.Effect // last effect by verb
}

var storyConfig = core.Config{KeeperURI: "/opt/mesopod/mesopod-keeper", BundleDir: "/opt/mesopod"}

func newStory() *story {
	return &story{
		core: core.New(storyConfig),
		now:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		pods: map[string]*corev1.Pod{}, last: map[string]core.Effect{}, asked: map[string]uint64{},
	}
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "agent-rules": // before anything else
		cfg := storyConfig
		for _, text := range strings.Split(word(d, "rules", ""), ",") {
			rule, err := constraints.Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			cfg.AgentRules = append(cfg.AgentRules, rule)
		}
		s.core = core.New(cfg)
		return ""
	case "roles": // of the framework and of namespaces without an annotation; before anything else
		cfg := storyConfig
		cfg.Roles = procure.RolePolicy{Framework: strings.Split(word(d, "framework", "*"), ","), Default: procure.SplitRoles(word(d, "default", ""))}
		s.core = core.New(cfg)
		return ""
	case "pod": // Says what the API server shows; no event.
		s.pod(t, d)
		return ""
	case "wait":
		return s.wait(t, d)
	case "snapshot":
		return show(s.core.Snapshot())
	case "start":
		return s.step(core.Subscribed{FrameworkID: "fw"}) + s.step(core.FrameworkIDStored{FrameworkID: "fw"}) + s.step(core.PodsSynced{}) +
			s.step(markerAnswer(s.last["reconcile"])) + s.step(core.Surveyed{Complete: true})
	case "agent":
		host := word(d, "host", strings.ToLower(word(d, "id", "A1")))
		return s.step(s.offer(t, d)) + s.step(s.found(t, d)) + s.step(core.NodeStored{Node: host, AgentID: word(d, "id", "A1")})
	case "launch": // Reserve, Bind and the batch window for pods of one node, until the ACCEPT.
		out := ""
		for _, name := range strings.Split(word(d, "pods", ""), ",") {
			s.request++
			out += s.step(core.Reserve{Request: s.request, Pod: s.named(name), Node: word(d, "node", "a1")})
			out += s.step(core.Bind{Request: s.request, Pod: s.named(name), Node: word(d, "node", "a1")})
		}
		s.now = s.now.Add(5 * time.Millisecond)
		return out + s.step(core.Tick{})
	}
	return s.step(s.event(t, d))
}

func (s *story) event(t *testing.T, d *datadriven.TestData) core.Event {
	switch d.Cmd {
	case "subscribed":
		return core.Subscribed{FrameworkID: word(d, "id", "fw")}
	case "disconnected":
		return core.Disconnected{Err: errdefs.ErrUnavailable}
	case "id-stored":
		return core.FrameworkIDStored{FrameworkID: word(d, "id", "fw")}
	case "synced":
		var pods []*corev1.Pod
		for _, name := range slices.Sorted(maps.Keys(s.pods)) {
			pods = append(pods, s.pods[name])
		}
		return core.PodsSynced{Pods: pods}
	case "offer":
		return s.offer(t, d)
	case "inverse-offer": // of agent A1, for an hour, an hour after the story's beginning
		return core.InverseOffers{Offers: []mesos.InverseOffer{{OfferID: mesos.OfferID{Value: word(d, "offer", "i1")},
			AgentID: &mesos.AgentID{Value: word(d, "agent", "A1")}, Unavailability: mesos.Unavailability{
				Start:    mesos.TimeInfo{Nanoseconds: time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC).UnixNano()},
				Duration: &mesos.DurationInfo{Nanoseconds: time.Hour.Nanoseconds()}}}}}
	case "rescinded":
		return core.Rescinded{OfferID: word(d, "id", "")}
	case "static": // pods by name, each with these amounts
		var pods []messages.StaticPod
		for _, name := range strings.FieldsFunc(word(d, "pods", ""), func(r rune) bool { return r == ',' }) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
			request(pod)[corev1.ResourceCPU] = resource.MustParse(word(d, "cpus", "500m"))
			request(pod)[corev1.ResourceMemory] = resource.MustParse(word(d, "mem", "128Mi"))
			pods = append(pods, messages.StaticPod{Pod: pod, Claim: "default/" + name + "@" + word(d, "cpus", "500m")})
		}
		return core.StaticPods{Pods: pods}
	case "agent-found":
		return s.found(t, d)
	case "node-stored":
		return core.NodeStored{Node: word(d, "node", "a1"), AgentID: word(d, "agent", strings.ToUpper(word(d, "node", "a1")))}
	case "node-gone":
		return core.NodeGone{Node: word(d, "node", "a1"), AgentID: word(d, "agent", strings.ToUpper(word(d, "node", "a1")))}
	case "cordon":
		return core.NodeCordoned{Node: word(d, "node", "a1"), On: !d.HasArg("off")}
	case "agent-removed":
		return core.AgentRemoved{AgentID: word(d, "id", "A1")}
	case "surveyed":
		return s.surveyed(d)
	case "executor-failed":
		return core.ExecutorFailed{AgentID: word(d, "agent", "A1"), ExecutorID: messages.ExecutorID, Status: 9}
	case "status":
		return s.status(t, d)
	case "reserve":
		s.request++
		s.asked[word(d, "pod", "web")] = s.request
		return core.Reserve{Request: s.request, Pod: s.named(word(d, "pod", "web")), Node: word(d, "node", "a1")}
	case "unreserve":
		return core.Unreserve{UID: types.UID("uid-" + word(d, "pod", "web"))}
	case "bind":
		return core.Bind{Request: s.asked[word(d, "pod", "web")], Pod: s.named(word(d, "pod", "web")), Node: word(d, "node", "a1")}
	case "waiting":
		return core.Waiting{Pod: s.named(word(d, "pod", "web")), Why: "no offer"}
	case "pod-changed":
		return core.PodChanged{Pod: s.pod(t, d)}
	case "limits":
		return core.LimitsFound{Limits: []procure.RoleLimit{{Role: word(d, "role", "*"), Resource: word(d, "resource", "cpus"),
			Limit: number(t, d, "limit", 0), Used: number(t, d, "used", 0)}}}
	case "namespace":
		return core.NamespaceRoles{Namespace: word(d, "name", "default"), Roles: word(d, "roles", "")}
	case "pod-gone":
		pod := s.named(word(d, "pod", "web"))
		delete(s.pods, pod.Name)
		return core.PodGone{Pod: pod}
	case "call-failed":
		err := map[string]error{"lost": errdefs.ErrLost, "unavailable": errdefs.ErrUnavailable, "conflict": errdefs.ErrConflict, "refused": errdefs.ErrRefused, "not-found": errdefs.ErrNotFound, "invalid": errdefs.ErrInvalid}[word(d, "err", "refused")]
		return core.CallFailed{Effect: s.last[word(d, "of", "accept")], Err: err}
	case "marker": // Mesos answers for the made-up task.
		return markerAnswer(s.last["reconcile"])
	case "tick":
		return core.Tick{}
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return nil
}

// step lets one event happen and tells the effects.
func (s *story) step(ev core.Event) string {
	var b strings.Builder
	for _, effect := range s.core.Step(s.now, ev) {
		line := tell(effect)
		verb, _, _ := strings.Cut(line, " ")
		s.last[verb] = effect
		b.WriteString(line + "\n")
	}
	return b.String()
}

// wait lets time pass, from deadline to deadline.
func (s *story) wait(t *testing.T, d *datadriven.TestData) string {
	span, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	start, until := s.now, s.now.Add(span)
	var b strings.Builder
	for range 1000 {
		next, waits := s.core.NextDeadline()
		if !waits || next.After(until) {
			s.now = until
			return b.String()
		}
		if next.After(s.now) {
			s.now = next
		}
		if out := s.step(core.Tick{}); out != "" {
			fmt.Fprintf(&b, "+%s\n%s", s.now.Sub(start), out)
		}
	}
	t.Fatalf("%s: a deadline does not pass", d.Pos)
	return ""
}

func (s *story) named(name string) *corev1.Pod {
	pod := s.pods[name]
	if pod == nil {
		pod = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
			Spec:       corev1.PodSpec{SchedulerName: "mesos", Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodPending},
		}
		s.pods[name] = pod
	}
	return pod
}

// pod changes what the API server shows of a pod: node=, task=, agent=, phase=, deleting=SECONDS, cpus=, mem=, fat=BYTES.
func (s *story) pod(t *testing.T, d *datadriven.TestData) *corev1.Pod {
	pod := s.named(word(d, "pod", "web")).DeepCopy()
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	for _, arg := range d.CmdArgs {
		value := ""
		if len(arg.Vals) > 0 {
			value = arg.Vals[0]
		}
		switch arg.Key {
		case "node":
			pod.Spec.NodeName = value
		case "task":
			pod.Annotations[messages.AnnotationTaskID] = value
			pod.Annotations[messages.AnnotationAgentID] = word(d, "agent", "A1")
		case "phase":
			pod.Status.Phase = corev1.PodPhase(value)
		case "deleting":
			var seconds int64
			fmt.Sscan(value, &seconds)
			when := metav1.NewTime(s.now)
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &when, &seconds
		case "cpus":
			request(pod)[corev1.ResourceCPU] = resource.MustParse(value)
		case "mem":
			request(pod)[corev1.ResourceMemory] = resource.MustParse(value)
		case "tolerates":
			pod.Spec.Tolerations = []corev1.Toleration{{Key: value, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
		case "roles":
			pod.Annotations[messages.AnnotationRoles] = strings.Join(arg.Vals, ",")
		case "fat":
			var bytes int
			fmt.Sscan(value, &bytes)
			pod.Annotations["fat"] = strings.Repeat("x", bytes)
		}
	}
	s.pods[pod.Name] = pod
	return pod
}

func request(pod *corev1.Pod) corev1.ResourceList {
	if pod.Spec.Containers[0].Resources.Requests == nil {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{}
	}
	return pod.Spec.Containers[0].Resources.Requests
}

func (s *story) offer(t *testing.T, d *datadriven.TestData) core.Offers {
	agent := word(d, "id", "A1")
	if d.Cmd == "offer" {
		agent = word(d, "agent", "A1")
	}
	o := offer(word(d, "offer", "o1"), agent,
		word(d, "host", strings.ToLower(agent)), number(t, d, "cpus", 4), number(t, d, "mem", 4096), d.HasArg("executor"), word(d, "role", "*"))
	if d.HasArg("reserved-cpus") { // reserved-cpus= and reserved-mem= for reserved-for=, refined from the role before, as in a,a/b
		o.Resources = append(o.Resources, reserved(d, "cpus", number(t, d, "reserved-cpus", 0)), reserved(d, "mem", number(t, d, "reserved-mem", 0)))
	}
	return core.Offers{Offers: []mesos.Offer{o}}
}

func reserved(d *datadriven.TestData, name string, amount float64) mesos.Resource {
	r := mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: amount}}
	for _, role := range strings.Split(word(d, "reserved-for", word(d, "role", "*")), ",") {
		r.Reservations = append(r.Reservations, mesos.Resource_ReservationInfo{Type: mesos.Resource_ReservationInfo_DYNAMIC.Enum(), Role: &role})
	}
	return r
}

func offer(id, agent, host string, cpus, mem float64, executor bool, role string) mesos.Offer {
	o := mesos.Offer{
		ID: mesos.OfferID{Value: id}, AgentID: mesos.AgentID{Value: agent}, Hostname: host,
		Resources:      []mesos.Resource{scalar("cpus", cpus), scalar("mem", mem)},
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
	}
	if executor {
		o.ExecutorIDs = []mesos.ExecutorID{{Value: messages.ExecutorID}}
	}
	return o
}

func scalar(name string, v float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: v}}
}

func (s *story) found(t *testing.T, d *datadriven.TestData) core.AgentFound {
	id := word(d, "id", "A1")
	return core.AgentFound{Agent: core.Agent{
		ID: id, Hostname: word(d, "host", strings.ToLower(id)), Limits: true,
		Total: messages.Resources{CPUs: number(t, d, "total-cpus", 4), MemMB: number(t, d, "total-mem", 4096)},
	}}
}

// surveyed: registered=(A1) draining=(A1) recovered=() unreachable=() executors=(A1) nodes=(a1,a2) tainted=(a1) drained=(a1) incomplete. Node a1 is of
// agent A1.
func (s *story) surveyed(d *datadriven.TestData) core.Surveyed {
	list := func(key string) []string {
		return strings.FieldsFunc(word(d, key, ""), func(r rune) bool { return r == ',' })
	}
	ev := core.Surveyed{Complete: !d.HasArg("incomplete"), Recovered: list("recovered"), Unreachable: list("unreachable"), Draining: list("draining"),
		Registered: map[string]string{}, Executors: map[string]*mesos.ExecutorInfo{}}
	for _, id := range list("registered") {
		ev.Registered[id] = strings.ToLower(id)
	}
	for _, id := range list("executors") {
		role := word(d, "executor-role", "*")
		share := []mesos.Resource{scalar("cpus", 0.7), scalar("mem", 300)}
		for i := range share {
			share[i].AllocationInfo = &mesos.Resource_AllocationInfo{Role: &role}
		}
		ev.Executors[id] = procure.Executor(storyConfig.Procure(), "fw", share)
	}
	for _, name := range list("nodes") {
		ev.Nodes = append(ev.Nodes, core.NodeSeen{Name: name, AgentID: strings.ToUpper(name), Unreachable: slices.Contains(list("tainted"), name),
			Draining: slices.Contains(list("drained"), name)})
	}
	return ev
}

// markerAnswer is the answer for the made-up task of a Reconcile.
func markerAnswer(effect core.Effect) core.StatusUpdate {
	var status mesos.TaskStatus
	for id, agent := range effect.(core.Reconcile).Tasks {
		if strings.HasPrefix(id, "mesopod-reconciliation-") {
			status = mesos.TaskStatus{TaskID: mesos.TaskID{Value: id}, AgentID: &mesos.AgentID{Value: agent}, State: mesos.TASK_UNKNOWN.Enum(),
				Source: mesos.SOURCE_MASTER.Enum(), Reason: mesos.REASON_RECONCILIATION.Enum()}
		}
	}
	return core.StatusUpdate{Status: status}
}

func (s *story) status(t *testing.T, d *datadriven.TestData) core.StatusUpdate {
	state, known := mesos.TaskState_value["TASK_"+word(d, "state", "")]
	if !known {
		t.Fatalf("%s: unknown state", d.Pos)
	}
	source := map[string]mesos.TaskStatus_Source{"executor": mesos.SOURCE_EXECUTOR, "agent": mesos.SOURCE_AGENT, "master": mesos.SOURCE_MASTER}[word(d, "source", "executor")]
	message := word(d, "message", "")
	status := mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: word(d, "task", "uid-web.1")}, AgentID: &mesos.AgentID{Value: word(d, "agent", "A1")},
		State: mesos.TaskState(state).Enum(), Source: &source, Message: &message, UUID: []byte(word(d, "uuid", "")),
	}
	if reason, given := mesos.TaskStatus_Reason_value["REASON_"+word(d, "reason", "-")]; given {
		status.Reason = mesos.TaskStatus_Reason(reason).Enum()
	}
	return core.StatusUpdate{Status: status}
}

func word(d *datadriven.TestData, key, other string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			return strings.Join(arg.Vals, ",")
		}
	}
	return other
}

func number(t *testing.T, d *datadriven.TestData, key string, other float64) float64 {
	text := word(d, key, "")
	if text == "" {
		return other
	}
	var v float64
	if _, err := fmt.Sscan(text, &v); err != nil {
		t.Fatalf("%s: %s: %v", d.Pos, key, err)
	}
	return v
}

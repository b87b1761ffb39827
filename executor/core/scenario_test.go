package core_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// TestScenarios runs the stories in testdata. Each file begins with a comment that names the spec rows it proves.
// Rewrite the outputs with -rewrite and read the diff as a change of behaviour.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newStory(core.Config{})
		datadriven.RunTest(t, path, s.run)
	})
}

// story is one scenario: a core, a clock, and what the API server and the kubelet show.
type story struct {
	core    *core.Core
	now     time.Time
	start   time.Time
	kubelet map[string]*corev1.Pod
	cfg     core.Config
	// saves shows the effect Save, which almost every step has. disk is what was saved.
	saves bool
	disk  [][]ledger.Record
}

const node = "a1"

// names gives uuids that a person can read: u1, u2, ...
func names() func() []byte {
	n := 0
	return func() []byte {
		n++
		uuid := make([]byte, ledger.UUIDBytes)
		copy(uuid, "u"+strconv.Itoa(n))
		return uuid
	}
}

func name(uuid []byte) string { return string(bytes.TrimRight(uuid, "\x00")) }

func newStory(cfg core.Config) *story {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if cfg.Node == "" {
		cfg.Node, cfg.NewUUID = node, names()
		cfg.LaunchGrace, cfg.SuicideTimeout = 5*time.Minute, 20*time.Minute
	}
	return &story{core: core.New(cfg), cfg: cfg, now: start, start: start, kubelet: map[string]*corev1.Pod{}}
}

// step gives one event to the core, saves what it says, and returns the effects as text.
func (s *story) step(ev core.Event) string {
	effects := s.core.Step(s.now, ev)
	for i, e := range effects {
		if save, ok := e.(core.Save); ok {
			if i != 0 {
				panic("an effect comes before what must be on the disk for it")
			}
			s.disk = append(s.disk, save.Records)
			if !s.saves {
				effects = effects[1:]
			}
			break
		}
	}
	return show(effects)
}

// restart is kill -9 of the executor and its next start. The kubelet's watch and list are new then, too.
func (s *story) restart(t *testing.T, d *datadriven.TestData) string {
	cfg := s.cfg
	var file []byte
	file, err := ledger.AppendHeader(nil, ledger.Owner{})
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	for _, records := range s.disk {
		records = slices.DeleteFunc(slices.Clone(records), func(r ledger.Record) bool {
			lost := text(t, d, "lost", "")
			return lost != "" && strings.HasPrefix(r.String(), lost)
		})
		if file, err = ledger.AppendRecords(file, records...); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	_, records, damage := ledger.Decode(file)
	if err := damage.Err(); err != nil {
		d.Fatalf(t, "%v", err)
	}
	cfg.Ledger = ledger.Replay(records)
	if d.HasArg("lost") {
		cfg.Ledger.SetDamaged(true)
	}
	s.core, s.kubelet = core.New(cfg), map[string]*corev1.Pod{}
	return s.unacknowledged()
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "config":
		cfg := core.Config{Node: node, NewUUID: names()}
		cfg.LaunchGrace = duration(t, d, "launch-grace", 5*time.Minute)
		cfg.SuicideTimeout = duration(t, d, "suicide", 20*time.Minute)
		*s = *newStory(cfg)
		return ""
	case "wait":
		return s.wait(t, d)
	case "saves":
		s.saves = true
		return ""
	case "restart":
		return s.restart(t, d)
	case "unacknowledged":
		return s.unacknowledged()
	case "snapshot":
		return s.snapshot()
	case "ack":
		return s.ack(t, d)
	}
	ev := s.event(t, d)
	return s.step(ev)
}

func (s *story) event(t *testing.T, d *datadriven.TestData) core.Event {
	switch d.Cmd {
	case "connected":
		return core.Connected{TaskKilling: d.HasArg("task-killing")}
	case "disconnected":
		return core.Disconnected{}
	case "launch":
		return core.Launch{TaskID: task(t, d), Data: launchData(t, d)}
	case "kill":
		kill := core.Kill{TaskID: task(t, d)}
		if d.HasArg("grace") {
			grace := duration(t, d, "grace", 0)
			kill.Grace = &grace
		}
		return kill
	case "shutdown":
		return core.Shutdown{Grace: duration(t, d, "grace", time.Minute), Why: "asked by the agent"}
	case "configured":
		configured := core.Configured{LaunchGrace: duration(t, d, "launch-grace", 0), SuicideTimeout: duration(t, d, "suicide", 0)}
		for _, name := range list(t, d, "static") {
			seconds := int64(10)
			configured.Static = append(configured.Static, core.StaticPod{Claim: "default/" + name + "@1", Pod: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-" + node, UID: types.UID("uid-" + name)},
				Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &seconds},
			}})
		}
		return configured
	case "message":
		return core.Message{Data: []byte(strings.TrimSpace(d.Input))}
	case "bound":
		return core.Bound{TaskID: task(t, d), Pod: apiPod(t, d, s.now)}
	case "bind-failed":
		return core.BindFailed{TaskID: task(t, d), Err: failure(t, d)}
	case "delete-failed":
		return core.DeleteFailed{TaskID: task(t, d), Err: failure(t, d)}
	case "pod-changed":
		return core.PodChanged{Pod: apiPod(t, d, s.now)}
	case "pods-listed":
		var listed core.PodsListed
		for _, arg := range d.CmdArgs {
			listed.UIDs = append(listed.UIDs, types.UID("uid-"+arg.Key))
		}
		return listed
	case "pod-gone":
		return core.PodGone{UID: uid(t, d)}
	case "kubelet-ready":
		return core.KubeletReady{}
	case "kubelet-ended":
		return core.KubeletEnded{Err: errors.New("panic in the sync loop")}
	case "kubelet-pod":
		pod := kubeletPod(t, d, s.now)
		s.kubelet[text(t, d, "pod", "")] = pod
		return core.KubeletPod{Pod: pod}
	case "kubelet-pods":
		var list core.KubeletPods
		for _, arg := range d.CmdArgs {
			if s.kubelet[arg.Key] == nil {
				d.Fatalf(t, "the kubelet never showed pod %s", arg.Key)
			}
			list.Pods = append(list.Pods, s.kubelet[arg.Key])
		}
		return list
	}
	d.Fatalf(t, "unknown command")
	return nil
}

// wait lets the time of the first argument pass, with a Tick at each deadline.
func (s *story) wait(t *testing.T, d *datadriven.TestData) string {
	span, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	var b strings.Builder
	end := s.now.Add(span)
	for range 1000 {
		at, armed := s.core.NextDeadline()
		if !armed || at.After(end) {
			break
		}
		s.now = at
		effects := s.step(core.Tick{})
		fmt.Fprintf(&b, "at %s\n%s", s.now.Sub(s.start), effects)
	}
	s.now = end
	return b.String()
}

func (s *story) unacknowledged() string {
	tasks, updates := s.core.Unacknowledged()
	var b strings.Builder
	fmt.Fprintf(&b, "tasks %s\n", strings.Join(tasks, " "))
	for _, u := range updates {
		fmt.Fprintf(&b, "update %s %s %s\n", u.TaskID, u.State, name(u.UUID))
	}
	return b.String()
}

func (s *story) snapshot() string {
	v := s.core.Snapshot()
	var b strings.Builder
	fmt.Fprintf(&b, "connected=%t kubelet=%t shutting-down=%t ended=%t pods=%d held by: %s\n",
		v.Connected, v.KubeletReady, v.ShuttingDown, v.Ended, v.FedPods, v.HeldBy)
	for _, t := range v.Tasks {
		fmt.Fprintf(&b, "task %s %s/%s %s unacknowledged=%d\n", t.TaskID, t.Namespace, t.Name, t.State, t.Unacknowledged)
	}
	return b.String()
}

// ack acknowledges updates by the names of their uuids, or all that are open.
func (s *story) ack(t *testing.T, d *datadriven.TestData) string {
	var b strings.Builder
	_, open := s.core.Unacknowledged()
	if d.HasArg("all") {
		for _, u := range open {
			b.WriteString(s.step(core.Acknowledged{TaskID: u.TaskID, UUID: u.UUID}))
		}
		return b.String()
	}
	uuid := make([]byte, ledger.UUIDBytes)
	copy(uuid, text(t, d, "uuid", ""))
	return s.step(core.Acknowledged{TaskID: task(t, d), UUID: uuid})
}

func show(effects []core.Effect) string {
	var b strings.Builder
	line := func(why, format string, args ...any) {
		fmt.Fprintf(&b, "%-70s why: %s\n", fmt.Sprintf(format, args...), why)
	}
	for _, e := range effects {
		switch e := e.(type) {
		case core.Save:
			line(e.Why, "save %d", len(e.Records))
		case core.Bind:
			line(e.Why, "bind %s/%s uid=%s node=%s keys=%d", e.Namespace, e.Name, e.UID, e.Node, len(e.Annotations))
		case core.Patch:
			line(e.Why, "patch %s/%s uid=%s node=%s keys=%d", e.Namespace, e.Name, e.UID, e.Node, len(e.Annotations))
		case core.SendUpdate:
			line(e.Why, "update %s", showUpdate(e.Update))
		case core.Feed:
			line(e.Why, "feed [%s]", showPods(e.Pods))
		case core.FeedStatic:
			line(e.Why, "feed-static [%s]", showPods(e.Pods))
		case core.DeletePod:
			line(e.Why, "delete-pod %s/%s uid=%s grace=%s", e.Namespace, e.Name, e.UID, e.Grace)
		case core.EvictPod:
			line(e.Why, "evict-pod %s/%s uid=%s grace=%s", e.Namespace, e.Name, e.UID, e.Grace)
		case core.StopContainers:
			line(e.Why, "stop-containers uid=%s grace=%s", e.UID, e.Grace)
		case core.Exit:
			line(e.Why, "exit %d", e.Code)
		case core.Note:
			line(e.Why, "note %s", e.TaskID)
		default:
			panic(fmt.Sprintf("effect %T is not shown", e))
		}
	}
	return b.String()
}

func showUpdate(u ledger.Update) string {
	out := fmt.Sprintf("%s %s %s %q", u.TaskID, u.State, name(u.UUID), u.Message)
	if u.Reason != nil {
		out += " " + u.Reason.String()
	}
	if u.Healthy != nil {
		out += fmt.Sprintf(" healthy=%t", *u.Healthy)
	}
	if len(u.PodIPs) > 0 {
		out += " ips=" + strings.Join(u.PodIPs, ",")
	}
	for _, key := range slices.Sorted(maps.Keys(u.Labels)) {
		out += fmt.Sprintf(" %s=%q", key, u.Labels[key])
	}
	if len(u.Data) > 0 {
		if status, err := messages.DecodeStatus(u.Data); err != nil {
			out += " data: " + err.Error()
		} else {
			out += fmt.Sprintf(" data=%s:%s", status.Name, status.Status.Phase)
		}
	}
	return out
}

func showPods(pods []*corev1.Pod) string {
	var all []string
	for _, p := range pods {
		one := p.Namespace + "/" + p.Name + " v" + p.ResourceVersion
		if p.DeletionTimestamp != nil {
			one += fmt.Sprintf(" deleted grace=%ds", *p.DeletionGracePeriodSeconds)
		}
		all = append(all, one)
	}
	return strings.Join(all, ", ")
}

// The arguments of commands.

func text(t *testing.T, d *datadriven.TestData, key, otherwise string) string {
	if d.HasArg(key) {
		d.ScanArgs(t, key, &otherwise)
	}
	return otherwise
}

func duration(t *testing.T, d *datadriven.TestData, key string, otherwise time.Duration) time.Duration {
	given := text(t, d, key, "")
	if given == "" {
		return otherwise
	}
	span, err := time.ParseDuration(given)
	if err != nil {
		d.Fatalf(t, "%s: %v", key, err)
	}
	return span
}

func uid(t *testing.T, d *datadriven.TestData) types.UID {
	return types.UID(text(t, d, "uid", "uid-"+text(t, d, "pod", "")))
}

func task(t *testing.T, d *datadriven.TestData) string {
	return text(t, d, "task", messages.TaskID(uid(t, d), 1))
}

func failure(t *testing.T, d *datadriven.TestData) error {
	kinds := map[string]error{
		"unavailable": errdefs.ErrUnavailable, "conflict": errdefs.ErrConflict, "not-found": errdefs.ErrNotFound,
		"refused": errdefs.ErrRefused, "lost": errdefs.ErrLost,
	}
	kind := kinds[text(t, d, "err", "")]
	if kind == nil {
		d.Fatalf(t, "no such error")
	}
	return fmt.Errorf("api server: %w", kind)
}

// list are the words of an argument with a plus between them.
func list(t *testing.T, d *datadriven.TestData, key string) []string {
	return strings.FieldsFunc(text(t, d, key, ""), func(r rune) bool { return r == '+' })
}

// launchData is the input as it is, or an envelope made from the arguments.
func launchData(t *testing.T, d *datadriven.TestData) []byte {
	if d.HasArg("data") {
		return []byte(text(t, d, "data", ""))
	}
	if d.HasArg("static") {
		var claims []string
		for _, name := range list(t, d, "static") {
			claims = append(claims, "default/"+name+"@1")
		}
		data, err := messages.EncodeLaunch(messages.Launch{TaskID: text(t, d, "envelope-task", task(t, d)), Node: text(t, d, "node", node), StaticPods: claims})
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return data
	}
	pod := basePod(t, d)
	pod.Annotations["team"] = "somebody's"
	pod.Annotations[messages.AnnotationBindingHost] = text(t, d, "host", node)
	for _, key := range []string{messages.AnnotationBindingHost, messages.AnnotationTaskID} {
		if pod.Annotations[key] == "-" {
			delete(pod.Annotations, key)
		}
	}
	pod.Spec.NodeName = text(t, d, "node-name", "")
	data, err := messages.EncodeLaunch(messages.Launch{TaskID: text(t, d, "envelope-task", task(t, d)), Node: text(t, d, "node", node), Pod: pod})
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return data
}

func basePod(t *testing.T, d *datadriven.TestData) *corev1.Pod {
	grace := int64(duration(t, d, "pod-grace", 30*time.Second) / time.Second)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: text(t, d, "pod", ""), UID: uid(t, d), ResourceVersion: text(t, d, "rv", "1"),
			Annotations: map[string]string{messages.AnnotationTaskID: text(t, d, "annotation", task(t, d))},
		},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "main"}},
			TerminationGracePeriodSeconds: &grace,
		},
	}
}

func apiPod(t *testing.T, d *datadriven.TestData, now time.Time) *corev1.Pod {
	pod := basePod(t, d)
	pod.Spec.NodeName = text(t, d, "node", node)
	if pod.Annotations[messages.AnnotationTaskID] == "-" {
		pod.Annotations = nil
	}
	if d.HasArg("mirror") {
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	}
	if d.HasArg("deleted") {
		grace := duration(t, d, "deleted", 0)
		seconds := int64(grace / time.Second)
		pod.DeletionTimestamp = &metav1.Time{Time: now.Add(grace)}
		pod.DeletionGracePeriodSeconds = &seconds
	}
	return pod
}

func kubeletPod(t *testing.T, d *datadriven.TestData, now time.Time) *corev1.Pod {
	pod := apiPod(t, d, now)
	pod.Status.Phase = corev1.PodPhase(text(t, d, "phase", "Pending"))
	pod.Status.PodIP = text(t, d, "ip", "")
	pod.Status.Reason = text(t, d, "reason", "")
	if ready := text(t, d, "ready", ""); ready != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionStatus(ready)}}
	}
	state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	switch {
	case d.HasArg("exit"):
		code, _ := strconv.Atoi(text(t, d, "exit", ""))
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code)}}
	case pod.Status.Phase == corev1.PodRunning:
		state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	}
	one := corev1.ContainerStatus{Name: "main", State: state}
	if d.HasArg("restarts") {
		restarts, _ := strconv.Atoi(text(t, d, "restarts", ""))
		code, _ := strconv.Atoi(text(t, d, "last-exit", "1"))
		one.RestartCount, one.LastTerminationState.Terminated = int32(restarts), &corev1.ContainerStateTerminated{ExitCode: int32(code)}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{one}
	return pod
}

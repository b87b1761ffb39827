package messages_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// TestReasons proves the table "Status message strings": schedulers match on them, byte for byte.
func TestReasons(t *testing.T) {
	for reason, want := range map[messages.Reason]string{
		messages.ReasonBound:         "create-binding-success",
		messages.ReasonBindingFailed: "create-binding-failure",
		messages.ReasonPatchFailed:   "annotation-update-failure",
		messages.ReasonLaunchFailed:  "launch-task-failed",
		messages.ReasonUnregistered:  "executor-unregistered",
		messages.ReasonBadData:       "unmarshal-task-data-failure",
		messages.ReasonDisappeared:   "containers-disappeared",
		messages.ReasonKilled:        "task-killed",
		messages.ReasonDeleted:       "pod-deleted",
		messages.ReasonLostAck:       "task-lost-ack",
		messages.ReasonShutdown:      "executor-shutdown",
		messages.ReasonKubeletFailed: "kubelet-pod-launch-failed",
		messages.ReasonWrongNode:     "pod-for-wrong-slave-failure",
	} {
		if string(reason) != want {
			t.Errorf("reason %q, want %q", reason, want)
		}
	}
	if got := messages.Running("default", "web"); got != "pod-running:web_default" {
		t.Errorf("Running = %q (EX-51)", got)
	}
	if got := messages.ReasonFailed.Detail("container web: Error, exit code 3"); got != "pod-failed: container web: Error, exit code 3" {
		t.Errorf("Detail = %q (EX-58)", got)
	}
	if got := messages.ReasonFailed.Detail(""); got != "pod-failed" {
		t.Errorf("Detail of nothing = %q", got)
	}
}

func TestAnnotations(t *testing.T) {
	for key, want := range map[string]string{
		messages.AnnotationBindingHost:       "k8s.mesosphere.io/bindingHost",
		messages.AnnotationTaskID:            "k8s.mesosphere.io/taskId",
		messages.AnnotationAgentID:           "k8s.mesosphere.io/slaveId",
		messages.AnnotationOfferID:           "k8s.mesosphere.io/offerId",
		messages.AnnotationExecutorID:        "k8s.mesosphere.io/executorId",
		messages.AnnotationExecutorResources: "k8s.mesosphere.io/executorResources",
	} {
		if key != want || !messages.IsOurs(key) {
			t.Errorf("annotation key %q, want %q and ours", key, want)
		}
	}
	all := map[string]string{messages.AnnotationTaskID: "t", "k8s.mesosphere.io.example.org/x": "no", "team": "no"}
	// EX-14, EX-29, EX-30: only ours, and never nil, which a patch would send as null.
	if diff := cmp.Diff(map[string]string{messages.AnnotationTaskID: "t"}, messages.OurAnnotations(all)); diff != "" {
		t.Errorf("OurAnnotations, -want +got:\n%s", diff)
	}
	if messages.OurAnnotations(nil) == nil {
		t.Error("OurAnnotations(nil) = nil")
	}
}

func TestTaskID(t *testing.T) {
	id := messages.TaskID("5d1c8f0a", 12)
	if id != "5d1c8f0a.12" {
		t.Errorf("TaskID = %q", id)
	}
	if uid, attempt, err := messages.ParseTaskID(id); uid != "5d1c8f0a" || attempt != 12 || err != nil {
		t.Errorf("ParseTaskID(%q) = %q, %d, %v", id, uid, attempt, err)
	}
	for _, bad := range []string{"", "u", ".1", "u.", "u.0", "u.-1", "u.+1", "u.01", "u.1.2", "u.x", "u.1 ", "u.99999999999999999999"} {
		if uid, attempt, err := messages.ParseTaskID(bad); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("ParseTaskID(%q) = %q, %d, %v; want ErrInvalid", bad, uid, attempt, err)
		}
	}
	if got := messages.TaskName("default", "web"); got != "web.default.pod" {
		t.Errorf("TaskName = %q", got)
	}
	if got := messages.PodFullName("default", "web"); got != "web_default" {
		t.Errorf("PodFullName = %q", got)
	}
}

// TestEncodeLaunch proves EX-8 on the sending side: all faults are told together, by field.
func TestEncodeLaunch(t *testing.T) {
	_, err := messages.EncodeLaunch(messages.Launch{Pod: &corev1.Pod{}})
	if !errors.Is(err, errdefs.ErrInvalid) {
		t.Fatalf("EncodeLaunch of nothing = %v, want ErrInvalid", err)
	}
	for _, field := range []string{"taskID", "node", "pod.metadata.name", "pod.metadata.namespace", "pod.metadata.uid"} {
		if !strings.Contains(err.Error(), field+" is empty") {
			t.Errorf("error does not name %s: %v", field, err)
		}
	}

	managed := sampleLaunch()
	managed.Pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	data, err := messages.EncodeLaunch(managed)
	if err != nil || strings.Contains(string(data), "kubectl") {
		t.Errorf("managed fields are sent along, %v", err)
	}
	if managed.Pod.ManagedFields == nil {
		t.Error("EncodeLaunch changed its argument")
	}

	large := sampleLaunch()
	large.Pod.Annotations["large"] = strings.Repeat("x", messages.MaxLaunchBytes)
	if _, err := messages.EncodeLaunch(large); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), "default/web") {
		t.Errorf("EncodeLaunch of a large pod = %v, want ErrInvalid naming the pod", err)
	}
}

// TestDecodeLaunch proves EX-3, EX-4 (no envelope) and EX-8 (an envelope at fault).
func TestDecodeLaunch(t *testing.T) {
	good, err := messages.EncodeLaunch(sampleLaunch())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		data     string
		encoding bool
		say      string
	}{
		{"empty", "", false, "empty"},
		{"too long", strings.Repeat(" ", messages.MaxLaunchBytes+1), false, "at most"},
		{"rubbish", "rubbish", true, "invalid character"},
		{"cut off", string(good[:len(good)/2]), true, "unexpected end"},
		{"something after it", string(good) + "{}", true, "after top-level value"},
		{"another object", `{"kind":"Service","apiVersion":"v1"}`, true, "neither version nor pod"},
		{"a list", `[]`, true, "array"},
		{"null", `null`, true, "neither version nor pod"},
		{"a field of another type", `{"version":1,"pod":7}`, true, "number"},
		{"another version", `{"version":2,"pod":{}}`, false, "version 2"},
		{"no version", `{"pod":{}}`, false, "version 0"},
		{"no pod", `{"version":1,"taskID":"t","node":"a1"}`, false, "pod is empty"},
		{"no name", `{"version":1,"taskID":"t","node":"a1","pod":{"metadata":{"namespace":"d","uid":"u"}}}`, false, "pod.metadata.name is empty"},
		{"no namespace", `{"version":1,"taskID":"t","node":"a1","pod":{"metadata":{"name":"n","uid":"u"}}}`, false, "pod.metadata.namespace is empty"},
		{"no uid", `{"version":1,"taskID":"t","node":"a1","pod":{"metadata":{"name":"n","namespace":"d"}}}`, false, "pod.metadata.uid is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := messages.DecodeLaunch([]byte(tt.data))
			if !errors.Is(err, errdefs.ErrInvalid) || errors.Is(err, messages.ErrEncoding) != tt.encoding || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("DecodeLaunch = %v; want ErrInvalid, ErrEncoding %t, saying %q", err, tt.encoding, tt.say)
			}
			if diff := cmp.Diff(messages.Launch{}, got); diff != "" {
				t.Errorf("half an envelope came with the error:\n%s", diff)
			}
		})
	}
}

func TestDecodeStatus(t *testing.T) {
	for _, bad := range []string{"", "rubbish", "{}", `{"metadata":{"name":""}}`, "[]"} {
		if got, err := messages.DecodeStatus([]byte(bad)); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("DecodeStatus(%q) = %v, %v; want ErrInvalid", bad, got, err)
		}
	}
}

// TestFrameworkMessages proves EX-84 to EX-86, EX-88: both tongues are understood, anything else is an error.
func TestFrameworkMessages(t *testing.T) {
	lost := messages.FrameworkMessage{Version: 1, Kind: messages.TaskLost, TaskID: "u.1"}
	suicide := messages.FrameworkMessage{Version: 1, Kind: messages.Suicide}
	for data, want := range map[string]messages.FrameworkMessage{
		"task-lost:u.1": lost,
		"kamikaze":      suicide,
		`{"version":1,"kind":"TaskLost","taskID":"u.1"}`: lost,
		`{"version":1,"kind":"Suicide"}`:                 suicide,
	} {
		got, err := messages.DecodeFrameworkMessage([]byte(data))
		if err != nil || got != want {
			t.Errorf("DecodeFrameworkMessage(%q) = %+v, %v; want %+v", data, got, err, want)
		}
	}
	for _, bad := range []string{
		"", "task-lost:", "task-lost:\xff", "kamikaze ", "hello", "{}", `{"kind":"Suicide"}`, `{"version":2,"kind":"Suicide"}`,
		`{"version":1,"kind":"TaskLost"}`, `{"version":1,"kind":"Dance"}`, `{"version":1,"kind":"Suicide"} x`,
	} {
		if got, err := messages.DecodeFrameworkMessage([]byte(bad)); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("DecodeFrameworkMessage(%q) = %+v, %v; want ErrInvalid", bad, got, err)
		}
	}
	if _, err := messages.EncodeFrameworkMessage(messages.FrameworkMessage{Kind: messages.TaskLost}); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("EncodeFrameworkMessage without a task id = %v, want ErrInvalid", err)
	}
}

// TestNodeCapacity proves EX-107, EX-111.
func TestNodeCapacity(t *testing.T) {
	executor := messages.Resources{CPUs: 0.5, MemMB: 256}
	for _, tt := range []struct {
		name            string
		agent, executor messages.Resources
		want            messages.Capacity // zero for an error
	}{
		{"half a core stays", messages.Resources{CPUs: 4, MemMB: 2048}, executor, messages.Capacity{Cores: 4, MilliCPU: 3500, MemoryBytes: 1792 << 20}},
		{"whole MiB", messages.Resources{CPUs: 1.5, MemMB: 300.7}, executor, messages.Capacity{Cores: 1, MilliCPU: 1000, MemoryBytes: 44 << 20}},
		{"decimals that binary numbers do not have", messages.Resources{CPUs: 4.1, MemMB: 1024}, messages.Resources{CPUs: 0.1}, messages.Capacity{Cores: 4, MilliCPU: 4000, MemoryBytes: 1 << 30}},
		{"the least", messages.Resources{CPUs: 1.4, MemMB: 288}, messages.Resources{CPUs: 0.4, MemMB: 256}, messages.Capacity{Cores: 1, MilliCPU: 1000, MemoryBytes: 32 << 20}},
		{"no core left", messages.Resources{CPUs: 1.4, MemMB: 2048}, executor, messages.Capacity{}},
		{"no memory left", messages.Resources{CPUs: 4, MemMB: 280}, executor, messages.Capacity{}},
		{"less than the executor", messages.Resources{CPUs: 4, MemMB: 100}, executor, messages.Capacity{}},
		{"nothing", messages.Resources{}, executor, messages.Capacity{}},
		{"not a number", messages.Resources{CPUs: math.NaN(), MemMB: 2048}, executor, messages.Capacity{}},
		{"endless", messages.Resources{CPUs: math.Inf(1), MemMB: math.Inf(1)}, executor, messages.Capacity{Cores: 1 << 40, MilliCPU: 1000 << 40, MemoryBytes: 1 << 60}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := messages.NodeCapacity(tt.agent, tt.executor)
			wantErr := tt.want == messages.Capacity{}
			if got != tt.want || errors.Is(err, errdefs.ErrInvalid) != wantErr {
				t.Errorf("NodeCapacity = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
	if got := (messages.Resources{CPUs: 0.5, MemMB: 256}).String(); got != "cpus:0.5;mem:256;disk:0" {
		t.Errorf("String = %q", got)
	}
}

// TestRoundTrip: decode after encode is the identity.
func TestRoundTrip(t *testing.T) {
	want := sampleLaunch()
	data, err := messages.EncodeLaunch(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := messages.DecodeLaunch(data)
	if err != nil {
		t.Fatal(err)
	}
	want.Version = messages.LaunchVersion
	byText := cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })
	if diff := cmp.Diff(want, got, byText); diff != "" {
		t.Errorf("launch, -want +got:\n%s", diff)
	}
	if uid, _, err := messages.ParseTaskID(got.TaskID); err != nil || uid != types.UID(got.Pod.UID) {
		t.Errorf("the task id names pod %q, %v", uid, err)
	}
}

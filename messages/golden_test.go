package messages_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/messages"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

// golden compares what crosses a process boundary with its file, byte for byte but for indentation.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, got, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, pretty.Bytes()) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", path, pretty.Bytes(), want)
	}
}

func samplePod() *corev1.Pod {
	grace := int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "5d1c8f0a-6f0e-4f0e-9d3a-0c6f2b9f1a11", ResourceVersion: "42",
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
			Labels:            map[string]string{"app": "web"},
			Annotations: map[string]string{
				messages.AnnotationBindingHost: "a1",
				messages.AnnotationTaskID:      "5d1c8f0a-6f0e-4f0e-9d3a-0c6f2b9f1a11.1",
				messages.AnnotationAgentID:     "agent-S1",
				messages.AnnotationOfferID:     "offer-O7",
				messages.AnnotationExecutorID:  messages.ExecutorID,
				"team":                         "somebody's",
			},
		},
		Spec: corev1.PodSpec{
			SchedulerName:                 messages.DefaultSchedulerName,
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "web", Image: "mesopod.local/web:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}},
			}},
		},
	}
}

func sampleLaunch() messages.Launch {
	pod := samplePod()
	return messages.Launch{TaskID: messages.TaskID(pod.UID, 1), Node: "a1", Pod: pod}
}

// TestGoldens proves EX-33, EX-51, EX-84, EX-86: the bytes on the wire are what earlier builds wrote and read.
func TestGoldens(t *testing.T) {
	launch, err := messages.EncodeLaunch(sampleLaunch())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "launch.json", launch)

	starting, err := messages.EncodeStatus("default", "web", corev1.PodStatus{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "status_starting.json", starting)

	running, err := messages.EncodeStatus("default", "web", corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "10.89.0.11", PodIP: "10.89.1.5", PodIPs: []corev1.PodIP{{IP: "10.89.1.5"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "status_running.json", running)

	for file, m := range map[string]messages.FrameworkMessage{
		"message_task_lost.json": {Kind: messages.TaskLost, TaskID: "5d1c8f0a-6f0e-4f0e-9d3a-0c6f2b9f1a11.1"},
		"message_suicide.json":   {Kind: messages.Suicide},
	} {
		data, err := messages.EncodeFrameworkMessage(m)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, file, data)
	}
}

// TestGoldensDecode: what earlier builds wrote is still read.
func TestGoldensDecode(t *testing.T) {
	read := func(file string) []byte {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	launch, err := messages.DecodeLaunch(read("launch.json"))
	if err != nil || launch.Node != "a1" || launch.Pod.Name != "web" || launch.Pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() != 100 {
		t.Errorf("launch.json = %+v, %v", launch, err)
	}
	status, err := messages.DecodeStatus(read("status_running.json"))
	if err != nil || status.Name != "web_default" || status.Status.PodIP != "10.89.1.5" {
		t.Errorf("status_running.json = %+v, %v", status, err)
	}
	lost, err := messages.DecodeFrameworkMessage(read("message_task_lost.json"))
	if err != nil || lost.Kind != messages.TaskLost || lost.TaskID == "" {
		t.Errorf("message_task_lost.json = %+v, %v", lost, err)
	}
	suicide, err := messages.DecodeFrameworkMessage(read("message_suicide.json"))
	if err != nil || suicide.Kind != messages.Suicide {
		t.Errorf("message_suicide.json = %+v, %v", suicide, err)
	}
}

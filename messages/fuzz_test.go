package messages_test

import (
	"bytes"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// FuzzDecodeLaunch: it never panics, errors are ErrInvalid, and what it reads can be written and read again.
func FuzzDecodeLaunch(f *testing.F) {
	good, err := messages.EncodeLaunch(sampleLaunch())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(good), "", "{}", "null", `{"version":1,"pod":{}}`, string(good[:40]),
		`{"version":1,"taskID":"t","node":"a","pod":{"metadata":{"name":"n","namespace":"d","uid":"u"},` +
			`"spec":{"containers":[{"resources":{"limits":{"cpu":"0.5","memory":"1e9"}}}]}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := messages.DecodeLaunch(data)
		if err != nil {
			if !errors.Is(err, errdefs.ErrInvalid) {
				t.Fatalf("error is not ErrInvalid: %v", err)
			}
			return
		}
		written, err := messages.EncodeLaunch(first)
		if err != nil {
			// Escapes may make the text longer than it came.
			if len(data) < messages.MaxLaunchBytes/6 {
				t.Fatalf("read but cannot be written: %v", err)
			}
			return
		}
		second, err := messages.DecodeLaunch(written)
		if err != nil {
			t.Fatalf("written but cannot be read: %v\n%s", err, written)
		}
		again, err := messages.EncodeLaunch(second)
		if err != nil || !bytes.Equal(written, again) {
			t.Fatalf("written twice and differs, %v:\n%s\n%s", err, written, again)
		}
	})
}

func FuzzDecodeFrameworkMessage(f *testing.F) {
	for _, seed := range []string{"", "kamikaze", "task-lost:u.1", `{"version":1,"kind":"TaskLost","taskID":"u.1"}`, `{"version":1,"kind":"Suicide"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := messages.DecodeFrameworkMessage(data)
		if err != nil {
			if !errors.Is(err, errdefs.ErrInvalid) {
				t.Fatalf("error is not ErrInvalid: %v", err)
			}
			return
		}
		written, err := messages.EncodeFrameworkMessage(first)
		if err != nil {
			t.Fatalf("read but cannot be written: %v", err)
		}
		second, err := messages.DecodeFrameworkMessage(written)
		if err != nil || second != first {
			t.Fatalf("%+v became %+v, %v", first, second, err)
		}
	})
}

func FuzzDecodeStatus(f *testing.F) {
	good, err := messages.EncodeStatus("default", "web", corev1.PodStatus{Phase: corev1.PodRunning})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"metadata":{"name":"web_default","selfLink":"/podstatusresult"},"status":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := messages.DecodeStatus(data); err != nil && !errors.Is(err, errdefs.ErrInvalid) {
			t.Fatalf("error is not ErrInvalid: %v", err)
		}
	})
}

// FuzzStatus: decode after encode is the identity.
func FuzzStatus(f *testing.F) {
	f.Add("default", "web", "Running", "10.1.0.5", "a message")
	f.Add("", "", "", "", "")
	f.Fuzz(func(t *testing.T, namespace, pod, phase, ip, message string) {
		for _, s := range []string{namespace, pod, phase, ip, message} {
			if !utf8.ValidString(s) {
				t.Skip("JSON carries UTF-8 alone")
			}
		}
		want := corev1.PodStatus{Phase: corev1.PodPhase(phase), PodIP: ip, Message: message}
		data, err := messages.EncodeStatus(namespace, pod, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := messages.DecodeStatus(data)
		if err != nil {
			t.Fatal(err)
		}
		//lint:ignore SA1019 The fixed self link is what is checked.
		if got.Name != messages.PodFullName(namespace, pod) || got.SelfLink != "/podstatusresult" {
			t.Errorf("metadata = %+v", got.ObjectMeta)
		}
		if diff := cmp.Diff(want, got.Status); diff != "" {
			t.Errorf("status, -want +got:\n%s", diff)
		}
	})
}

// FuzzParseTaskID: what is read is written the same.
func FuzzParseTaskID(f *testing.F) {
	for _, seed := range []string{"u.1", "", ".", "u.01", "5d1c8f0a-6f0e-4f0e-9d3a-0c6f2b9f1a11.12"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		uid, attempt, err := messages.ParseTaskID(id)
		if err != nil {
			if !errors.Is(err, errdefs.ErrInvalid) || uid != types.UID("") || attempt != 0 {
				t.Fatalf("ParseTaskID = %q, %d, %v", uid, attempt, err)
			}
			return
		}
		if got := messages.TaskID(uid, attempt); got != id || attempt < 1 {
			t.Fatalf("TaskID(%q, %d) = %q, want %q", uid, attempt, got, id)
		}
	})
}

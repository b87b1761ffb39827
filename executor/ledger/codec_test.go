package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/errdefs"
)

var owner = ledger.Owner{Framework: "f1", Agent: "a1", Executor: "e1", Container: "c1"}

// sample is records of each kind, with all their fields.
func sample() []ledger.Record {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	reason, healthy, damaged := mesos.REASON_CONTAINER_LAUNCH_FAILED, true, true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web\n", UID: "uid-web"}}
	return []ledger.Record{
		{Task: &ledger.Task{ID: "uid-web.1", Seq: 1, State: "Binding", Launched: true, Namespace: "default", Name: "web", UID: "uid-web", Envelope: pod, LaunchBy: now}},
		{Update: &ledger.Update{
			TaskID: "uid-web.1", UUID: uuid(1), State: mesos.TASK_RUNNING, Reason: &reason, Message: "m", Data: []byte{0, '\n', 255},
			Timestamp: now, Healthy: &healthy, PodIPs: []string{"10.0.0.1"}, Labels: map[string]string{"a": "b"}}},
		{Task: &ledger.Task{ID: "uid-web.1", Seq: 1, State: "Killing", Launched: true, Acknowledged: true, Unsure: true, Killing: &ledger.Killing{
			State: mesos.TASK_KILLED, Message: "task-killed", Reason: &reason, Since: now, GraceEnds: now, ForceAt: now, Forced: true}}},
		{Pod: &ledger.Pod{TaskID: "uid-web.1", Object: pod, Fed: true, Dropped: true, APIGone: true, DeletedAt: now, DeletedGrace: 5}},
		{Deletion: &ledger.Deletion{TaskID: "uid-web.1", Namespace: "default", Name: "web", UID: "uid-web", Grace: -1}},
		{Acknowledged: &ledger.Acknowledgement{TaskID: "uid-web.1", UUID: uuid(1)}},
		{Forgotten: &ledger.Grave{TaskID: "uid-db.1", Unsure: true}},
		{PodGone: "uid-db"}, {DeletionDone: "uid-db.1"}, {Damaged: &damaged},
	}
}

func file(t testing.TB, records []ledger.Record) (data []byte, ends []int) {
	t.Helper()
	data, err := ledger.AppendHeader(nil, owner)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		ends = append(ends, len(data))
		if data, err = ledger.AppendRecords(data, r); err != nil {
			t.Fatal(err)
		}
	}
	return data, append(ends, len(data))
}

func TestDecode(t *testing.T) {
	data, _ := file(t, sample())
	got, records, damage := ledger.Decode(data)
	if got != owner || damage.Torn != 0 || damage.Err() != nil {
		t.Errorf("owner %v, torn %d, damage %v", got, damage.Torn, damage.Err())
	}
	if diff := cmp.Diff(sample(), records); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCut cuts the file at every byte: what was whole is there, the rest is a torn tail, and nothing counts as lost.
func TestCut(t *testing.T) {
	data, ends := file(t, sample())
	for cut := range data {
		_, records, damage := ledger.Decode(data[:cut])
		whole, last := 0, 0
		for i, end := range ends {
			if end <= cut {
				whole, last = i, end
			}
		}
		if damage.Err() != nil || damage.Torn != cut-last {
			t.Errorf("cut at %d: torn %d, want %d; damage %v", cut, damage.Torn, cut-last, damage.Err())
		}
		if diff := cmp.Diff(len(sample()[:whole]), len(records)); diff != "" {
			t.Errorf("cut at %d (-want +got):\n%s", cut, diff)
		}
	}
}

// TestFlip turns each bit of the file: at most one line is lost for it, and never in silence.
func TestFlip(t *testing.T) {
	data, _ := file(t, sample())
	for i := range data {
		for bit := range 8 {
			broken := bytes.Clone(data)
			broken[i] ^= 1 << bit
			_, records, damage := ledger.Decode(broken)
			if !errors.Is(damage.Err(), errdefs.ErrLost) && damage.Torn == 0 {
				t.Fatalf("bit %d of byte %d: no damage was seen", bit, i)
			}
			// A line feed that goes joins two lines.
			if len(records) < len(sample())-2 {
				t.Fatalf("bit %d of byte %d: %d records are left", bit, i, len(records))
			}
		}
	}
}

// A file of another version holds who knows what: nothing of it is taken, and that is said.
func TestVersion(t *testing.T) {
	data, _ := file(t, sample())
	line := []byte(`{"format":"mesopod-ledger","version":2}`)
	other := fmt.Appendf(nil, "%08x %s%s", crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli)), line, data[bytes.IndexByte(data, '\n'):])
	_, records, damage := ledger.Decode(other)
	if len(records) > 0 || damage.Err() == nil || !strings.Contains(damage.Err().Error(), "version 2") {
		t.Errorf("%d records of another version, damage %v", len(records), damage.Err())
	}
}

// FuzzDecode: no file makes a panic, and what is read, written and read again is the same.
func FuzzDecode(f *testing.F) {
	data, _ := file(f, sample())
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add([]byte("\n\n00000000 []\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, records, damage := ledger.Decode(data)
		if damage.Torn > len(data) {
			t.Fatalf("%d of %d bytes are torn", damage.Torn, len(data))
		}
		l := ledger.Replay(records)
		again := ledger.Replay(l.Snapshot())
		if diff := cmp.Diff(l.Snapshot(), again.Snapshot()); diff != "" {
			t.Fatalf("a snapshot of a snapshot (-want +got):\n%s", diff)
		}
	})
}

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/ledger"
)

var owner = ledger.Owner{Framework: "f", Agent: "a", Executor: "e", Container: "c1"}

// dying writes what its budget of bytes allows, then never again: the process is killed there, or the disk is full.
type dying struct {
	*os.File
	left *int
}

var errKilled = errors.New("killed")

func (d dying) Write(text []byte) (int, error) {
	if n := len(text); *d.left >= n {
		*d.left -= n
		return d.File.Write(text)
	}
	n, err := d.File.Write(text[:*d.left])
	*d.left = 0
	return n, errors.Join(err, errKilled)
}

func (d dying) Sync() error {
	if *d.left == 0 {
		return errKilled
	}
	return nil // the test reads through the kernel, not from the disk
}

func dyingAfter(bytes int) opener {
	return func(path string) (file, error) {
		f, err := os.Create(path)
		return dying{f, &bytes}, err
	}
}

// change is one step of the ledger's life.
func change(l *ledger.Ledger, n int) {
	id := fmt.Sprintf("t%d", n/4)
	uuid := []byte(fmt.Sprintf("%016d", n))
	uid := types.UID("uid-" + id)
	switch n % 4 {
	case 0:
		_ = l.AcceptTask(id)
		l.KeepTask(ledger.Task{ID: id, Seq: n, State: "Binding", UID: uid, Envelope: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: id, UID: uid}}})
	case 1:
		_ = l.Record(ledger.Update{TaskID: id, UUID: uuid, State: mesos.TASK_STARTING, Timestamp: time.Unix(int64(n), 0).UTC()})
		l.KeepTask(ledger.Task{ID: id, Seq: n, State: "Starting", UID: uid})
		l.KeepPod(ledger.Pod{TaskID: id, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: id, UID: uid}}})
	case 2:
		_ = l.Record(ledger.Update{TaskID: id, UUID: uuid, State: mesos.TASK_RUNNING, Data: []byte("status\n"), PodIPs: []string{"10.0.0.1"}})
		if n%8 == 2 {
			l.Acknowledge(id, []byte(fmt.Sprintf("%016d", n-1)))
		}
	case 3:
		l.KeepDeletion(ledger.Deletion{TaskID: id, UID: uid, Grace: time.Second})
		if n%8 == 3 {
			l.DropDeletion(id)
			l.DropPod(uid)
		}
	}
}

const changes = 20

// states are what the ledger says after each change.
func states() []string {
	l := ledger.New()
	all := []string{text(l)}
	for n := range changes {
		change(l, n)
		all = append(all, text(l))
	}
	return all
}

func text(l *ledger.Ledger) string {
	var b []byte
	for _, r := range l.Snapshot() {
		b, _ = ledger.AppendRecords(b, r)
	}
	return string(b)
}

// live runs the changes over a writer that dies, and returns how many were safe.
func live(folder string, bytes int) (safe int, whole bool) {
	f, l, err := openWith(folder, owner, dyingAfter(bytes))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for n := range changes {
		change(l, n)
		if f.Append(l.Journal()) != nil {
			return n, false
		}
		if n%7 == 6 && f.Rewrite(l.Snapshot()) != nil {
			return n + 1, false
		}
	}
	return changes, true
}

// TestCrashPoints kills the writer after so many bytes, at some place of each line: the next executor knows exactly what was safe, or that and
// the change which was under way.
func TestCrashPoints(t *testing.T) {
	want := states()
	for bytes := 0; ; bytes += 37 {
		folder := filepath.Join(t.TempDir(), "ledger")
		safe, whole := live(folder, bytes)
		f, l, err := Open(folder, owner)
		if err != nil {
			t.Fatalf("after %d bytes: %v", bytes, err)
		}
		if got := text(l); got != want[safe] && (safe == changes || got != want[safe+1]) {
			t.Fatalf("after %d bytes and %d safe changes (-want +got):\n%s", bytes, safe, cmp.Diff(want[safe], got))
		}
		if l.Damaged() {
			t.Fatalf("after %d bytes: a torn write counts as damage", bytes)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if whole {
			return
		}
	}
}

// A damaged file is said to be: what can be read is used, the file is kept aside, and the next Open still knows.
func TestDamaged(t *testing.T) {
	folder := t.TempDir()
	if _, whole := live(folder, 1<<20); !whole {
		t.Fatal("the writer died")
	}
	path := filepath.Join(folder, "c1"+suffix)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 4
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f, l, err := Open(folder, owner)
		if err != nil {
			t.Fatal(err)
		}
		if !l.Damaged() || len(l.Tasks()) < changes/4-1 {
			t.Errorf("damaged %t with %d tasks", l.Damaged(), len(l.Tasks()))
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	copied, err := os.ReadFile(filepath.Join(folder, "c1"+damagedSuffix))
	if err != nil || string(copied) != string(data) {
		t.Errorf("no copy of the damaged file: %v", err)
	}
}

// The ledger of another Mesos container is none of ours and goes; that of another framework under our name is refused
// with a word.
func TestOwner(t *testing.T) {
	folder := t.TempDir()
	if _, whole := live(folder, 1<<20); !whole {
		t.Fatal("the writer died")
	}
	other := owner
	other.Framework = "g"
	_, l, err := Open(folder, other)
	if err != nil || !l.Damaged() || len(l.Tasks()) > 0 {
		t.Errorf("another framework took over %d tasks, damaged=%t, error %v", len(l.Tasks()), l.Damaged(), err)
	}
	other = owner
	other.Container = "c2"
	_, l, err = Open(folder, other)
	if err != nil || l.Damaged() || len(l.Tasks()) > 0 {
		t.Errorf("another container took over %d tasks, damaged=%t, error %v", len(l.Tasks()), l.Damaged(), err)
	}
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(names) != 1 || !strings.HasSuffix(names[0], "c2"+suffix) {
		t.Errorf("left in the folder: %v %v", names, err)
	}
	for _, id := range []string{"", ".", "..", "a/b"} {
		other.Container = id
		if _, _, err := Open(folder, other); err == nil && id != "." && id != ".." {
			t.Errorf("container %q was taken", id)
		}
	}
}

// A file that is mostly old news is rewritten.
func TestFull(t *testing.T) {
	f, l, err := Open(t.TempDir(), owner)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	change(l, 0)
	for n := 0; !f.Full(); n++ {
		if n > leastFull {
			t.Fatal("never full")
		}
		l.KeepTask(ledger.Task{ID: "t0", Seq: n, Name: strings.Repeat("x", 1<<16)})
		if err := f.Append(l.Journal()); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Rewrite(l.Snapshot()); err != nil || f.Full() {
		t.Errorf("full %t after a rewrite, error %v", f.Full(), err)
	}
}

package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/errdefs"
)

func uuid(n int) []byte {
	b := make([]byte, ledger.UUIDBytes)
	copy(b, fmt.Sprint(n))
	return b
}

func update(task string, n int, state mesos.TaskState) ledger.Update {
	return ledger.Update{TaskID: task, UUID: uuid(n), State: state}
}

func record(t *testing.T, l *ledger.Ledger, u ledger.Update) {
	t.Helper()
	if err := l.Record(u); err != nil {
		t.Fatal(err)
	}
}

// open is the ledger's replay in short form.
func open(l *ledger.Ledger) (tasks, updates []string) {
	ids, us := l.Unacknowledged()
	for _, u := range us {
		updates = append(updates, fmt.Sprintf("%s %s", u.TaskID, u.State))
	}
	return ids, updates
}

func check(t *testing.T, l *ledger.Ledger, wantTasks, wantUpdates []string) {
	t.Helper()
	tasks, updates := open(l)
	if diff := cmp.Diff(wantTasks, tasks); diff != "" {
		t.Errorf("open tasks, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(wantUpdates, updates); diff != "" {
		t.Errorf("open updates, -want +got:\n%s", diff)
	}
}

// TestReplay proves EX-120: what is open goes along in order, until acknowledged. Per Mesos a task is acknowledged
// once any of its updates is.
func TestReplay(t *testing.T) {
	l := ledger.New()
	for _, id := range []string{"b", "a"} {
		if err := l.AcceptTask(id); err != nil {
			t.Fatal(err)
		}
	}
	check(t, l, []string{"b", "a"}, nil)

	record(t, l, update("a", 1, mesos.TASK_STARTING))
	record(t, l, update("b", 2, mesos.TASK_STARTING))
	record(t, l, update("a", 3, mesos.TASK_RUNNING))
	check(t, l, []string{"b", "a"}, []string{"a TASK_STARTING", "b TASK_STARTING", "a TASK_RUNNING"})

	if !l.Acknowledge("a", uuid(3)) {
		t.Error("Acknowledge of an open update = false, want true")
	}
	check(t, l, []string{"b"}, []string{"a TASK_STARTING", "b TASK_STARTING"})

	for _, repeat := range []struct {
		task string
		uuid []byte
	}{{"a", uuid(3)}, {"b", uuid(1)}, {"unknown", uuid(1)}, {"a", nil}} {
		if l.Acknowledge(repeat.task, repeat.uuid) {
			t.Errorf("Acknowledge(%s, %q) = true, want false", repeat.task, repeat.uuid)
		}
	}
	check(t, l, []string{"b"}, []string{"a TASK_STARTING", "b TASK_STARTING"})
}

// TestRecordRefuses proves EX-42, EX-78: forward only, and nothing after the end.
func TestRecordRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after mesos.TaskState
		then  ledger.Update
		want  error
	}{
		{"forward", mesos.TASK_STARTING, update("t", 2, mesos.TASK_RUNNING), nil},
		{"skipping", mesos.TASK_STARTING, update("t", 2, mesos.TASK_KILLED), nil},
		{"running again", mesos.TASK_RUNNING, update("t", 2, mesos.TASK_RUNNING), nil},
		{"back from running", mesos.TASK_RUNNING, update("t", 2, mesos.TASK_STARTING), errdefs.ErrRefused},
		{"back from killing", mesos.TASK_KILLING, update("t", 2, mesos.TASK_RUNNING), errdefs.ErrRefused},
		{"after the end", mesos.TASK_KILLED, update("t", 2, mesos.TASK_RUNNING), errdefs.ErrRefused},
		{"a second end", mesos.TASK_FINISHED, update("t", 2, mesos.TASK_LOST), errdefs.ErrRefused},
		{"staging", mesos.TASK_STARTING, update("t", 2, mesos.TASK_STAGING), errdefs.ErrInvalid},
		{"unreachable", mesos.TASK_STARTING, update("t", 2, mesos.TASK_UNREACHABLE), errdefs.ErrInvalid},
		{"no task", mesos.TASK_STARTING, update("", 2, mesos.TASK_RUNNING), errdefs.ErrInvalid},
		{"short uuid", mesos.TASK_STARTING, ledger.Update{TaskID: "t", UUID: []byte("u2"), State: mesos.TASK_RUNNING}, errdefs.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledger.New()
			record(t, l, update("t", 1, tt.after))
			err := l.Record(tt.then)
			if !errors.Is(err, tt.want) {
				t.Errorf("Record = %v, want %v", err, tt.want)
			}
			want := 1
			if tt.want == nil {
				want = 2
			}
			if got := l.Open("t"); got != want {
				t.Errorf("%d open updates, want %d", got, want)
			}
		})
	}
}

// TestAcceptTask proves EX-5, EX-11: one task is accepted once.
func TestAcceptTask(t *testing.T) {
	l := ledger.New()
	if err := l.AcceptTask("t"); err != nil {
		t.Fatal(err)
	}
	if err := l.AcceptTask("t"); !errors.Is(err, errdefs.ErrConflict) {
		t.Errorf("second AcceptTask = %v, want ErrConflict", err)
	}
	if err := l.AcceptTask(""); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("AcceptTask of no id = %v, want ErrInvalid", err)
	}
}

// TestUnknownTask proves EX-75, EX-89: an answer about a task that was never launched here is replayed, but the task
// itself is not claimed.
func TestUnknownTask(t *testing.T) {
	l := ledger.New()
	record(t, l, update("stranger", 1, mesos.TASK_LOST))
	check(t, l, nil, []string{"stranger TASK_LOST"})
}

func TestForget(t *testing.T) {
	l := ledger.New()
	if l.Forget("t") {
		t.Error("Forget of an unknown task = true")
	}
	if err := l.AcceptTask("t"); err != nil {
		t.Fatal(err)
	}
	record(t, l, update("t", 1, mesos.TASK_RUNNING))
	l.Acknowledge("t", uuid(1))
	if l.Forget("t") {
		t.Error("Forget of a live task = true")
	}
	record(t, l, update("t", 2, mesos.TASK_FINISHED))
	if l.Forget("t") {
		t.Error("Forget of a task with an open update = true")
	}
	if last, ok := l.Last("t"); !ok || last.State != mesos.TASK_FINISHED || !l.Ended("t") {
		t.Errorf("Last = %v, %t; want TASK_FINISHED and ended", last.State, ok)
	}
	l.Acknowledge("t", uuid(2))
	if !l.Forget("t") {
		t.Error("Forget of an ended, acknowledged task = false")
	}
	if _, ok := l.Last("t"); ok {
		t.Error("the task is still known")
	}
	check(t, l, nil, nil)
}

// TestCopies: nothing that is handed in or out shares memory with the ledger.
func TestCopies(t *testing.T) {
	l := ledger.New()
	healthy, reason := true, mesos.REASON_TASK_INVALID
	u := ledger.Update{TaskID: "t", UUID: uuid(1), State: mesos.TASK_RUNNING, Healthy: &healthy, Reason: &reason,
		Data: []byte("data"), PodIPs: []string{"10.0.0.1"}, Labels: map[string]string{"k": "v"}, Timestamp: time.Unix(1, 0)}
	want := u.Clone()
	spoil := func(u ledger.Update) {
		u.UUID[0], u.Data[0], u.PodIPs[0], u.Labels["k"], *u.Healthy, *u.Reason = 'x', 'x', "x", "x", false, 0
	}
	record(t, l, u)
	spoil(u)
	_, first := l.Unacknowledged()
	if diff := cmp.Diff(want, first[0]); diff != "" {
		t.Errorf("after spoiling what was recorded, -want +got:\n%s", diff)
	}
	spoil(first[0])
	last, _ := l.Last("t")
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("after spoiling what was replayed, -want +got:\n%s", diff)
	}
}

// TestLaws: over random calls the replay is exactly what was recorded and not acknowledged, in order, and no task has
// an update after its terminal one.
func TestLaws(t *testing.T) {
	states := []mesos.TaskState{mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_KILLING, mesos.TASK_KILLED, mesos.TASK_LOST}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		l := ledger.New()
		var want []ledger.Update
		ended := map[string]bool{}
		for n := range 100 {
			task := fmt.Sprint("t", r.IntN(5))
			switch r.IntN(4) {
			case 0:
				_ = l.AcceptTask(task) // a known one is refused, which is fine here
			case 1, 2:
				u := update(task, n, states[r.IntN(len(states))])
				if l.Record(u) == nil {
					if ended[task] {
						t.Fatalf("seed %d: task %s has an update after its end", seed, task)
					}
					ended[task] = ledger.IsTerminal(u.State)
					want = append(want, u)
				}
			case 3:
				if len(want) > 0 {
					at := r.IntN(len(want))
					l.Acknowledge(want[at].TaskID, want[at].UUID)
					want = append(want[:at:at], want[at+1:]...)
				}
			}
			_, got := l.Unacknowledged()
			if diff := cmp.Diff(want, got); len(want)+len(got) > 0 && diff != "" {
				t.Fatalf("seed %d: replay, -want +got:\n%s", seed, diff)
			}
		}
	}
}

package suicide_test

import (
	"testing"
	"time"

	"github.com/mesopod/mesopod/executor/suicide"
)

var start = time.Unix(1000, 0)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// TestWatch proves EX-92 to EX-94, EX-96: held means no deadline, idle time counts from the last thing that held.
func TestWatch(t *testing.T) {
	w := suicide.New(time.Minute)
	if _, armed := w.Deadline(); armed {
		t.Fatal("a new watch is armed")
	}
	for _, step := range []struct {
		name     string
		do       func()
		at       int
		due      bool
		deadline int // seconds, -1 for none
	}{
		{"held at start", func() {}, 1000, false, -1},
		{"idle", func() { w.Hold(at(10), "") }, 10, false, 70},
		{"idle still", func() { w.Hold(at(30), "") }, 69, false, 70},
		{"over", func() {}, 70, true, 70},
		{"a launch at that moment holds", func() { w.Hold(at(70), "1 live task") }, 70, false, -1},
		{"held past the old deadline (EX-100)", func() {}, 500, false, -1},
		{"idle anew", func() { w.Hold(at(500), "") }, 559, false, 560},
		{"a failed launch rearms (EX-90)", func() { w.Rearm(at(550)) }, 560, false, 610},
		{"over at last", func() { w.Hold(at(610), "") }, 610, true, 610},
	} {
		step.do()
		if got := w.Due(at(step.at)); got != step.due {
			t.Errorf("%s: Due(%ds) = %t, want %t", step.name, step.at, got, step.due)
		}
		deadline, armed := w.Deadline()
		if armed != (step.deadline >= 0) || armed && !deadline.Equal(at(step.deadline)) {
			t.Errorf("%s: Deadline = %s, %t; want %ds", step.name, deadline.Sub(start), armed, step.deadline)
		}
	}
}

// TestOff proves EX-91: without a timeout nothing is ever due.
func TestOff(t *testing.T) {
	w := suicide.New(0)
	w.Hold(start, "")
	w.Rearm(start)
	if _, armed := w.Deadline(); armed || w.Due(start.Add(1000*time.Hour)) {
		t.Error("a watch without timeout is armed")
	}
}

func TestHeldBy(t *testing.T) {
	w := suicide.New(time.Minute)
	w.Hold(start, "2 live tasks")
	if got := w.HeldBy(); got != "2 live tasks" {
		t.Errorf("HeldBy = %q", got)
	}
}

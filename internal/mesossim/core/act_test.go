package core

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// acted takes the effects and gives the steps among them.
func (w *world) acted(effects []Effect) (acts []Act) {
	w.take(effects)
	for _, e := range effects {
		if act, ok := e.(Act); ok {
			acts = append(acts, act)
		}
	}
	return acts
}

// acknowledgeAll acknowledges every status that came.
func (w *world) acknowledgeAll() {
	for _, e := range slices.Clone(w.events) {
		if e.Update != nil && len(e.Update.Status.UUID) > 0 {
			status := e.Update.Status
			w.call(&scheduler.Call{Type: scheduler.Call_ACKNOWLEDGE, Acknowledge: &scheduler.Call_Acknowledge{
				AgentID: *status.AgentID, TaskID: status.TaskID, UUID: status.UUID}})
		}
	}
}

func (w *world) kill(id string) []Effect {
	w.t.Helper()
	effects, refused := w.c.Call(w.now, &scheduler.Call{FrameworkID: w.id, Type: scheduler.Call_KILL, Kill: &scheduler.Call_Kill{TaskID: mesos.TaskID{Value: id}}}, nil)
	if refused != nil {
		w.t.Fatal(refused)
	}
	return effects
}

// launchActed launches a task and gives its first step.
func launchActed(t *testing.T, script Script) (*world, Act) {
	t.Helper()
	script.Acts = true
	w := newWorld(t, Config{}, 1, script)
	var first Act
	w.seen = func(e Effect) {
		if act, ok := e.(Act); ok {
			first = act
		}
	}
	w.launch(w.offers()[0], "t")
	w.pass(0) // the executor subscribes
	if first.Step != ActLaunch || first.Task != "t" || first.Agent != "a0" || first.Node != "h0" {
		t.Fatalf("first step %+v", first)
	}
	return w, first
}

func wantStates(t *testing.T, w *world, want ...mesos.TaskState) {
	t.Helper()
	w.acknowledgeAll()
	if diff := cmp.Diff(want, w.states("t")); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// TestActs: no status is told before its step was answered, and the steps come in order and in their time.
func TestActs(t *testing.T) {
	w, step := launchActed(t, Script{StartDelay: time.Second, RunTime: time.Minute})
	w.pass(time.Minute)
	if got := w.states("t"); len(got) > 0 {
		t.Fatalf("states %v before the launch was answered", got)
	}
	w.take(w.c.Acted(w.now, step, Outcome{Script: &Script{StartDelay: 2 * time.Second, RunTime: 5 * time.Second, ExitCode: 3}}))
	wantStates(t, w, mesos.TASK_STARTING)
	if acts := w.acted(w.c.Advance(w.now.Add(time.Second))); len(acts) != 0 {
		t.Fatalf("%+v before its time: the launch's script wins", acts)
	}
	w.now = w.now.Add(2 * time.Second)
	acts := w.acted(w.c.Advance(w.now))
	if len(acts) != 1 || acts[0].Step != ActRun {
		t.Fatalf("acts %+v, want ActRun", acts)
	}
	w.take(w.c.Acted(w.now, acts[0], Outcome{IP: "198.18.0.1"}))
	wantStates(t, w, mesos.TASK_STARTING, mesos.TASK_RUNNING)
	for _, again := range []bool{true, false} {
		w.now = w.now.Add(5 * time.Second)
		acts = w.acted(w.c.Advance(w.now))
		if len(acts) != 1 || acts[0].Step != ActExit || acts[0].ExitCode != 3 {
			t.Fatalf("acts %+v, want ActExit with 3", acts)
		}
		w.take(w.c.Acted(w.now, acts[0], Outcome{Again: again}))
	}
	wantStates(t, w, mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_FAILED)
	w.take(w.c.Acted(w.now, acts[0], Outcome{})) // twice is once
	wantStates(t, w, mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_FAILED)
}

// TestActKilled: a KILL waits for the step that is under way, and ends the task in place of the next.
func TestActKilled(t *testing.T) {
	w, step := launchActed(t, Script{})
	if acts := w.acted(w.kill("t")); len(acts) != 0 {
		t.Fatalf("%+v while the launch is under way", acts)
	}
	w.take(w.c.Acted(w.now, step, Outcome{}))
	acts := w.acted(w.c.Advance(w.now))
	if len(acts) != 1 || acts[0].Step != ActKill {
		t.Fatalf("acts %+v, want ActKill", acts)
	}
	if more := w.acted(w.kill("t")); len(more) != 0 {
		t.Fatalf("%+v for a second KILL", more)
	}
	w.take(w.c.Acted(w.now, acts[0], Outcome{}))
	wantStates(t, w, mesos.TASK_STARTING, mesos.TASK_KILLED)
}

// TestActFails: a launch that failed is told, and its resources come back.
func TestActFails(t *testing.T) {
	w, step := launchActed(t, Script{})
	w.take(w.c.Acted(w.now, step, Outcome{Failed: mesos.TASK_ERROR, Message: "no"}))
	wantStates(t, w, mesos.TASK_ERROR)
	w.call(&scheduler.Call{Type: scheduler.Call_TEARDOWN})
	w.pass(time.Minute)
	if used := w.c.View(true).Agents[0].Used.String(); used != "" {
		t.Errorf("used %s", used)
	}
}

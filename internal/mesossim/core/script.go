package core

import (
	"strconv"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
)

// Script says how an executor without a process acts its tasks out. Labels of a task win over it: LabelStartDelay and
// LabelRunTime with a Go duration, LabelExitCode with a number.
type Script struct {
	// ExecutorDelay is from the launch of the executor to its SUBSCRIBE, StartDelay from LAUNCH to TASK_RUNNING.
	ExecutorDelay, StartDelay time.Duration
	// RunTime is from TASK_RUNNING to the end; zero is for ever. ExitCode decides between TASK_FINISHED and TASK_FAILED.
	RunTime  time.Duration
	ExitCode int
	// KillDelay is from KILL to TASK_KILLED.
	KillDelay time.Duration
	// Acts tells each step of a task by an Act, and waits for its Acted before the task's status is told.
	Acts bool
}

// Labels of tasks that win over the script.
const (
	LabelStartDelay = "sim.start-delay"
	LabelRunTime    = "sim.run-time"
	LabelExitCode   = "sim.exit-code"
)

// scripted is an executor without a process.
type scripted struct {
	e      *agentExecutor
	script Script
	tasks  map[string]*actedTask
}

// actedTask is a task of it. Either a timer leads to its next step, or acting is the step that is not answered yet.
//
//	ActLaunch ─▶ STARTING ─ StartDelay ─▶ ActRun ─▶ RUNNING ─ RunTime ─▶ ActExit ─▶ FINISHED or FAILED
//	                  └───────── KILL, KillDelay ──────┴────────▶ ActKill ─▶ KILLED
type actedTask struct {
	script Script
	step   *timer
	acting ActStep
	killed bool
}

func newScripted(e *agentExecutor, script Script) *scripted {
	s := &scripted{e: e, script: script, tasks: map[string]*actedTask{}}
	s.later(script.ExecutorDelay, func() { e.subscribe("", &executor.Call_Subscribe{}) })
	return s
}

func (s *scripted) later(d time.Duration, f func()) *timer {
	return s.e.a.later(d, func() {
		if s.e.state != executorEnded {
			f()
		}
	})
}

// receive is an event for the executor.
func (s *scripted) receive(event *executor.Event) {
	switch {
	case event.Launch != nil:
		s.launch(&event.Launch.Task)
	case event.LaunchGroup != nil:
		for i := range event.LaunchGroup.TaskGroup.Tasks {
			s.launch(&event.LaunchGroup.TaskGroup.Tasks[i])
		}
	case event.Kill != nil:
		if t := s.tasks[event.Kill.TaskID.Value]; t != nil && !t.killed {
			s.kill(event.Kill.TaskID.Value, t)
		}
	case event.Type == executor.Event_SHUTDOWN:
		s.e.a.c.mail = append(s.e.a.c.mail, func() {
			for id, t := range s.tasks {
				t.step.stop()
				s.tell(id, mesos.TASK_KILLED, Outcome{Message: "executor-shutdown"})
			}
			s.e.ended(0)
		})
	}
}

func (s *scripted) launch(task *mesos.TaskInfo) {
	id := task.TaskID.Value
	if s.tasks[id] != nil {
		return
	}
	t := &actedTask{script: s.script.with(task.Labels)}
	s.tasks[id] = t
	if s.script.Acts {
		s.act(id, t, Act{Step: ActLaunch, Data: task.Data})
		return
	}
	t.step = s.later(t.script.StartDelay, func() { s.run(id, t) })
}

func (s *scripted) act(id string, t *actedTask, act Act) {
	t.acting = act.Step
	act.Agent, act.Node, act.Framework, act.Task = s.e.a.cfg.Name, s.e.a.cfg.Hostname, s.e.f.info.ID.GetValue(), id
	s.e.a.c.emit(act)
}

// acted goes on after a step.
func (s *scripted) acted(id string, t *actedTask, o Outcome) {
	step := t.acting
	t.acting = 0
	switch {
	case step == ActKill:
		s.tell(id, mesos.TASK_KILLED, o)
		return
	case o.Failed != 0:
		s.tell(id, o.Failed, o)
		return
	case step == ActExit && !o.Again:
		s.tell(id, t.end(), o)
		return
	case step == ActLaunch:
		if o.Script != nil {
			t.script = *o.Script
		}
		s.tell(id, mesos.TASK_STARTING, o)
		t.step = s.later(t.script.StartDelay, func() { s.act(id, t, Act{Step: ActRun}) })
	default:
		if step == ActRun {
			s.tell(id, mesos.TASK_RUNNING, o)
		}
		s.last(id, t)
	}
	if t.killed {
		s.kill(id, t)
	}
}

func (s *scripted) run(id string, t *actedTask) {
	s.tell(id, mesos.TASK_RUNNING, Outcome{})
	s.last(id, t)
}

// last arms what ends a running task.
func (s *scripted) last(id string, t *actedTask) {
	if t.step = nil; t.script.RunTime <= 0 {
		return
	}
	t.step = s.later(t.script.RunTime, func() {
		if s.script.Acts {
			s.act(id, t, Act{Step: ActExit, ExitCode: t.script.ExitCode})
			return
		}
		s.tell(id, t.end(), Outcome{})
	})
}

func (t *actedTask) end() mesos.TaskState {
	if t.script.ExitCode != 0 {
		return mesos.TASK_FAILED
	}
	return mesos.TASK_FINISHED
}

// kill ends a task in its time, once the step that is under way was answered.
func (s *scripted) kill(id string, t *actedTask) {
	t.killed = true
	if t.acting != 0 {
		return
	}
	t.step.stop()
	t.step = s.later(t.script.KillDelay, func() {
		if s.script.Acts {
			s.act(id, t, Act{Step: ActKill})
			return
		}
		s.tell(id, mesos.TASK_KILLED, Outcome{})
	})
}

func (s *scripted) tell(id string, state mesos.TaskState, o Outcome) {
	if terminal(state) {
		delete(s.tasks, id)
	}
	status := mesos.TaskStatus{TaskID: mesos.TaskID{Value: id}, State: &state, UUID: s.e.a.c.uuid(),
		ExecutorID: &s.e.info.ExecutorID, Source: mesos.SOURCE_EXECUTOR.Enum(), Data: o.Data}
	if o.Message != "" {
		status.Message = &o.Message
	}
	if o.IP != "" {
		status.ContainerStatus = &mesos.ContainerStatus{NetworkInfos: []mesos.NetworkInfo{{
			IPAddresses: []mesos.NetworkInfo_IPAddress{{IPAddress: &o.IP}}}}}
	}
	s.e.a.executorUpdate(s.e, status)
}

func (s Script) with(labels *mesos.Labels) Script {
	if labels == nil {
		return s
	}
	for _, l := range labels.Labels {
		s.Set(l.Key, l.GetValue())
	}
	return s
}

// Set takes a setting by its label, and tells whether there is such a label with such a value.
func (s *Script) Set(label, value string) bool {
	d, err := time.ParseDuration(value)
	switch label {
	case LabelExitCode:
		code, wrong := strconv.Atoi(value)
		if wrong != nil || code < 0 || code > 255 {
			return false
		}
		s.ExitCode = code
		return true
	case LabelStartDelay:
		if err == nil {
			s.StartDelay = d
		}
	case LabelRunTime:
		if err == nil {
			s.RunTime = d
		}
	default:
		return false
	}
	return err == nil
}

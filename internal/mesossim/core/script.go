package core

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
)

// Script says how an executor without a process acts its tasks out. Labels of a task win over it: sim.start-delay and
// sim.run-time with a Go duration, sim.exit-code with a number.
type Script struct {
	// ExecutorDelay is from the launch of the executor to its SUBSCRIBE, StartDelay from LAUNCH to TASK_RUNNING.
	ExecutorDelay, StartDelay time.Duration
	// RunTime is from TASK_RUNNING to the end; zero is for ever. ExitCode decides between TASK_FINISHED and TASK_FAILED.
	RunTime  time.Duration
	ExitCode int
	// KillDelay is from KILL to TASK_KILLED.
	KillDelay time.Duration
}

// scripted is an executor without a process.
type scripted struct {
	e      *agentExecutor
	script Script
	tasks  map[string]*timer // the next step of each
}

func newScripted(e *agentExecutor, script Script) *scripted {
	s := &scripted{e: e, script: script, tasks: map[string]*timer{}}
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
		id := event.Kill.TaskID.Value
		if step, runs := s.tasks[id]; runs {
			step.stop()
			s.tasks[id] = s.later(s.script.KillDelay, func() { s.tell(id, mesos.TASK_KILLED) })
		}
	case event.Type == executor.Event_SHUTDOWN:
		s.e.a.c.mail = append(s.e.a.c.mail, func() {
			for id, step := range s.tasks {
				step.stop()
				s.tell(id, mesos.TASK_KILLED)
			}
			s.e.ended(0)
		})
	}
}

func (s *scripted) launch(task *mesos.TaskInfo) {
	id, script := task.TaskID.Value, s.script.with(task.Labels)
	s.tasks[id] = s.later(script.StartDelay, func() {
		s.tell(id, mesos.TASK_RUNNING)
		if script.RunTime <= 0 {
			s.tasks[id] = nil
			return
		}
		s.tasks[id] = s.later(script.RunTime, func() {
			state := mesos.TASK_FINISHED
			if script.ExitCode != 0 {
				state = mesos.TASK_FAILED
			}
			s.tell(id, state)
		})
	})
}

func (s *scripted) tell(id string, state mesos.TaskState) {
	if terminal(state) {
		delete(s.tasks, id)
	}
	s.e.a.executorUpdate(s.e, mesos.TaskStatus{TaskID: mesos.TaskID{Value: id}, State: &state, UUID: s.e.a.c.uuid(),
		ExecutorID: &s.e.info.ExecutorID, Source: mesos.SOURCE_EXECUTOR.Enum()})
}

func (s Script) with(labels *mesos.Labels) Script {
	if labels == nil {
		return s
	}
	for _, l := range labels.Labels {
		switch d, err := time.ParseDuration(l.GetValue()); {
		case l.Key == "sim.exit-code" && l.GetValue() != "0":
			s.ExitCode = 1
		case err != nil:
		case l.Key == "sim.start-delay":
			s.StartDelay = d
		case l.Key == "sim.run-time":
			s.RunTime = d
		}
	}
	return s
}

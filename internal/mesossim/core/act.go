package core

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// ActStep is a step of an acted task that is to be seen outside of Mesos.
type ActStep int

// The steps. Each is told once, the next only when Acted has answered it.
const (
	// ActLaunch comes with the task's data, before TASK_STARTING.
	ActLaunch ActStep = iota + 1
	// ActRun comes before TASK_RUNNING.
	ActRun
	// ActExit comes with an exit code, before TASK_FINISHED or TASK_FAILED.
	ActExit
	// ActKill comes before TASK_KILLED.
	ActKill
	// ActLeave comes after the end of the executor; it names no task and needs no answer.
	ActLeave
)

// Act is the effect of a task's step on an agent whose Script.Acts is set.
type Act struct {
	// Agent is the agent's name, Node its host name.
	Agent, Node string
	Framework   string
	Task        string
	Step        ActStep
	// Data of the task, for ActLaunch; the one who acts keeps what later steps need of it.
	Data []byte
	// ExitCode for ActExit.
	ExitCode int
}

func (Act) effect() {}

// Outcome is what came of a step.
type Outcome struct {
	// Failed ends the task in that state; zero is success.
	Failed mesos.TaskState
	// Message and Data go with the status; IP is that of the task's container, empty is the agent's.
	Message string
	Data    []byte
	IP      string
	// Script, of ActLaunch, wins over the agent's; nil does not.
	Script *Script
	// Again, of ActExit, says that the task runs on: what ended was started anew.
	Again bool
}

// Acted answers an Act.
func (c *Cluster) Acted(now time.Time, act Act, outcome Outcome) []Effect {
	return c.do(now, func() {
		a := c.agents[act.Agent]
		if a == nil || !a.up || a.frameworks[act.Framework] == nil {
			return
		}
		for _, e := range a.frameworks[act.Framework].executors {
			if e.script == nil || e.state == executorEnded {
				continue
			}
			if t := e.script.tasks[act.Task]; t != nil && t.acting == act.Step {
				e.script.acted(act.Task, t, outcome)
				return
			}
		}
	})
}

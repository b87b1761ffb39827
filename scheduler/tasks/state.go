package tasks

import mesos "github.com/mesos/mesos-go/api/v1/lib"

// Kind is what a task state means for the scheduler.
type Kind int

// The kinds.
const (
	// Unheard is a state that this build does not know.
	Unheard Kind = iota
	// Live is a task on its way: staging, starting, running, being killed.
	Live
	// Away is a task that nobody can see now, and that may still run: it may return in any state.
	Away
	// Reported is an end that the executor saw, and its kubelet with it: FINISHED, FAILED, KILLED.
	Reported
	// Vanished is an end without a run to report on: ERROR, LOST, DROPPED, GONE, GONE_BY_OPERATOR.
	Vanished
)

// rank orders the live states: a lower one that comes after a higher one is of the past.
var states = map[mesos.TaskState]struct {
	kind Kind
	rank int
}{
	mesos.TASK_STAGING:          {Live, 1},
	mesos.TASK_STARTING:         {Live, 2},
	mesos.TASK_RUNNING:          {Live, 3},
	mesos.TASK_KILLING:          {Live, 4},
	mesos.TASK_UNREACHABLE:      {Away, 0},
	mesos.TASK_UNKNOWN:          {Away, 0},
	mesos.TASK_FINISHED:         {Reported, 0},
	mesos.TASK_FAILED:           {Reported, 0},
	mesos.TASK_KILLED:           {Reported, 0},
	mesos.TASK_ERROR:            {Vanished, 0},
	mesos.TASK_LOST:             {Vanished, 0},
	mesos.TASK_DROPPED:          {Vanished, 0},
	mesos.TASK_GONE:             {Vanished, 0},
	mesos.TASK_GONE_BY_OPERATOR: {Vanished, 0},
}

// KindOf is the kind of a state.
func KindOf(s mesos.TaskState) Kind { return states[s].kind }

// Terminal tells whether no state follows this one.
func Terminal(s mesos.TaskState) bool {
	kind := KindOf(s)
	return kind == Reported || kind == Vanished
}

// Step is what a status means for a task in a given state.
type Step int

// The steps.
const (
	// Take: the task enters the state.
	Take Step = iota + 1
	// Same: the task is in that state already; Mesos repeats itself.
	Same
	// Past: the state is of the past, or unknown to this build; the task stays as it is.
	Past
	// Final: the task has ended; nothing changes it.
	Final
)

// Next is the transition table.
func Next(from, to mesos.TaskState) Step {
	switch {
	case Terminal(from):
		return Final
	case from == to:
		return Same
	case KindOf(to) == Unheard:
		return Past
	case KindOf(from) == Live && KindOf(to) == Live && states[to].rank < states[from].rank:
		return Past
	}
	return Take
}

// Name is a state without its prefix, for people: RUNNING.
func Name(s mesos.TaskState) string {
	if KindOf(s) == Unheard {
		return "unknown state " + s.String()
	}
	return s.String()[len("TASK_"):]
}

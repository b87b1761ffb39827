package web

import (
	"fmt"
	"time"

	"github.com/mesopod/mesopod/internal/zpages"
	"github.com/mesopod/mesopod/scheduler/core"
)

// Standing is what a scheduler does at a moment.
type Standing string

// The standings.
const (
	// Starting: it waits for the API server.
	Starting Standing = "starting"
	// StandingBy: another scheduler works, and this one waits for the Lease.
	StandingBy Standing = "standing by"
	// Working: its core runs.
	Working Standing = "working"
)

// View is what the scheduler is at one moment.
type View struct {
	// Time is when it was made.
	Time time.Time
	// Version is the program's, Started the process's start.
	Version string
	Started time.Time
	// Name and Roles are the framework's.
	Name  string
	Roles []string
	// Standing is what it does, Elects that it is one of several, Leader who of them works, as its Lease says; empty for
	// nobody yet.
	Standing Standing
	Elects   bool
	Leader   string
	// Master is the URL of the Mesos master that it is subscribed with, empty for none. Since is when that began or ended,
	// zero for never, and Fault why it ended.
	Master string
	Since  time.Time
	Fault  string
	// Core is nil while it does not work.
	Core *core.View
}

// checks are the parts of health. A scheduler that stands by for another one is as ready as it can be.
func checks(v View) []zpages.Check {
	switch {
	case v.Standing == StandingBy:
		return []zpages.Check{{Name: "loop", Live: true, Note: "not started"}, {Name: "leader", Note: "stands by for " + orNobody(v.Leader)}}
	case v.Standing != Working || v.Core == nil:
		return []zpages.Check{{Name: "loop", Live: true, Note: "not started"}, {Name: "leader", Fault: "waits for the API server"}}
	}
	is := func(name string, good bool, fault, note string) zpages.Check {
		if good {
			return zpages.Check{Name: name, Note: note}
		}
		return zpages.Check{Name: name, Fault: fault}
	}
	leads := "the only one"
	if v.Elects {
		leads = "works"
	}
	return []zpages.Check{
		{Name: "loop", Live: true}, // it has answered
		{Name: "leader", Note: leads},
		is("mesos", v.Core.Connected, "not subscribed with a Mesos master"+ago(v), v.Master),
		is("framework-id", v.Core.IDStored, "the framework id is not stored yet", v.Core.FrameworkID),
		is("pods", v.Core.PodsListed, "the pods are not listed yet", ""),
		is("reconciliation", v.Core.Reconciled, "the tasks of its pods are being compared with Mesos", ""),
	}
}

// ago says for how long, and why, there is no master.
func ago(v View) string {
	text := ""
	if !v.Since.IsZero() {
		text = fmt.Sprintf(" for %s", v.Time.Sub(v.Since).Truncate(time.Second))
	}
	if v.Fault != "" {
		text += ": " + v.Fault
	}
	return text
}

func orNobody(leader string) string {
	if leader == "" {
		return "nobody yet"
	}
	return leader
}

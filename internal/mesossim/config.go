package mesossim

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/mesossim/core"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// Config says what is simulated.
type Config struct {
	// Masters are addresses, host:port, where a master answers; the first leads at first, the others redirect to it. Port 0
	// takes a free one.
	Masters []string
	// Agents that run real executors.
	Agents []Agent
	// Scripted is the number of agents whose executors are acted out by Script. They serve below the masters' addresses.
	Scripted int
	// ScriptedResources and ScriptedAttributes are what each of them has, in the notation of Mesos' flags. Empty is
	// cpus:8;mem:16384;disk:100000;ports:[31000-32000] and none. Of values separated by a bar the agents take one each in
	// turn: of zone:a|b every second one a.
	ScriptedResources, ScriptedAttributes string
	// Script is not part of a configuration file: flags of mesopod sim tell it, as they do Timing.
	Script core.Script `json:"-"`
	// Actor carries out what tasks of these agents do outside of Mesos, where Script.Acts is set; see package pods.
	Actor Actor `json:"-"`
	// Dir keeps agents' folders: sandboxes and checkpoints.
	Dir string
	// Timing are the flags of master and agents; see core.Config.
	Timing core.Config `json:"-"`
	// Faults are ordered before the start.
	Faults []Fault
	// Seed makes ids differ between runs: zero takes one from the clock.
	Seed uint64 `json:"-"`
}

// Agent is one that runs real executors.
type Agent struct {
	// Name tells it apart from the others, and names its folder; Hostname is told to frameworks.
	Name, Hostname string
	// Address is host:port where it serves; port 0 takes a free one.
	Address string
	// NetNS is the file of the network namespace in which it serves and starts executors; empty is our own.
	NetNS string
	// Dir is its folder; empty is one below Config.Dir.
	Dir string
	// Resources and Attributes are in the notation of Mesos' flags.
	Resources, Attributes string
	// Region and Zone are its fault domain.
	Region, Zone string
	// Environment of executors, as the agent's flag --executor_environment_variables.
	Environment map[string]string
}

// Actor shows what acted tasks do to others than Mesos.
type Actor interface {
	// Act carries out a step in its own time and answers once, from any goroutine, but not before it has returned.
	Act(step core.Act, answer func(core.Outcome))
}

const defaultResources = "cpus:8;mem:16384;disk:100000;ports:[31000-32000]"

// complete fills in what was left open and tells all faults of the rest together, as errdefs.ErrInvalid.
func (c Config) complete() (Config, error) {
	var faults []error
	if len(c.Masters) == 0 {
		c.Masters = []string{"127.0.0.1:0"}
	}
	for _, address := range c.Masters {
		if _, _, err := net.SplitHostPort(address); err != nil {
			faults = append(faults, fmt.Errorf("master address %q is not host:port", address))
		}
	}
	if c.ScriptedResources == "" {
		c.ScriptedResources = defaultResources
	}
	if _, err := resources.Parse(c.ScriptedResources); err != nil {
		faults = append(faults, err)
	}
	for n := range strings.Count(c.ScriptedAttributes, "|") + 1 {
		if _, err := resources.Attributes(inTurn(c.ScriptedAttributes, n)); err != nil {
			faults = append(faults, err)
			break
		}
	}
	if c.Script.Acts && c.Actor == nil {
		faults = append(faults, errors.New("steps of tasks are to be acted, and there is no actor"))
	}
	if c.Scripted < 0 {
		faults = append(faults, fmt.Errorf("%d simulated agents", c.Scripted))
	}
	names := map[string]bool{}
	for _, a := range c.Agents {
		if a.Name == "" || names[a.Name] {
			faults = append(faults, fmt.Errorf("agent name %q is empty or there twice", a.Name))
		}
		names[a.Name] = true
		if _, _, err := net.SplitHostPort(a.Address); err != nil {
			faults = append(faults, fmt.Errorf("agent %s: address %q is not host:port", a.Name, a.Address))
		}
		if _, err := resources.Parse(a.Resources); err != nil {
			faults = append(faults, fmt.Errorf("agent %s: %w", a.Name, err))
		}
		if _, err := resources.Attributes(a.Attributes); err != nil {
			faults = append(faults, fmt.Errorf("agent %s: %w", a.Name, err))
		}
		if a.Dir == "" && c.Dir == "" {
			faults = append(faults, fmt.Errorf("agent %s has no folder", a.Name))
		}
	}
	for _, f := range c.Faults {
		if err := f.check(); err != nil {
			faults = append(faults, err)
		}
	}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	if len(faults) > 0 {
		return c, fmt.Errorf("simulated mesos: %w: %w", errdefs.ErrInvalid, errors.Join(faults...))
	}
	return c, nil
}

// inTurn are the attributes of the nth agent, counted from 0, of attributes with values separated by bars, which Mesos has
// in no attribute.
func inTurn(attributes string, n int) string {
	if !strings.Contains(attributes, "|") {
		return attributes
	}
	list := strings.Split(attributes, ";")
	for i, one := range list {
		name, values, _ := strings.Cut(one, ":")
		if choice := strings.Split(values, "|"); len(choice) > 1 {
			list[i] = name + ":" + choice[n%len(choice)]
		}
	}
	return strings.Join(list, ";")
}

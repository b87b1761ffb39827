package core

import (
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// registry is what outlives a master.
type registry struct {
	admitted    map[string]*mesos.AgentInfo
	unreachable map[string]time.Time
	gone        map[string]time.Time
}

func newRegistry() registry {
	return registry{map[string]*mesos.AgentInfo{}, map[string]time.Time{}, map[string]time.Time{}}
}

// Registry is the master's registry, sorted by id.
type Registry struct {
	Admitted          []*mesos.AgentInfo
	Unreachable, Gone []string
}

// Registry tells what the master's registry holds.
func (c *Cluster) Registry() Registry {
	var r Registry
	for _, info := range c.reg.admitted {
		r.Admitted = append(r.Admitted, info)
	}
	slices.SortFunc(r.Admitted, func(a, b *mesos.AgentInfo) int { return strings.Compare(a.ID.Value, b.ID.Value) })
	for id := range c.reg.unreachable {
		r.Unreachable = append(r.Unreachable, id)
	}
	for id := range c.reg.gone {
		r.Gone = append(r.Gone, id)
	}
	slices.Sort(r.Unreachable)
	slices.Sort(r.Gone)
	return r
}

// StopMaster ends the master: its streams break, agents wait for the next one.
func (c *Cluster) StopMaster(now time.Time) []Effect {
	return c.do(now, func() {
		if c.m == nil {
			return
		}
		for _, f := range c.m.frameworks {
			if f.stream != "" {
				c.emit(CloseScheduler{f.stream})
			}
		}
		c.m.stop()
		c.m = nil
		for _, a := range c.agents {
			a.masterLost()
		}
	})
}

// StartMaster elects a new master. Agents register with it again; keepRegistry tells whether it knows them.
func (c *Cluster) StartMaster(now time.Time, keepRegistry bool) []Effect {
	return c.do(now, func() {
		if c.m != nil {
			return
		}
		if !keepRegistry {
			c.reg = newRegistry()
		}
		c.elect()
		for _, name := range c.names() {
			c.agents[name].register()
		}
	})
}

func (c *Cluster) elect() {
	c.elected++
	c.m = newMaster(c)
}

// names are the agents in a steady order.
func (c *Cluster) names() []string {
	names := make([]string, 0, len(c.agents))
	for name := range c.agents {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

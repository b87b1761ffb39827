package core_test

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
)

func (c *chaos) save(s core.Save) {
	var err error
	if c.disk, err = ledger.AppendRecords(c.disk, s.Records...); err != nil {
		c.fail("%v", err)
	}
}

// crash takes an event, dies somewhere on the way, and starts anew from the disk.
func (c *chaos) crash(ev core.Event) {
	known := c.launched[taskOf(ev)]
	if launch, ok := ev.(core.Launch); ok && !c.stopping && !c.exited {
		c.launched[launch.TaskID] = true
	}
	before := len(c.disk)
	effects := c.take(ev)
	if len(effects) > 0 {
		if _, saves := effects[0].(core.Save); saves {
			c.perform(effects[0])
			effects = effects[1:]
			if c.rand.IntN(2) == 0 { // while it was writing
				c.disk = c.disk[:before+c.rand.IntN(len(c.disk)-before)]
				effects = nil
				if !known {
					delete(c.launched, taskOf(ev))
				}
			}
		}
		for _, e := range effects[:c.rand.IntN(len(effects)+1)] {
			c.perform(e)
		}
	}
	if c.exited {
		return // an asked-for end: nobody starts it again
	}
	c.restart()
}

func taskOf(ev core.Event) string {
	if launch, ok := ev.(core.Launch); ok {
		return launch.TaskID
	}
	return ""
}

func (c *chaos) restart() {
	owner, records, damage := ledger.Decode(c.disk)
	if owner.Container != "c1" || damage.Err() != nil {
		c.fail("owner %v, damage %v", owner, damage.Err())
	}
	c.disk = c.disk[:len(c.disk)-damage.Torn]
	cfg := c.cfg
	cfg.Ledger = ledger.Replay(records)
	if c.rand.IntN(2) == 0 { // the shell made a new file of it
		cfg.Ledger = ledger.Replay(cfg.Ledger.Snapshot())
	}
	c.core = core.New(cfg)
	c.ready, c.listed, c.readyAt, c.calls = false, false, time.Time{}, nil
	c.stopping, c.held = false, len(cfg.Ledger.Pods()) > 0
	c.diary += "CRASH\n"
	c.remembers()
	c.replay()
}

// remembers checks that nothing that was acted on is forgotten.
func (c *chaos) remembers() {
	tasks := map[string]core.TaskView{}
	for _, t := range c.core.Snapshot().Tasks {
		tasks[t.TaskID] = t
	}
	for id, states := range c.states {
		if _, ok := tasks[id]; !ok && !ledger.IsTerminal(states[len(states)-1]) {
			c.fail("task %s is forgotten after %v", id, states)
		}
	}
}

// firstSet is the first set after a restart: not before the API server was heard or given up, and with the pod of each
// live task that has one.
func (c *chaos) firstSet(f core.Feed) {
	shutting := c.core.Snapshot().ShuttingDown
	if !c.listed && !shutting && c.now.Sub(c.readyAt) < 5*time.Second {
		c.fail("the first set did not wait for the API server")
	}
	for _, t := range c.core.Snapshot().Tasks {
		named := slices.ContainsFunc(f.Pods, func(p *corev1.Pod) bool { return p.UID == t.UID })
		if (t.State == core.Starting || t.State == core.Running) && !named {
			c.fail("the first set lacks the pod of task %s, which is %s", t.TaskID, t.State)
		}
	}
}

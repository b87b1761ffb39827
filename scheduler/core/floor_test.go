package core

import "time"

// LateFloor names a table of which something comes before its floor says so; empty is right.
func (c *Core) LateFloor() string {
	late := func(f floor, t time.Time) bool { return !t.IsZero() && (f.at.IsZero() || t.Before(f.at)) }
	for _, l := range c.launches {
		if late(c.floors.launches, l.deadline) {
			return "launches"
		}
	}
	for _, task := range c.killing {
		if late(c.floors.killing, task.NextKill) {
			return "killing"
		}
	}
	for _, task := range c.verdicts {
		if late(c.floors.verdicts, task.Verdict.At) {
			return "verdicts"
		}
	}
	for _, h := range c.gate.held {
		if late(c.floors.held, h.tellAt) {
			return "held"
		}
	}
	return ""
}

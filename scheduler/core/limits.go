package core

import (
	"slices"
	"time"

	"github.com/mesopod/mesopod/scheduler/procure"
)

// limits are the quotas of roles in Mesos, asked for now and again while pods wait: no event tells of them.
type limits struct {
	known []procure.RoleLimit
	asked bool      // one is under way
	at    time.Time // before it nothing is asked again
}

// limitsPause is the time between two looks at quotas.
const limitsPause = 15 * time.Second

// limitsAt is when quotas are to be looked at; zero when no pod waits.
func (c *Core) limitsAt() time.Time {
	if !c.open() || c.limits.asked {
		return time.Time{}
	}
	if len(c.assigned) > 0 {
		return c.limits.at
	}
	for uid := range c.waiting {
		if c.pods[uid] != nil {
			return c.limits.at
		}
	}
	return time.Time{}
}

func (c *Core) dueLimits() {
	l := &c.limits
	if l.at.IsZero() {
		l.at = c.now // from the first step on
	}
	if at := c.limitsAt(); at.IsZero() || c.now.Before(at) {
		return
	}
	l.asked = true
	c.do(LookUpLimits{Why: "pods wait"})
}

func (c *Core) onLimitsFound(ev LimitsFound) {
	l := &c.limits
	l.asked, l.at = false, c.now.Add(limitsPause)
	if slices.Equal(l.known, ev.Limits) {
		return
	}
	l.known = ev.Limits
	for _, a := range c.assigned {
		a.looked = false
	}
	c.do(LimitsChanged{Limits: l.known})
}

// limited adds to a reason why a pod has no place the quotas that are it.
func (c *Core) limited(why string, need procure.Need) string {
	if text := procure.Limited(need, procure.ExecutorShare(c.procure), c.limits.known); text != "" {
		why += "; " + text
	}
	return why
}

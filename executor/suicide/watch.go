// Package suicide is the suicide watch: an executor without work ends, so that the agent has its resources back.
//
// The watch is data, not a timer: it says since when the executor is idle and when that is over. So nothing can fire
// late, no callback needs a lock, and a launch that arrives together with the deadline simply wins when it is taken
// first (EX-90, EX-95, EX-98 to EX-100). Order of calls: Hold with the present reason after each event, then Due
// with the present time. The core's loop owns it; there are no goroutines.
package suicide

import "time"

// Watch is the idle deadline. Make one with New.
type Watch struct {
	timeout time.Duration
	heldBy  string
	since   time.Time
	armed   bool
}

// New is a watch that is held until the first Hold with no reason. A timeout of zero or less never ends (EX-91).
func New(timeout time.Duration) Watch { return Watch{timeout: timeout, heldBy: "start"} }

// Hold says what keeps the executor alive, in few words; an empty reason means nothing does. Idle time counts from
// the first moment without a reason (EX-92 to EX-94); staying idle does not prolong it.
func (w *Watch) Hold(now time.Time, reason string) {
	w.heldBy = reason
	if reason != "" || w.timeout <= 0 {
		w.armed = false
		return
	}
	if !w.armed {
		w.armed, w.since = true, now
	}
}

// Rearm starts the idle time anew, as after a launch that failed at once (EX-90).
func (w *Watch) Rearm(now time.Time) {
	if w.armed {
		w.since = now
	}
}

// Deadline is when the executor is to end; false while something holds it or the watch is off.
func (w *Watch) Deadline() (time.Time, bool) {
	if !w.armed {
		return time.Time{}, false
	}
	return w.since.Add(w.timeout), true
}

// Due tells whether the idle time is over (EX-96, EX-97).
func (w *Watch) Due(now time.Time) bool {
	deadline, armed := w.Deadline()
	return armed && !now.Before(deadline)
}

// HeldBy is what keeps the executor alive, empty for nothing.
func (w *Watch) HeldBy() string { return w.heldBy }

// Package offers keeps the offers that the scheduler holds and what is reserved on them.
//
// It exists so that three readers see one truth: Filter (through Views), Reserve, and the launch that turns
// reservations into an ACCEPT. It is pure: no clock, lock or log; the scheduler's core owns the one Pool and calls it
// from Step.
//
//	Add ──► held ──► Take (an agent's offers of one role ride one ACCEPT) ──► gone
//	          ├────► Expire, Drop  (the caller declines)            ──► gone
//	          ├────► Rescind                                         ──► gone
//	          └────► Clear (the connection is lost)                  ──► gone
//
// Every offer leaves in exactly one of these ways, and only once. Claims (what is reserved for a pod) outlive the
// offers that a Take carried off, since the remainder comes back in a new offer; they end by Take, Release, Rescind,
// Drop or Clear.
package offers

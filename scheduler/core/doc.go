// Package core is the scheduler's decisions: what to do with offers, launches, status updates and pods.
//
// It is pure. Its one entry is Step: an event and the time go in, effects come out, to be done in order; each effect
// that fails comes back as CallFailed. The caller owns the one goroutine that calls Step, sends Tick at NextDeadline,
// and never shares a Core. The core composes scheduler/offers (what is held and reserved), scheduler/procure (what a
// pod takes), scheduler/tasks (what became of launches) and scheduler/nodes (what an agent's Node looks like).
//
// Order at the start: Subscribed, FrameworkIDStored and PodsSynced in any order, then one round of reconciliation; only
// then are views published, and with them placing begins. A launch:
//
//	Reserve ──► ReserveDone ──► Bind ──► batch ──► Accept ──► status updates, PodChanged ──► BindDone
//	   │                          │         │         │
//	   └─ refusal                 └─────────┴─────────┴─ error: rescinded, disconnected, deleted, refused, timed out
//
// Every Bind is answered once; every offer ends once; a terminal task state is final.
package core

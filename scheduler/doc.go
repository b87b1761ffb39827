// Package scheduler is mesopod's framework scheduler: the embedded kube-scheduler decides which pod goes where, Mesos
// offers tell what is there, and the core between them decides everything else.
//
// Order of calls: New, which starts nothing, then Run, which lives until its context ends or something cannot be mended.
// Ready is closed when the framework is subscribed, its id is stored and the pods are listed.
//
//	                    ┌──────────── inbox ◄── kube (Reserve, Bind, Waiting), pod feed
//	                    ▼                   ◄── mesosconn (Offers, Updates, ...)
//	    one loop: core.Step(now, event)     ◄── workers (FrameworkIDStored, CallFailed, ...)
//	                    │ effects, in order
//	    ┌───────────────┼──────────────┬──────────────┬───────────┐
//	    ▼               ▼              ▼              ▼           ▼
//	 mesos calls     look-ups      API writers    keep-alive   kube.Deliver
//	(one, ordered)  (one, joined) (keyed by object)
//
// The loop owns the core and never blocks: queues to the workers have no bound, so a worker that posts what became of an
// effect always finds a loop that reads. Run starts every goroutine in one group and waits for all of them. When it
// stops the framework is not torn down: pods live on, and the next scheduler finds them by the stored framework id.
package scheduler

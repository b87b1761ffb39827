// Package core is a Mesos cluster without its network: a master, its registry and agents, with the rules of Mesos 1.11 for
// subscriptions, offers, launches, status updates, reconciliation, partitions, draining and maintenance. Package mesossim
// puts HTTP and processes around it.
//
// It is pure: no goroutine, clock, socket or lock. Every method of [Cluster] that changes anything takes the time and
// returns effects, in the order in which they have to be carried out; [Cluster.Next] tells when [Cluster.Advance] has to be
// called at the latest. Messages between master and agents are queued inside and delivered before a method returns, unless
// a link is cut ([Cluster.CutAgent]).
//
//	scheduler ── Subscribe, Call ──▶ master ──▶ mail ──▶ agent ── StartContainer, SendExecutor ──▶ executor
//	          ◀── SendScheduler ──         ◀── mail ◀──       ◀── ExecutorSubscribe, ExecutorUpdate ──
//
// What it keeps per task is small, so that 100,000 tasks on 10,000 agents fit: the master never keeps a task's data, the
// agent only until the task was delivered. Agents whose Scripted is set have executors inside this package, which act their
// tasks out by a [Script] and need no process.
package core

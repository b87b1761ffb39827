// Package local runs all of mesopod on one machine: control plane, Mesos master and agents, scheduler, executors. It
// exists so that one command gives a developer, and our end-to-end tests, a whole cluster, and takes all of it away
// again.
//
// Order of calls: [Run] checks the machine, removes what an earlier run that was killed has left, starts the parts one
// after the other, says when they are ready, and blocks until its context ends or a part fails for good; then it stops
// them in reverse order and removes everything again. [Reset] does the last step alone. What is removed, and how it is
// known to be ours, is said at [sweep]; start, stop and reset use that one function.
//
//	lock ─▶ checks ─▶ sweep ─▶ network ─▶ control plane ─▶ mesos-master ─▶ mesos-agents ──▶ scheduler ─▶ ready
//	                                      (in process)      (child)        (child, netns)  (child)
//
// Each agent lives in a network namespace with an address, a pod range, a state folder, cgroups and credentials of its
// own, so the machine is a true cluster of several hosts: the bridge address (API server, master, scheduler) and those of
// the agents (kubelet, pods). What agents on one machine share all the same is said at [hostFolders].
//
// Goroutines: Run owns one for the control plane and one for each child process, and waits for all of them. The
// control plane leaves goroutines behind (see package controlplane), so a process calls Run once.
package local

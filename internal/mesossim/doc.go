// Package mesossim is a Mesos in one process: a master and agents that speak the v1 HTTP APIs, start real executors or act
// them out, and can be broken on demand. It exists so that local mode needs no Mesos installed, so that tests can order
// faults that a real Mesos never shows on demand, and so that ten thousand agents fit on one machine.
//
// The rules are in package core, which is pure; allocations in allocator, arithmetic in resources. This package is the
// shell: listeners, streams, processes, sandboxes, checkpoints, faults. What it does not do is in docs/simulator.md; what it
// does is held against the real Mesos by package conformance.
//
// Order of calls: [New], then [Sim.Run], which serves until its context ends. Faults may be ordered at any time, from any
// goroutine ([Sim.Inject], [Sim.StopMaster], [Sim.StopAgent] and so on), or through the admin endpoint below /sim/.
//
// Goroutines: Run owns the servers, one goroutine for what is due, and one per executor process, and waits for all of them.
// Executors outlive it, as they outlive a Mesos agent; a next Run with the same folder finds them again. One lock guards the
// core; what the core wants done is carried out under it, in order, and streams are written outside of it.
package mesossim

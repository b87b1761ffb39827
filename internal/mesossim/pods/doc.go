// Package pods acts mesopod's pods out on the simulated agents that have no processes: it is an executor without kubelet and
// containers. It binds each pod as executor/binder does, writes the status that a kubelet would write, and keeps the node's
// lease, so that kubectl, controllers and the scheduler see pods that start, run, end and are deleted, on thousands of nodes.
//
// When a pod starts and how it ends is told by the simulator's script, and for each pod by its annotations
// core.LabelStartDelay, core.LabelRunTime and core.LabelExitCode. Package core decides, in time; this package only carries its
// steps out: what is asked by [Actor.Act] is answered when the API server has taken it.
//
// Order of calls: [New], then [Actor.Run], which owns some workers and one goroutine for leases and ends with its context.
// The kubeconfig is read when the first pod comes: a cluster may start its Mesos before its API server.
package pods

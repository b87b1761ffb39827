// Package nodes says what the Node object of a Mesos agent looks like, and who keeps it alive.
//
// It is pure. The scheduler creates the Node at the agent's first offer; the executor's kubelet adopts it and takes
// over Lease and conditions while it runs (design section 4). Both compute the size by messages.NodeCapacity.
package nodes

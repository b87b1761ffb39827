// Package allocator decides which framework is offered what, as Mesos' hierarchical DRF allocator does: quota first, then
// the role with the least dominant share, in it the framework with the least. It knows filters, suppressed roles,
// reservations, quota with guarantees and limits, weights, GPUs, regions and revocable resources.
//
// It is pure: time comes in as an argument, and the same calls give the same answers. What it leaves out: shares of nested
// roles are those of the whole name, not of a tree.
package allocator

// Package allocator decides which framework is offered what, as Mesos' hierarchical DRF allocator does: quota first, then
// the role with the least dominant share, in it the framework with the least. It knows filters, suppressed roles,
// reservations, quota with guarantees and limits, weights, GPUs, regions, revocable resources and offer constraints. Nested roles
// are a tree, in which a role's share is that of all below it.
//
// It is pure: time comes in as an argument, and the same calls give the same answers.
package allocator

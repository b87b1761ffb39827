// Package bundle tests a cluster whose agents have no programs of mesopod but the keeper: they get the bundle from the
// scheduler, keep it in the host's cache, and go over to another one when a scheduler with another one launches there.
package bundle

// Package e2e tests mesopod whole: `mesopod local` on a real Mesos with the real kubelet and containerd, driven from
// outside as a user would, through the API server, kubectl, and the master's and the agent's HTTP API. It exists
// because everything that matters happens between programs that we do not own.
//
// It needs root and what `make mesos runtime images build` builds. TestMain starts one cluster for all tests
// (package test/cluster), and when it has stopped compares the machine with what it was before: whatever is left behind
// is a failure.
//
// Each test uses pods of its own. Those that fill the agent, or end a part of the cluster, are not parallel, so they
// run before all others.
package e2e

// Package conformance holds one suite of tests against two systems: the real Mesos of contrib/mesos, and package mesossim.
// Each test speaks the HTTP APIs by itself, as scheduler, as executor and as operator, and so shows what Mesos does, not
// what our clients make of it. Where the two differ, the real one is right.
//
// The test plays the executor: what an agent starts is a shell that writes its environment down and sleeps, and the test
// calls the agent with that. Names of tests carry rows of the protocol's checklist, listed in docs/simulator.md.
//
// There is nothing in this package but tests.
package conformance

// Package survival holds scenarios in which the simulated Mesos is broken on purpose, and our own connections,
// scheduler/mesosconn and executor/agentconn, get their work done all the same: every task that was asked for comes to its
// end, and each status is told until it was acknowledged.
//
// There is nothing in this package but tests.
package survival

// Package cluster starts `mesopod local` for suites of tests and for benches, and looks at it from outside as a user
// would: through the API server, kubectl, the master's and the agents' HTTP API, and the processes of the machine. It
// exists so that a suite which needs a cluster of another shape is a package of its own with a TestMain of five lines.
//
// Order of calls: New says what the cluster is to be; Suite.Run, called by TestMain, removes what an earlier run left,
// looks at the machine, starts the cluster, runs the tests, ends it, and fails if the machine is not what it was. Who
// wants no such suite calls Start and Stop. Everything needs root and what `make mesos runtime images build` builds.
//
// One cluster can run at a time in one network namespace, so suites run one after the other: go test -p 1.
package cluster

// Package messages is the tongue that mesopod's scheduler and executor share: annotation keys, task ids, the
// launch envelope in TaskInfo.data, status reasons and the status payload, framework messages, and the one
// function by which both compute the size of a node.
//
// It is the floor of the module: it imports the standard library and Kubernetes' API types, and nothing of
// Mesos. All of it is pure. What crosses a process boundary carries a version, has a golden file under
// testdata and a fuzz target beside it.
//
// Read in this order: annotations.go, task.go, launch.go, reason.go, status.go, framework.go, capacity.go.
package messages

// Package procure turns pods into the amounts and messages of Mesos: what a pod takes (NeedOf), whether that is on
// offer (Fits), and the TaskInfo and ExecutorInfo that launch it (Task, Executor).
//
// It is pure and deterministic. Filter and the core call the same functions, so what Filter passes Reserve takes; and
// equal configurations make equal ExecutorInfos, since an agent refuses a task whose ExecutorInfo differs from that of
// the running executor (design decision 6). Order of calls for one pod: NeedOf, Fits for each node, Task at the launch.
package procure

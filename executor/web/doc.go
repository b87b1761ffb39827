// Package web shows an executor to people and to monitoring: health, metrics, and a page with its tasks and the last things
// that it took and did, each with its reason.
//
// Why it exists: on an agent the executor is a process among many. Who asks why a pod is in the state it is must not have to
// read logs at the right verbosity.
//
// Order of calls: the executor's loop writes a [Journal] and answers Deps.View with a [View]; [Handler] serves them. The
// package owns no goroutine and no listener. Paths: /livez, /readyz and /healthz (?verbose names each check, as Kubernetes'
// own do), /metrics (Prometheus text: the kubelet's series and those that begin with mesopod_executor_), / (HTML) and /state
// (the same as JSON).
package web

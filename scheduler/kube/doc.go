// Package kube is the one door to the embedded kube-scheduler, unpatched: queue, filters, scores, spread, affinity and
// preemption are its own, and Mesos is a few plugins.
//
// MesosGate holds pods back until the core knows what runs, and single ones while an earlier launch is not resolved.
// MesosOffers filters nodes by what the core says is on offer there, and reserves. MesosLaunch binds: it hands the pod to
// the core, which launches it as a task, and returns only when the pod is seen bound or the launch has surely ended. An
// assumed pod never expires in kube-scheduler, and an error for a bound pod would mark a running pod as not scheduled, so
// a pod that is seen bound is always a success.
//
// What is on offer is no change of a node: nodes keep their allocatable, and one event of our own, raised at most once
// per window while the pool changes, wakes the pods that found no offer.
//
// Order of calls: New, handlers onto Pods(), then Run. Deliver may be called at any time, from one goroutine, and never
// blocks. Run owns kube-scheduler's goroutines, the informers and the one goroutine that raises the event. Reserve and
// Bind wait in kube-scheduler's goroutines for what the core answers.
package kube

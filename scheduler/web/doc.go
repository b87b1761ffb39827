// Package web shows a scheduler to people and to monitoring: health, metrics, and pages about agents, pods, offers and what
// happened last, each step with its reason.
//
// Why it exists: why a pod waits, or ended, is decided in the core, in words. Who asks must not have to read logs.
//
// Order of calls: the scheduler answers Deps.View with a [View]; [Handler] serves. The package owns no goroutine and no
// listener, and nothing that it serves changes anything. Pods are shown by name, place and state: no environment, no command, no
// secret of theirs.
package web

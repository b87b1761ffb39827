// Package core is the executor's machine: it decides what happens to each Mesos task and its pod.
//
// Why it exists: a launch, a kill, a pod's status, a lost connection and a shutdown may come in any order. Here they
// are events of one pure function, Step, so each order can be written down as a scenario (testdata) and run again.
//
// Order of calls: New once the node's name is known (the first SUBSCRIBED), then Step for each event, and Step with a
// Tick when NextDeadline has come. Effects are carried out in their order; what they answer comes back as events.
// Unacknowledged goes along with each SUBSCRIBE. A Save comes before the effects that rest on it; from what is saved
// the core of a restarted executor (Config.Ledger) goes on: calls that were under way are made again, and the kubelet
// gets its first set when the API server told its pods, or the ledger's copies when it does not. The core has no goroutine, clock, lock or log; one loop owns it.
//
// The life of a task:
//
//	 (none)
//	   │ Launch: decode, check                     refused ─────────────► Done  FAILED or ERROR
//	   ▼
//	Binding ── bind or patch; ErrUnavailable: again, with back-off
//	   │  │                                        refused, grace over ─► Done  FAILED or LOST
//	   │  └── Kill: wait for the answer, delete the pod, ───────────────► Done  KILLED
//	   │ Bound: STARTING, then Feed
//	   ▼
//	Starting ── launch grace over ──► Killing      pod ended ───────────► Done  FINISHED or FAILED
//	   │ pod Running: RUNNING
//	   ▼
//	Running ── again when health or addresses change
//	   │                                           pod ended ───────────► Done  FINISHED or FAILED
//	   │                                           surely vanished ─────► Done  LOST
//	   │ Kill, pod deleted, Shutdown: KILLING
//	   ▼
//	Killing ── deadline: by force                  containers gone ─────► Done  KILLED (or LOST)
//
//	Done ── repeats its last update when asked; all acknowledged: forgotten
//
// A live pod is never dropped from the kubelet's set, for then nobody would see its containers end: it is fed with a
// deletion timestamp until the kubelet shows that they are gone. Only force drops it. A finished pod stays in the
// set as long as its API object exists, so that its logs stay readable.
package core

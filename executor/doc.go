// Package executor is the program that a Mesos agent starts on its node, by way of the keeper: it runs pods for tasks.
//
// Order of calls: Load and ReadEnv, New, Run. Run returns when the executor's life is over; the caller then ends the
// process at once, for the kubelet inside leaves goroutines behind. A failed end is an *ExitError with the exit code.
//
// One loop owns executor/core: it takes events from an inbox, asks the core, and carries out the effects. Run owns all
// goroutines:
//
//	agentconn ──┐ events                        ┌─► agentconn.Send        statuses
//	informer  ──┤                               ├─► kubelet.Feed          pods to run
//	poller    ──┼─► inbox ─► loop ─► core.Step ─┼─► binder (a goroutine per call, few at once), answers ─► inbox
//	binder    ──┤            ▲                  └─► Exit
//	signal    ──┘            └─ timer at core.NextDeadline
//
// Who we are on the API server is not known before the first launch (identity): what needs it waits for it.
//
// The agent is subscribed to first and by goroutines that wait for nothing else. Runtime and kubelet start in the
// background as soon as the first SUBSCRIBED told the node's name and size; launches wait for them inside the core.
package executor

// Package agentconn is the executor's connection to its Mesos agent, and the only user of the executor API's transport.
//
// It keeps one subscription alive, turns the agent's events into events of executor/core, and sends task statuses on a
// second connection. It decides nothing about tasks: what is unacknowledged it asks for at each SUBSCRIBE, and a status
// that could not be sent is not kept here but rides along in the next SUBSCRIBE, for the ledger has it.
//
// Order of calls: New, Run in a goroutine of the caller's group, Send from any goroutine, Flush before the process ends.
// Run owns the goroutines below it: the reader of the subscription and the sender of statuses, both ended when it
// returns.
//
//	         refused, 404, 503: again within 500 ms, as long as the recovery timeout lasts
//	        ┌───────┐
//	        ▼       │
//	──► subscribing ─┴─ 200 ─► reading ── SUBSCRIBED ─► sending too
//	        ▲  │                  │            │
//	        │  │ 400, 401, 403    └── broken ──┘ Disconnected
//	        │  ▼                        │
//	        │ Shutdown, Run ends        │ checkpoint off: Shutdown, Run ends
//	        └───────────────────────────┘
//
// A restarted agent gives up an executor that does not subscribe within 2 s, so the pause between attempts never grows.
package agentconn

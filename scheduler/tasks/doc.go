// Package tasks keeps one record per Mesos task and knows which state may follow which.
//
// It exists so that status updates, which Mesos repeats, delays and reorders across tasks, have one meaning: a state
// of the past is a note, a terminal state is final. It is pure; the scheduler's core owns the one Table. Order of
// calls for one task: Launch, Recover or Adopt; Apply for each status; Forget when the pod has left the API server.
//
//	STAGING ──► STARTING ──► RUNNING ──► KILLING ──► terminal: FINISHED FAILED KILLED ERROR
//	   │            │           │           │           ▲      LOST DROPPED GONE GONE_BY_OPERATOR
//	   └────────────┴─────┬─────┴───────────┴───────────┘
//	                      ▼  ▲
//	             UNREACHABLE UNKNOWN      (may come back in any state)
package tasks

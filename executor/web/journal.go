package web

import "time"

// Entry is one thing that the executor's core was told or said. It holds text alone, so that keeping it keeps no pod alive.
type Entry struct {
	Time time.Time `json:"time"`
	// Kind is Event or Effect; Name is its Go type, such as Launch or SendUpdate.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// TaskID is empty for what is about no single task.
	TaskID string `json:"taskID,omitempty"`
	What   string `json:"what,omitempty"`
	// Why is an effect's reason in the core's words.
	Why string `json:"why,omitempty"`
}

// The kinds of entries.
const (
	Event  = "event"
	Effect = "effect"
)

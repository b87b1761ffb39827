package web

import (
	"slices"
	"time"
)

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

// Journal holds the newest entries. It is for one goroutine.
type Journal struct {
	entries []Entry
	next    int
}

// NewJournal makes a journal that holds size entries, at least one.
func NewJournal(size int) *Journal { return &Journal{entries: make([]Entry, 0, max(size, 1))} }

// Add forgets the oldest entry when the journal is full.
func (j *Journal) Add(e Entry) {
	if len(j.entries) < cap(j.entries) {
		j.entries = append(j.entries, e)
		return
	}
	j.entries[j.next] = e
	j.next = (j.next + 1) % len(j.entries)
}

// Entries is a copy, the oldest first.
func (j *Journal) Entries() []Entry {
	return slices.Concat(j.entries[j.next:], j.entries[:j.next])
}

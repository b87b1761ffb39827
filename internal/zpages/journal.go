package zpages

import "slices"

// Journal holds the newest of what happened. It is for one goroutine.
type Journal[E any] struct {
	entries []E
	next    int
}

// NewJournal makes a journal that holds size entries, at least one.
func NewJournal[E any](size int) *Journal[E] {
	return &Journal[E]{entries: make([]E, 0, max(size, 1))}
}

// Add forgets the oldest entry when the journal is full.
func (j *Journal[E]) Add(e E) {
	if len(j.entries) < cap(j.entries) {
		j.entries = append(j.entries, e)
		return
	}
	j.entries[j.next] = e
	j.next = (j.next + 1) % len(j.entries)
}

// Entries is a copy, the oldest first.
func (j *Journal[E]) Entries() []E {
	return slices.Concat(j.entries[j.next:], j.entries[:j.next])
}

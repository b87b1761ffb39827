package zpages

import (
	"iter"
	"slices"
)

// Journal holds the newest of what happened. It is for one goroutine.
type Journal[E any] struct {
	size    int
	entries []E
	next    int
}

// NewJournal makes a journal that holds size entries, at least one.
func NewJournal[E any](size int) *Journal[E] { return &Journal[E]{size: max(size, 1)} }

// Add notes an entry. It returns the oldest one, which it forgets, when the journal is full, and else E's zero value.
func (j *Journal[E]) Add(e E) (forgotten E) {
	if len(j.entries) < j.size {
		j.entries = append(j.entries, e)
		return forgotten
	}
	forgotten, j.entries[j.next] = j.entries[j.next], e
	j.next = (j.next + 1) % len(j.entries)
	return forgotten
}

// Newest goes through the entries, the newest first.
func (j *Journal[E]) Newest() iter.Seq[E] {
	return func(yield func(E) bool) {
		for i := range j.entries {
			if !yield(j.entries[(j.next-1-i+2*len(j.entries))%len(j.entries)]) {
				return
			}
		}
	}
}

// Entries is a copy, the oldest first.
func (j *Journal[E]) Entries() []E {
	entries := slices.Collect(j.Newest())
	slices.Reverse(entries)
	return entries
}

package web

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mesopod/mesopod/internal/zpages"
)

// Entry is one thing that the scheduler's core was told or decided. It holds text alone, so that keeping it keeps no pod alive.
type Entry struct {
	Time time.Time `json:"time"`
	// Count is how often the same was told in a row of the same pod, or of none, Last the last time; 1 and Time for most.
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	// Kind is Event or Effect; Name is its Go type, such as Waiting or Accept.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// UID and Pod (namespace/name), Task and Agent (host name or id) say what it is about; empty for none, or for many.
	UID   string `json:"uid,omitempty"`
	Pod   string `json:"pod,omitempty"`
	Task  string `json:"task,omitempty"`
	Agent string `json:"agent,omitempty"`
	What  string `json:"what,omitempty"`
	// Why is the reason in the core's words.
	Why string `json:"why,omitempty"`
}

// The kinds of entries.
const (
	Event  = "event"
	Effect = "effect"
)

// same tells that two entries differ in nothing but their time.
func (e *Entry) same(o *Entry) bool {
	return e.Kind == o.Kind && e.Name == o.Name && e.UID == o.UID && e.Task == o.Task && e.Agent == o.Agent && e.What == o.What && e.Why == o.Why
}

// has tells that the text is in the entry, whatever its case.
func (e *Entry) has(text string) bool {
	return slices.ContainsFunc([]string{e.Name, e.Pod, e.Task, e.Agent, e.What, e.Why}, func(s string) bool {
		return strings.Contains(strings.ToLower(s), text)
	})
}

// Journal holds the newest entries, of all pods together. Any goroutine may use it.
type Journal struct {
	mu      sync.Mutex
	entries *zpages.Journal[*Entry]
	// latest is the last entry of each pod that is in the journal, and the last one of none: what repeats itself is counted
	// there, or a thousand pods that wait would wash out everything else.
	latest map[string]*Entry
}

// NewJournal makes a journal that holds size entries.
func NewJournal(size int) *Journal {
	return &Journal{entries: zpages.NewJournal[*Entry](size), latest: map[string]*Entry{}}
}

// Add notes an entry. It forgets the oldest one when the journal is full.
func (j *Journal) Add(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Count, e.Last = 1, e.Time
	if last := j.latest[e.UID]; last != nil && last.same(&e) {
		last.Count++
		last.Last = e.Time
		return
	}
	if old := j.entries.Add(&e); old != nil && j.latest[old.UID] == old {
		delete(j.latest, old.UID)
	}
	j.latest[e.UID] = &e
}

// OfPod are copies of the entries about a pod, the oldest first.
func (j *Journal) OfPod(uid string) []Entry {
	entries := j.pick(1<<20, func(e *Entry) bool { return e.UID == uid })
	slices.Reverse(entries)
	return entries
}

// Newest are copies of the newest entries that have the text in them (empty: all), the newest first.
func (j *Journal) Newest(most int, text string) []Entry {
	text = strings.ToLower(text)
	return j.pick(most, func(e *Entry) bool { return text == "" || e.has(text) })
}

func (j *Journal) pick(most int, is func(*Entry) bool) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	picked := []Entry{}
	for e := range j.entries.Newest() {
		if len(picked) == most {
			break
		}
		if is(e) {
			picked = append(picked, *e)
		}
	}
	return picked
}

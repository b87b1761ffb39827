package mesossim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// FaultKind is what a fault does.
type FaultKind string

// The kinds of faults. Those of events are for streams, those of calls for the answers to calls; Partition is for both.
const (
	// Drop loses an event, or takes a call and does nothing: an ACKNOWLEDGE that is dropped is a lost ACK.
	Drop FaultKind = "drop"
	// Delay holds an event, and all that follow it, or a call back.
	Delay FaultKind = "delay"
	// Duplicate sends an event twice, or carries a call out twice.
	Duplicate FaultKind = "duplicate"
	// Reorder sends an event after the one that follows it.
	Reorder FaultKind = "reorder"
	// Truncate sends half an event and breaks the connection.
	Truncate FaultKind = "truncate"
	// Close breaks the stream instead of sending an event.
	Close FaultKind = "close"
	// Status answers a call with Code.
	Status FaultKind = "status"
	// Hang never answers a call.
	Hang FaultKind = "hang"
	// Partition loses all events and lets all calls hang.
	Partition FaultKind = "partition"
)

// The links that faults may be on. The one between an agent and the master is cut by CutAgent.
const (
	// SchedulerLink is that between schedulers and the master.
	SchedulerLink = "scheduler"
	// ExecutorLink is that between executors and their agents; ExecutorLink + ":" + NAME that of one agent.
	ExecutorLink = "executor"
)

// Fault is something that goes wrong on a link.
type Fault struct {
	// ID by which it is removed; Inject makes one if it is empty.
	ID string `json:"id"`
	// Link is SchedulerLink, ExecutorLink, or that of one agent.
	Link string    `json:"link"`
	Kind FaultKind `json:"kind"`
	// Match is the type of the events or calls that it meets, such as UPDATE or ACKNOWLEDGE; empty is all.
	Match string `json:"match,omitempty"`
	// Calls tells that it meets calls and not events, where a kind may meet both.
	Calls bool `json:"calls,omitempty"`
	// Skip is how many it leaves alone first; Count how many it meets then, zero is all until it is removed.
	Skip  int `json:"skip,omitempty"`
	Count int `json:"count,omitempty"`
	// Delay of the kind Delay; Code and Location of the kind Status.
	Delay    Duration `json:"delay,omitempty"`
	Code     int      `json:"code,omitempty"`
	Location string   `json:"location,omitempty"`
	// Met is how often something came by that the fault is for, skipped or not.
	Met int `json:"met,omitempty"`
}

// Duration is written as "1.5s".
type Duration time.Duration

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

func (f Fault) check() error {
	kinds := []FaultKind{Drop, Delay, Duplicate, Reorder, Truncate, Close, Status, Hang, Partition}
	link, _, _ := strings.Cut(f.Link, ":")
	switch {
	case !slices.Contains(kinds, f.Kind):
		return fmt.Errorf("fault kind %q is none of %v: %w", f.Kind, kinds, errdefs.ErrInvalid)
	case link != SchedulerLink && link != ExecutorLink:
		return fmt.Errorf("fault link %q is neither scheduler nor executor: %w", f.Link, errdefs.ErrInvalid)
	case f.Kind == Status && (f.Code < 100 || f.Code > 599):
		return fmt.Errorf("fault of kind status with code %d: %w", f.Code, errdefs.ErrInvalid)
	case f.Kind == Delay && f.Delay <= 0:
		return fmt.Errorf("fault of kind delay without a delay: %w", errdefs.ErrInvalid)
	}
	return nil
}

// faults are those in force. The Sim's lock guards them.
type faults struct {
	list  []Fault
	last  int
	held  map[string]queued // by link: the event that waits for the next one
	heals chan struct{}     // closed when a fault is removed
}

// meet gives the first fault that an event or call meets, and counts it.
func (f *faults) meet(link, kind string, calls bool) (Fault, bool) {
	for i := range f.list {
		one := &f.list[i]
		ofCalls := one.Calls || one.Kind == Status || one.Kind == Hang
		if one.Kind != Partition && ofCalls != calls || one.Link != link && !strings.HasPrefix(link, one.Link+":") ||
			one.Match != "" && one.Match != kind {
			continue
		}
		one.Met++
		if one.Met <= one.Skip || one.Count > 0 && one.Met > one.Skip+one.Count {
			continue
		}
		return *one, true
	}
	return Fault{}, false
}

// onEvent is what becomes of an event: what to send, and whether the stream breaks then.
func (f *faults) onEvent(now time.Time, link string, item queued) (items []queued, end bool) {
	fault, met := f.meet(link, item.kind, false)
	if before, waits := f.held[link]; waits && (!met || fault.Kind != Reorder) {
		delete(f.held, link)
		defer func() { items = append(items, before) }()
	}
	if !met {
		return []queued{item}, false
	}
	switch fault.Kind {
	case Drop, Partition:
		return nil, false
	case Delay:
		item.due = now.Add(time.Duration(fault.Delay))
	case Duplicate:
		return []queued{item, item}, false
	case Reorder:
		if f.held == nil {
			f.held = map[string]queued{}
		}
		if before, waits := f.held[link]; waits {
			items = []queued{before}
		}
		f.held[link] = item
		return items, false
	case Truncate:
		item.cut = true
	case Close:
		return nil, true
	}
	return []queued{item}, false
}

// Inject puts a fault in force and gives its id.
func (s *Sim) Inject(f Fault) (string, error) {
	if err := f.check(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.ID == "" {
		s.faults.last++
		f.ID = fmt.Sprintf("fault%d", s.faults.last)
	}
	s.faults.list = append(s.faults.list, f)
	return f.ID, nil
}

// Heal removes a fault, or all of them for an empty id.
func (s *Sim) Heal(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.list = slices.DeleteFunc(s.faults.list, func(f Fault) bool { return id == "" || f.ID == id })
	if s.faults.heals != nil {
		close(s.faults.heals)
		s.faults.heals = nil
	}
}

// Faults are those in force.
func (s *Sim) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults.list)
}

// Met tells how often something came by that the fault meets.
func (s *Sim) Met(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults.list {
		if f.ID == id {
			return f.Met
		}
	}
	return 0
}

// onCall lets a call meet its fault. It answers how often the call has to be carried out, or that it was answered.
func (s *Sim) onCall(w http.ResponseWriter, r *http.Request, link, kind string) (times int, answered bool) {
	for {
		s.mu.Lock()
		fault, met := s.faults.meet(link, kind, true)
		if s.faults.heals == nil {
			s.faults.heals = make(chan struct{})
		}
		heals := s.faults.heals
		s.mu.Unlock()
		if !met {
			return 1, false
		}
		switch fault.Kind {
		case Drop:
			return 0, false
		case Duplicate:
			return 2, false
		case Delay:
			select {
			case <-time.After(time.Duration(fault.Delay)):
			case <-r.Context().Done():
			}
			return 1, false
		case Status:
			if fault.Location != "" {
				w.Header().Set("Location", fault.Location)
			}
			http.Error(w, "fault "+fault.ID, fault.Code)
			return 0, true
		case Close, Truncate:
			panic(http.ErrAbortHandler)
		}
		// Hang and Partition: until the fault is removed or the client leaves.
		select {
		case <-heals:
		case <-r.Context().Done():
			return 0, true
		}
	}
}

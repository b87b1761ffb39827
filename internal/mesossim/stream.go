package mesossim

import (
	"net/http"
	"sync"
	"time"
)

// stream is the answer to one SUBSCRIBE: a queue that the core fills and the handler's goroutine writes out.
type stream struct {
	id    string
	link  string
	codec codec
	wake  chan struct{} // holds one token when there is something to do

	mu     sync.Mutex
	queue  []queued
	ended  bool // nothing more comes
	broken bool // end at once, whatever is queued
}

// queued is an event on its way.
type queued struct {
	event message
	kind  string
	due   time.Time // zero is at once
	cut   bool      // write half of it and break the stream
}

func newStream(id, link string, c codec) *stream {
	return &stream{id: id, link: link, codec: c, wake: make(chan struct{}, 1)}
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) push(items ...queued) {
	s.mu.Lock()
	if !s.ended {
		s.queue = append(s.queue, items...)
	}
	s.mu.Unlock()
	s.signal()
}

// end closes the stream after what is queued.
func (s *stream) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.signal()
}

// breakOff closes the stream now.
func (s *stream) breakOff() {
	s.mu.Lock()
	s.ended, s.broken = true, true
	s.mu.Unlock()
	s.signal()
}

// take gives what may be written now. more is how long to wait for the rest, negative for ever.
func (s *stream) take(now time.Time) (items []queued, wait time.Duration, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil, 0, true
	}
	n := 0
	for n < len(s.queue) && !s.queue[n].due.After(now) {
		n++
	}
	items, s.queue = s.queue[:n:n], s.queue[n:]
	if len(s.queue) == 0 {
		s.queue = nil
		return items, -1, s.ended
	}
	return items, s.queue[0].due.Sub(now), false
}

// serve writes the stream until it ends or the client goes away. It returns with a panic that breaks the connection where
// the stream has to break in the middle.
func (s *stream) serve(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", string(s.codec))
	w.WriteHeader(http.StatusOK)
	_ = out.Flush() // a client that is gone shows below
	for {
		items, wait, done := s.take(time.Now())
		for _, item := range items {
			if !s.write(w, item) {
				return
			}
		}
		if len(items) > 0 {
			if out.Flush() != nil {
				return
			}
			continue
		}
		if done {
			return
		}
		var timer <-chan time.Time
		if wait >= 0 {
			timer = time.After(wait)
		}
		select {
		case <-s.wake:
		case <-timer:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *stream) write(w http.ResponseWriter, item queued) bool {
	record, err := s.codec.record(item.event)
	if err != nil {
		return true // an event without an encoding in JSON, such as an infinite limit: Mesos drops it too
	}
	if item.cut {
		_, _ = w.Write(record[:len(record)/2]) // the client shall see half of it, if it is there
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, err = w.Write(record)
	return err == nil
}

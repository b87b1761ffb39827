package scheduler

import (
	"context"
	"sync"
)

// queue carries effects from the loop to a worker. It has no bound: a loop that waited for a worker, which in turn waits
// to post into the loop's inbox, would never go on. What it can hold is bounded by what the core has under way.
type queue[T any] struct {
	signal chan struct{} // buffer 1: something is there

	mu    sync.Mutex
	items []T
}

func newQueue[T any]() *queue[T] { return &queue[T]{signal: make(chan struct{}, 1)} }

func (q *queue[T]) push(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default: // one is pending
	}
}

// drain hands over all that is queued, in order, again and again until ctx ends.
func (q *queue[T]) drain(ctx context.Context, handle func(context.Context, []T)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.signal:
		}
		q.mu.Lock()
		items := q.items
		q.items = nil
		q.mu.Unlock()
		if len(items) > 0 {
			handle(ctx, items)
		}
	}
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// stopDeadline is how long the parts may take to end once one of them did, or the context.
const stopDeadline = 15 * time.Second

// group runs the parts of a process by name. The first one that fails ends the others.
type group struct {
	*errgroup.Group
	ctx      context.Context // of the parts; it lives as long as wait
	deadline time.Duration

	mu    sync.Mutex
	alive map[string]struct{}
}

func newGroup(ctx context.Context, deadline time.Duration) *group {
	g, ctx := errgroup.WithContext(ctx)
	return &group{Group: g, ctx: ctx, deadline: deadline, alive: map[string]struct{}{}}
}

func (g *group) run(name string, run func(context.Context) error) {
	g.mu.Lock()
	g.alive[name] = struct{}{}
	g.mu.Unlock()
	g.Go(func() error {
		defer func() {
			g.mu.Lock()
			delete(g.alive, name)
			g.mu.Unlock()
		}()
		err := run(g.ctx)
		if err == nil && g.ctx.Err() == nil {
			err = errors.New("ended too early")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// wait returns when all parts have ended, with the first error, or when some still live after the deadline: then the
// error names them.
func (g *group) wait() error {
	done := make(chan error, 1)
	go func() { done <- g.Wait() }()
	select {
	case err := <-done:
		return err
	case <-g.ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(g.deadline):
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	late := fmt.Errorf("still running %s after the end: %s", g.deadline, strings.Join(slices.Sorted(maps.Keys(g.alive)), ", "))
	if cause := context.Cause(g.ctx); !errors.Is(cause, context.Canceled) {
		return errors.Join(cause, late)
	}
	return late
}

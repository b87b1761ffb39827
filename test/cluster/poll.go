package cluster

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Permanent is an error that waiting cannot mend.
type Permanent struct{ error }

// Poll asks until the answer is nil or Permanent, or ctx ends; then the last answer is the error.
func Poll(ctx context.Context, ask func(context.Context) error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if _, hopeless := errors.AsType[Permanent](err); hopeless {
			return err
		}
		// An answer that was cut short by the end of ctx says less than the one before.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last
		}
	}
}

// Eventually fails the test unless the answer becomes nil within Limit.
func Eventually(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	defer cancel()
	if err := Poll(ctx, ask); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

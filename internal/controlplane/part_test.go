package controlplane

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPartStop(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name string
		run  func(ctx context.Context) error
		want string // part of the error; empty: none
	}{
		{"stops", func(ctx context.Context) error { <-ctx.Done(); return nil }, ""},
		{"stops with its context's error", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, ""},
		{"stops late", func(ctx context.Context) error { <-ctx.Done(); <-time.After(stopLimit - time.Second); return nil }, ""},
		{"stops with an error", func(ctx context.Context) error { <-ctx.Done(); return boom }, "x: boom"},
		{"does not stop in time", func(ctx context.Context) error { <-time.After(2 * stopLimit); return nil }, "x did not stop within 15s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				part := startPart(t.Context(), "x", tc.run)
				err := part.stop(stopLimit)
				<-part.done // its goroutine must end before the bubble does
				switch {
				case tc.want == "" && err != nil:
					t.Errorf("stop = %v, want nil", err)
				case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("stop = %v, want %s", err, tc.want)
				}
			})
		})
	}
}

func TestUntilReady(t *testing.T) {
	never := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, tc := range []struct {
		name   string
		run    func(ctx context.Context) error
		wait   func(ctx context.Context) error
		cancel bool // the caller gives up after a second
		want   string
		took   time.Duration
	}{
		{"ready", never, func(context.Context) error { return nil }, false, "", 0},
		{"part ends first", func(context.Context) error { return nil }, never, false, "x ended by itself", 0},
		{"never ready", never, func(context.Context) error { return errors.New("asked in vain") }, false, "x: asked in vain", 0},
		{"given up, ready later", never, func(context.Context) error { <-time.After(3 * time.Second); return nil }, true, "context canceled", 3 * time.Second},
		{"given up, never ready", never, never, true, "context canceled", time.Second + stopLimit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				part := startPart(ctx, "x", tc.run)
				began := time.Now()
				if tc.cancel {
					time.AfterFunc(time.Second, cancel)
				}
				err := untilReady(ctx, part, tc.wait)
				took := time.Since(began)
				if got := errString(err); !strings.Contains(got, tc.want) || tc.want == "" && err != nil {
					t.Errorf("untilReady = %q, want %q", got, tc.want)
				}
				if took != tc.took {
					t.Errorf("it took %s, want %s", took, tc.took)
				}
				if err := part.stop(stopLimit); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func errString(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What never comes is given up with the last answer.
func TestPollGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := poll(t.Context(), func(context.Context) error { return errors.New("no namespace yet") })
		if err == nil || !strings.Contains(err.Error(), "not ready within 2m0s: no namespace yet") {
			t.Errorf("poll = %v", err)
		}
	})
}

package scheduler

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mesopod/mesopod/scheduler/core"
)

// TestCallOrder: launches and KILLs on different agents are under way together, acknowledgements meanwhile, and every other call begins when all
// before it are over and ends before the next one begins.
func TestCallOrder(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	var log []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, what)
	}
	first, second, acked, done := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	wait := func(c <-chan struct{}) {
		select {
		case <-c:
		case <-ctx.Done():
			t.Error("a call waits for one that does not begin")
		}
	}
	c := &caller{calls: newQueue[core.Effect](), acks: newQueue[core.Effect](), post: func(core.Event) {}}
	c.do = func(_ context.Context, effect core.Effect) error {
		switch e := effect.(type) {
		case core.Accept:
			note("begin " + e.OfferIDs[0])
			switch e.OfferIDs[0] {
			case "o1":
				close(first)
				wait(second)
				wait(acked)
			case "o2":
				close(second)
				wait(first)
			}
			note("end " + e.OfferIDs[0])
		case core.Kill:
			note("kill")
		case core.Revive:
			note("revive")
		case core.Acknowledge:
			close(acked)
		case core.Suppress:
			close(done)
		}
		return nil
	}
	accept := func(agent, offer string) core.Accept { return core.Accept{AgentID: agent, OfferIDs: []string{offer}} }
	for _, effect := range []core.Effect{accept("A1", "o1"), accept("A2", "o2"), core.Revive{}, accept("A1", "o3"), core.Kill{AgentID: "A1"}, accept("A1", "o4"), core.Suppress{}} {
		c.calls.push(effect)
	}
	c.acks.push(core.Acknowledge{})
	var running sync.WaitGroup
	running.Go(func() { _ = c.runCalls(ctx) }) // they end with ctx, without an error
	running.Go(func() { _ = c.runAcks(ctx) })
	wait(done)
	cancel()
	running.Wait()
	if begun := log[:2]; !slices.Contains(begun, "begin o1") || !slices.Contains(begun, "begin o2") {
		t.Errorf("not together: %v", log)
	}
	if rest := strings.Join(log[4:], ", "); rest != "revive, begin o3, end o3, kill, begin o4, end o4" {
		t.Errorf("after the first ACCEPTs: %s", rest)
	}
}

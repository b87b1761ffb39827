package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/scheduler/core"
)

// loop owns the core: it takes events one by one and hands out the effects. No other goroutine touches the core.
type loop struct {
	core     *core.Core
	dispatch func(core.Effect)

	// inbox has a buffer so that a burst of one stream's events does not wait for each step.
	inbox chan core.Event
	asks  chan func()
	ended chan struct{}
	ready chan struct{}

	// Of the loop's goroutine alone.
	stop                 error // set by core.Stop
	tally                *tally
	chronicle            *chronicle
	link                 link
	idStored, podsSynced bool
}

// link is the connection to the Mesos master as the core was last told of it.
type link struct {
	since time.Time
	// fault is why it is not there; nil while it is.
	fault error
}

func newLoop(c *core.Core, dispatch func(core.Effect)) *loop {
	return &loop{
		core: c, dispatch: dispatch, tally: newTally(), chronicle: newChronicle(c),
		inbox: make(chan core.Event, 256), asks: make(chan func()),
		ended: make(chan struct{}), ready: make(chan struct{}),
	}
}

// post hands an event to the core. After the loop has ended events go nowhere.
func (l *loop) post(event core.Event) {
	select {
	case l.inbox <- event:
	case <-l.ended:
	}
}

// ask runs read in the loop's goroutine, between two steps.
func (l *loop) ask(ctx context.Context, read func()) error {
	done := make(chan struct{})
	select {
	case l.asks <- func() { read(); close(done) }:
		<-done
		return nil
	case <-l.ended:
		return context.Canceled
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *loop) run(ctx context.Context) error {
	defer close(l.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var tick <-chan time.Time
		if at, waits := l.core.NextDeadline(); waits {
			// Never without a pause, should a deadline stay in the past.
			timer.Reset(max(time.Until(at), time.Millisecond))
			tick = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case event := <-l.inbox:
			l.step(event)
		case <-tick:
			l.step(core.Tick{})
		case read := <-l.asks:
			read()
		}
		if l.stop != nil {
			return l.stop
		}
	}
}

func (l *loop) step(event core.Event) {
	now := time.Now()
	if glog.V(2) {
		glog.Infof("step %s", describeEvent(event))
	}
	l.tally.event(now, event)
	l.chronicle.event(now, event)
	effects := l.core.Step(now, event)
	metricStep.Observe(time.Since(now).Seconds())
	for _, effect := range effects {
		l.tally.effect(now, effect)
		l.chronicle.effect(now, effect)
		if glog.V(1) {
			glog.Info(describeEffect(effect))
		}
		if stop, is := effect.(core.Stop); is {
			l.stop = fmt.Errorf("%s: %w", stop.Why, stop.Err)
			continue
		}
		l.dispatch(effect)
	}
	l.note(now, event)
}

// note keeps what the core does not: since when the master is there or away, and whether all was ready once.
func (l *loop) note(now time.Time, event core.Event) {
	switch e := event.(type) {
	case core.Subscribed:
		l.link = link{since: now}
		return
	case core.Disconnected:
		l.link = link{since: now, fault: e.Err}
		return
	case core.FrameworkIDStored:
		l.idStored = true
	case core.PodsSynced:
		l.podsSynced = true
	default:
		return
	}
	if l.idStored && l.podsSynced {
		select {
		case <-l.ready:
		default:
			close(l.ready)
		}
	}
}

package mesossim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mesopod/mesopod/internal/mesossim/core"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// Sim is a simulated Mesos. See the package comment.
type Sim struct {
	cfg       Config
	listeners []net.Listener // of the masters
	agents    map[string]*agentShell
	leader    atomic.Int32 // which of the masters leads, or led last

	mu      sync.Mutex
	core    *core.Cluster
	streams map[string]*stream
	lastID  int
	faults  faults
	wake    chan struct{} // holds one token when the next due time may have changed

	processes sync.WaitGroup
}

// New checks the configuration and opens the listeners. Run closes them again.
func New(cfg Config) (*Sim, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &Sim{cfg: cfg, agents: map[string]*agentShell{}, streams: map[string]*stream{}, wake: make(chan struct{}, 1)}
	s.faults.list = append(s.faults.list, cfg.Faults...)
	closeAll := func(err error) (*Sim, error) { return nil, errors.Join(err, s.close()) }
	for _, address := range cfg.Masters {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return closeAll(fmt.Errorf("listen as mesos master: %w", err))
		}
		s.listeners = append(s.listeners, l)
	}
	timing := cfg.Timing
	timing.Seed, timing.Address = cfg.Seed, s.Master()
	s.core = core.New(time.Now(), timing)
	for i := range cfg.Agents {
		a, err := newAgentShell(s, cfg.Agents[i])
		if err != nil {
			return closeAll(err)
		}
		s.agents[a.cfg.Name] = a
	}
	s.addScripted()
	return s, nil
}

// Master is the address of the leading master, host:port.
func (s *Sim) Master() string { return s.MasterAt(int(s.leader.Load())) }

// MasterAt is the address of one of the masters.
func (s *Sim) MasterAt(n int) string { return s.listeners[n].Addr().String() }

// AgentAddress is where an agent with real executors serves, host:port.
func (s *Sim) AgentAddress(name string) string { return s.agents[name].address() }

func (s *Sim) close() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	for _, a := range s.agents {
		errs = append(errs, a.closeListener())
	}
	return errors.Join(errs...)
}

// addScripted adds the agents without processes.
func (s *Sim) addScripted() {
	total, _ := resources.Parse(s.cfg.ScriptedResources) // complete has read both
	for n := 1; n <= s.cfg.Scripted; n++ {
		attributes, _ := resources.Attributes(inTurn(s.cfg.ScriptedAttributes, n-1))
		script := s.cfg.Script
		s.apply(s.core.AddAgent(time.Now(), core.AgentConfig{
			Name: fmt.Sprintf("sim%d", n), Hostname: fmt.Sprintf("sim%d.mesos", n), Address: s.Master(), Process: fmt.Sprintf("slave(%d)", n),
			Resources: total, Attributes: attributes, Script: &script, Limits: true,
		}))
	}
}

// Run serves until ctx ends. Executors that run then are left running.
func (s *Sim) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for n, l := range s.listeners {
		serve(ctx, group, l, s.masterHandler(n))
	}
	for _, a := range s.agents {
		if err := a.begin(ctx, group); err != nil {
			return errors.Join(err, s.close())
		}
	}
	group.Go(func() error { return s.clock(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, one := range s.streams {
			one.breakOff()
		}
		return nil
	})
	err := group.Wait()
	s.processes.Wait()
	return err
}

// serve runs a server on a listener until ctx ends.
func serve(ctx context.Context, group *errgroup.Group, l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	group.Go(func() error {
		if err := server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
			return fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
}

// clock makes the core do what is due.
func (s *Sim) clock(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.wake:
		}
		s.mu.Lock()
		s.apply(s.core.Advance(time.Now()))
		next := s.core.Next()
		s.mu.Unlock()
		if next.IsZero() {
			timer.Reset(time.Hour)
		} else {
			timer.Reset(max(0, time.Until(next)))
		}
	}
}

// do changes the core and carries out what follows.
func (s *Sim) do(change func(now time.Time) []core.Effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.core.Next()
	s.apply(change(time.Now()))
	if next := s.core.Next(); !next.IsZero() && (before.IsZero() || next.Before(before)) {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// apply carries out effects, in order. The lock is held.
func (s *Sim) apply(effects []core.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case core.SendScheduler:
			s.send(e.Stream, e.Event, e.Event.Type.String())
		case core.SendExecutor:
			s.send(e.Stream, e.Event, e.Event.Type.String())
		case core.CloseScheduler:
			s.endStream(e.Stream)
		case core.CloseExecutor:
			s.endStream(e.Stream)
		case core.StartContainer:
			s.agents[e.Container.Agent].start(e.Container)
		case core.DestroyContainer:
			s.agents[e.Container.Agent].destroy(e.Container.ID)
		case core.Checkpoint:
			s.agents[e.Agent].checkpoint()
		case core.Act:
			s.cfg.Actor.Act(e, func(o core.Outcome) {
				s.do(func(now time.Time) []core.Effect { return s.core.Acted(now, e, o) })
			})
		}
	}
}

func (s *Sim) send(id string, event message, kind string) {
	if one := s.streams[id]; one != nil {
		items, end := s.faults.onEvent(time.Now(), one.link, queued{event: event, kind: kind})
		one.push(items...)
		if end {
			one.breakOff()
		}
	}
}

func (s *Sim) endStream(id string) {
	if one := s.streams[id]; one != nil {
		one.end()
		delete(s.streams, id)
	}
}

// open makes a stream with an id of its own.
func (s *Sim) open(link string, c codec) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	one := newStream(fmt.Sprintf("%08x-%d", s.cfg.Seed&0xffffffff, s.lastID), link, c)
	s.streams[one.id] = one
	return one
}

// gone forgets a stream whose client left, unless the core ended it before.
func (s *Sim) gone(one *stream, tell func(now time.Time) []core.Effect) {
	s.do(func(now time.Time) []core.Effect {
		if s.streams[one.id] == nil {
			return nil
		}
		delete(s.streams, one.id)
		return tell(now)
	})
}

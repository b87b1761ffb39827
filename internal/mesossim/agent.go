package mesossim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/golang/glog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/mesossim/core"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// agentShell is an agent that runs real executors: its listener, its folder, its processes.
type agentShell struct {
	sim *Sim
	cfg Agent
	ctx context.Context // of Run

	mu       sync.Mutex
	listener net.Listener // nil: its process is dead
	endpoint string       // address once it was known
	running  map[string]*process
	group    *errgroup.Group
}

func newAgentShell(s *Sim, cfg Agent) (*agentShell, error) {
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(s.cfg.Dir, cfg.Name)
	}
	a := &agentShell{sim: s, cfg: cfg, running: map[string]*process{}, endpoint: cfg.Address}
	if err := os.MkdirAll(filepath.Join(a.work(), "meta"), 0o755); err != nil {
		return nil, fmt.Errorf("agent %s: %w", cfg.Name, err)
	}
	if err := a.listen(); err != nil {
		return nil, fmt.Errorf("agent %s: %w", cfg.Name, err)
	}
	return a, nil
}

func (a *agentShell) work() string { return filepath.Join(a.cfg.Dir, "work") }
func (a *agentShell) meta() string { return filepath.Join(a.work(), "meta", "agent.json") }

func (a *agentShell) address() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.endpoint
}

// listen opens the agent's listener, in its network namespace.
func (a *agentShell) listen() error {
	l, err := listenIn(a.cfg.NetNS, a.endpoint)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listener, a.endpoint = l, l.Addr().String()
	return nil
}

// listenIn listens in a network namespace: a socket stays in that in which it was made.
func listenIn(netns, address string) (net.Listener, error) {
	if netns == "" {
		return net.Listen("tcp", address)
	}
	type result struct {
		l   net.Listener
		err error
	}
	done := make(chan result, 1)
	go func() {
		// The thread is not unlocked: it ends with the goroutine, and nobody else meets it in the other namespace.
		runtime.LockOSThread()
		file, err := os.Open(netns)
		if err != nil {
			done <- result{nil, err}
			return
		}
		defer func() { _ = file.Close() }()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{nil, fmt.Errorf("enter network namespace %s: %w", netns, err)}
			return
		}
		l, err := net.Listen("tcp", address)
		done <- result{l, err}
	}()
	r := <-done
	return r.l, r.err
}

func (a *agentShell) closeListener() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listener == nil {
		return nil
	}
	err := a.listener.Close()
	a.listener = nil
	return err
}

// begin starts the agent's process, in the simulator's sense.
func (a *agentShell) begin(ctx context.Context, group *errgroup.Group) error {
	a.ctx, a.group = ctx, group
	a.serve()
	return a.register()
}

func (a *agentShell) serve() {
	a.mu.Lock()
	l := a.listener
	a.mu.Unlock()
	server := &http.Server{Handler: a.handler(), ReadHeaderTimeout: 10 * time.Second}
	a.group.Go(func() error {
		err := server.Serve(l)
		_ = server.Close() // a stopped agent's connections break
		if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) && a.ctx.Err() == nil {
			return fmt.Errorf("serve agent %s: %w", a.cfg.Name, err)
		}
		return nil
	})
	a.group.Go(func() error {
		<-a.ctx.Done()
		return server.Close()
	})
}

// register brings the agent into the core, with its checkpoint if there is one.
func (a *agentShell) register() error {
	total, _ := resources.Parse(a.cfg.Resources) // Config.complete has read both
	attributes, _ := resources.Attributes(a.cfg.Attributes)
	cfg := core.AgentConfig{
		Name: a.cfg.Name, Hostname: a.cfg.Hostname, Address: a.address(), Process: "slave(1)", Resources: total, Attributes: attributes,
		Region: a.cfg.Region, Zone: a.cfg.Zone,
	}
	saved, err := os.ReadFile(a.meta())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("agent %s: read checkpoint: %w", a.cfg.Name, err)
	}
	var failed error
	a.sim.do(func(now time.Time) []core.Effect {
		if saved == nil {
			return a.sim.core.AddAgent(now, cfg)
		}
		effects, err := a.sim.core.RestoreAgent(now, cfg, saved)
		failed = err
		return effects
	})
	if failed != nil {
		return failed
	}
	a.sim.mu.Lock()
	containers := a.sim.core.Containers(a.cfg.Name)
	a.sim.mu.Unlock()
	for _, c := range containers {
		a.adopt(c)
	}
	return nil
}

// checkpoint writes the agent's state. The Sim's lock is held.
func (a *agentShell) checkpoint() {
	data, err := a.sim.core.Snapshot(a.cfg.Name)
	if err == nil {
		err = writeWhole(a.meta(), data)
	}
	if err != nil {
		glog.Errorf("checkpoint agent=%s err=%v", a.cfg.Name, err)
	}
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// StopAgent ends an agent's process; its executors live on.
func (s *Sim) StopAgent(name string) error {
	if a := s.agents[name]; a != nil {
		if err := a.closeListener(); err != nil {
			return err
		}
	}
	s.do(func(now time.Time) []core.Effect { return s.core.StopAgent(now, name) })
	return nil
}

// StartAgent starts the process of an agent that was stopped, with what the earlier one has checkpointed.
func (s *Sim) StartAgent(name string) error {
	a := s.agents[name]
	if a == nil {
		return fmt.Errorf("agent %s has no process that could start again", name)
	}
	if err := a.listen(); err != nil {
		return fmt.Errorf("agent %s: %w", name, err)
	}
	a.serve()
	return a.register()
}

// HasExecutor tells whether an agent has started an executor.
func (s *Sim) HasExecutor(name, executorID string) bool {
	v, _ := s.viewAgent(name)
	for _, f := range v.Frameworks {
		for _, e := range f.Executors {
			if e.Info.ExecutorID.Value == executorID && e.Container != "" {
				return true
			}
		}
	}
	return false
}

// KillExecutors kills all processes that an agent has started.
func (s *Sim) KillExecutors(name string) {
	a := s.agents[name]
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.running {
		if p.started {
			killSession(p.pid)
		}
	}
}

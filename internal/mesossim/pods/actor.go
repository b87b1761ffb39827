package pods

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golang/glog"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mesopod/mesopod/executor/binder"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/mesossim/core"
)

// Config of an Actor.
type Config struct {
	// Kubeconfig is the file of somebody who may bind, delete and write the status of pods, and write nodes and leases.
	Kubeconfig string
	// Script of pods without annotations.
	Script core.Script
	// BindOnly leaves statuses and leases alone: for benchmarks of schedulers.
	BindOnly bool
	// Workers are how many calls may be under way; 0 is 32.
	Workers int
}

// retryPause is between two tries at an API server that is away.
const retryPause = 500 * time.Millisecond

// callTimeout bounds one call.
const callTimeout = 10 * time.Second

// job is a step with the one who waits for its outcome.
type job struct {
	step   core.Act
	answer func(core.Outcome)
}

// Actor acts pods out. It is a mesossim.Actor.
type Actor struct {
	cfg  Config
	jobs chan struct{} // holds one token when there is a job

	connect sync.Mutex
	client  kubernetes.Interface
	binder  *binder.Binder

	mu    sync.Mutex
	queue []job
	pods  map[string]*pod // by task
	nodes map[string]bool // whose lease is ours to keep
	addr  uint32
}

// pod is what later steps need of a task's pod. Its fields belong to the step that is under way.
type pod struct {
	namespace, name string
	uid             types.UID
	node            string
	always, onError bool // restart policy
	containers      []container
	ip              string
	started         time.Time
	restarts        int32
}

type container struct{ name, image string }

// New makes an Actor. Nothing is read or connected yet.
func New(cfg Config) *Actor {
	if cfg.Workers == 0 {
		cfg.Workers = 32
	}
	return &Actor{cfg: cfg, jobs: make(chan struct{}, 1), pods: map[string]*pod{}, nodes: map[string]bool{}}
}

// Act queues a step. See mesossim.Actor.
func (a *Actor) Act(step core.Act, answer func(core.Outcome)) {
	a.mu.Lock()
	a.queue = append(a.queue, job{step, answer})
	a.mu.Unlock()
	a.signal()
}

func (a *Actor) signal() {
	select {
	case a.jobs <- struct{}{}:
	default:
	}
}

// next takes a job, and leaves the token to another worker if there are more.
func (a *Actor) next() (job, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		a.queue = nil
		return job{}, false
	}
	one := a.queue[0]
	a.queue = a.queue[1:]
	if len(a.queue) > 0 {
		a.signal()
	}
	return one, true
}

// Run carries steps out until ctx ends.
func (a *Actor) Run(ctx context.Context) error {
	var group errgroup.Group
	for range a.cfg.Workers {
		group.Go(func() error { return a.work(ctx) })
	}
	if !a.cfg.BindOnly {
		group.Go(func() error { return a.keepNodes(ctx) })
	}
	return group.Wait()
}

func (a *Actor) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.jobs:
		}
		for one, ok := a.next(); ok && ctx.Err() == nil; one, ok = a.next() {
			a.carryOut(ctx, one)
		}
	}
}

// carryOut does a step, or queues it again while the API server is away.
func (a *Actor) carryOut(ctx context.Context, one job) {
	err := a.connected()
	var outcome core.Outcome
	if err == nil {
		outcome, err = a.step(ctx, one.step)
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		one.answer(outcome)
	default:
		if !away(err) {
			glog.Warningf("retry acted step=%d task=%s reason=%q", one.step.Step, one.step.Task, err)
		}
		time.AfterFunc(retryPause, func() { a.Act(one.step, one.answer) })
	}
}

// connected makes the client once there is a kubeconfig.
func (a *Actor) connected() error {
	a.connect.Lock()
	defer a.connect.Unlock()
	if a.client != nil {
		return nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", a.cfg.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", a.cfg.Kubeconfig, err)
	}
	cfg.QPS = -1
	cfg.ContentType, cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make client of %s: %w", a.cfg.Kubeconfig, err)
	}
	a.client, a.binder = client, binder.New(client.CoreV1())
	return nil
}

func (a *Actor) step(ctx context.Context, step core.Act) (core.Outcome, error) {
	switch step.Step {
	case core.ActLaunch:
		return a.launch(ctx, step)
	case core.ActLeave:
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.nodes, step.Node)
		return core.Outcome{}, nil
	}
	a.mu.Lock()
	p := a.pods[step.Task]
	a.mu.Unlock()
	if p == nil {
		return core.Outcome{}, nil // its launch failed
	}
	switch step.Step {
	case core.ActRun:
		return a.start(ctx, p)
	case core.ActExit:
		o, err := a.exit(ctx, p, step.ExitCode)
		if err == nil && !o.Again {
			a.forget(step.Task)
		}
		return o, err
	default:
		o, err := a.kill(ctx, p)
		if err == nil {
			a.forget(step.Task)
		}
		return o, err
	}
}

func (a *Actor) forget(task string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pods, task)
}

// away tells an error that another try may mend.
func away(err error) bool { return errors.Is(err, errdefs.ErrUnavailable) }

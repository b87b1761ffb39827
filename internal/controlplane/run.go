package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// stopLimit is how long one part may take to stop before Run gives up on it.
const stopLimit = 15 * time.Second

// ran tells whether a control plane was run in this process.
var ran atomic.Bool

// part is one component, running in a goroutine of Run's.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // valid after done is closed
}

// startPart starts run. It lives until stop is called, not until ctx ends:
// the parts must end one after the other.
func startPart(ctx context.Context, name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = run(ctx)
	}()
	return p
}

// stop ends the part and waits for it, at most for limit.
func (p *part) stop(limit time.Duration) error {
	p.cancel()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		if p.err != nil && !errors.Is(p.err, context.Canceled) {
			return fmt.Errorf("%s: %w", p.name, p.err)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("%s did not stop within %s: end the process", p.name, limit)
	}
}

// Run starts etcd, kube-apiserver and kube-controller-manager and blocks until
// ctx ends or one of them does; either way it stops what still runs, in
// reverse order. It returns nil if all of them ran until ctx ended and then
// stopped. A process can do this once.
func (p *Plane) Run(ctx context.Context) (retErr error) {
	if !ran.CompareAndSwap(false, true) {
		return errors.New("run control plane: this process has already run one, and Kubernetes' registries are process-wide: start another process")
	}
	lock, err := p.files.lock()
	if err != nil {
		return fmt.Errorf("run control plane: %w", err)
	}
	// The lock also goes with the process, so there is nothing to do on error.
	defer func() { _ = lock.Close() }()
	listener, err := p.listen()
	if err != nil {
		return fmt.Errorf("run control plane: %w", err)
	}
	// The API server closes it too when it gets so far; twice does no harm.
	defer func() { _ = listener.Close() }()
	// The stock commands do this as well: the components use old APIs
	// knowingly, and each use would be a line in the log.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	var parts []*part
	defer func() {
		errs := []error{retErr}
		for _, part := range slices.Backward(parts) {
			errs = append(errs, part.stop(stopLimit))
		}
		retErr = errors.Join(errs...)
	}()
	if err := p.start(ctx, listener, &parts); err != nil {
		// An end that was asked for during the start is no fault.
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("start control plane: %w", err)
	}
	close(p.ready)
	select {
	case <-ctx.Done():
		return nil
	case <-parts[0].done:
		return ended(parts[0])
	case <-parts[1].done:
		return ended(parts[1])
	case <-parts[2].done:
		return ended(parts[2])
	}
}

// start starts the parts, each when the one before it is ready. The parts that
// run are in parts whatever it returns.
func (p *Plane) start(ctx context.Context, listener net.Listener, parts *[]*part) error {
	// launch starts a part, and waits with the given function until it is ready.
	launch := func(name string, run func(context.Context) error, wait func(context.Context) error) error {
		began := time.Now()
		part := startPart(ctx, name, run)
		*parts = append(*parts, part)
		err := untilReady(ctx, part, wait)
		if err == nil {
			p.cfg.Phase(name, time.Since(began))
		}
		return err
	}
	etcdReady := make(chan struct{})
	err := launch("etcd",
		func(ctx context.Context) error { return p.runEtcd(ctx, etcdReady) },
		func(ctx context.Context) error {
			select {
			case <-etcdReady:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	if err != nil {
		return err
	}
	admin, err := newAdmin(p.AdminKubeconfig())
	if err != nil {
		return err
	}
	err = launch("kube-apiserver", func(ctx context.Context) error { return p.api.run(ctx, listener) }, admin.serverReady)
	if err != nil {
		return err
	}
	return launch("kube-controller-manager", p.manager.run, func(ctx context.Context) error {
		if err := admin.applyManifests(ctx, p.cfg.Manifests); err != nil {
			return err
		}
		// In this order, so that the two waits overlap.
		if err := admin.controllersReady(ctx); err != nil {
			return err
		}
		return admin.policiesEnforced(ctx)
	})
}

// untilReady waits for a part to become ready or to end. When ctx ends it still
// waits, for at most stopLimit: kube-apiserver ends the whole process if it is
// stopped while it makes its first objects.
func untilReady(ctx context.Context, part *part, wait func(context.Context) error) error {
	waitCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopLimit, cancel) })()
	ready := make(chan error, 1) // of size 1, for when nobody listens any more
	go func() { ready <- wait(waitCtx) }()
	select {
	case err := <-ready:
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		return ctx.Err()
	case <-part.done:
		cancel()
		<-ready
		return ended(part)
	}
}

// ended is the error for a part that ended by itself. Its own error comes out
// of stop.
func ended(part *part) error {
	return fmt.Errorf("%s ended by itself", part.name)
}

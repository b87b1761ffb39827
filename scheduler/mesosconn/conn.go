package mesosconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/core"
)

// Conn is the connection to the leading master. See the package comment.
type Conn struct {
	cfg   Config
	where locator
	post  func(core.Event)
	// credentials go with every request to a master.
	credentials credentials

	// The stream and the calls have connections of their own, so that closing one never breaks the other. Agents have them
	// too: they are known by other names.
	stream, calls, agents *http.Client

	mu          sync.Mutex
	frameworkID string
	sub         *subscription // nil: not subscribed
}

// subscription is one accepted SUBSCRIBE.
type subscription struct {
	master   *url.URL
	streamID string
	// end breaks the subscription, with the reason.
	end context.CancelCauseFunc
}

// New checks the configuration and builds a connection that is not yet open. Events go to post, from one goroutine. The
// error is errdefs.ErrInvalid.
func New(cfg Config, post func(core.Event)) (*Conn, error) {
	cfg.setDefaults()
	where, err := cfg.locator()
	if err != nil {
		return nil, err
	}
	client, agents, err := cfg.TLS.clients()
	if err != nil {
		return nil, err
	}
	if cfg.Framework.User == "" || cfg.Framework.Name == "" {
		return nil, fmt.Errorf("framework without user or name: %w", errdefs.ErrInvalid)
	}
	who, err := cfg.credentials()
	if err != nil {
		return nil, err
	}
	return &Conn{
		cfg: cfg, where: where, post: post, credentials: who,
		stream: client(), calls: client(), agents: agents,
	}, nil
}

// Run subscribes as the framework with this id (empty: a new one), again and again, until ctx ends: then it returns nil.
// An error is one that another attempt cannot mend; it says what to do.
func (c *Conn) Run(ctx context.Context, frameworkID string) error {
	defer c.stream.CloseIdleConnections()
	defer c.calls.CloseIdleConnections()
	defer c.agents.CloseIdleConnections()
	var looking sync.WaitGroup
	defer looking.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	looking.Go(func() { c.where.run(ctx) })
	c.mu.Lock()
	c.frameworkID = frameworkID
	c.mu.Unlock()
	for failures := 0; ; failures++ {
		master, err := c.where.next(ctx)
		if err != nil {
			return nil // only the end of ctx ends the wait
		}
		began := time.Now()
		lived, err := c.attempt(ctx, master)
		if ctx.Err() != nil {
			return nil
		}
		var fatal *fatalError
		if errors.As(err, &fatal) {
			return fmt.Errorf("mesos master: %w", fatal.err)
		}
		// One that takes us and loses us at once, again and again, is no better than one that does not take us.
		if lived && time.Since(began) > c.cfg.MaxBackoff {
			failures = 0
		}
		c.pause(ctx, master, failures, err)
	}
}

// pause waits before the next attempt. Where another master leads meanwhile the wait is that of a first failure: all who
// lost the old one come at once.
func (c *Conn) pause(ctx context.Context, failed *url.URL, failures int, why error) {
	pause := c.backoff(failures)
	glog.Warningf("retry subscription in=%s reason=%q", pause.Round(time.Millisecond), why)
	waiting, end := context.WithTimeout(ctx, pause)
	defer end()
	if c.where.moved(waiting, failed) {
		waiting, end := context.WithTimeout(waiting, c.backoff(0))
		defer end()
		<-waiting.Done()
	}
}

// backoff doubles from MinBackoff to MaxBackoff. Half of it is jitter: after a master's failover all frameworks and
// agents come at once.
func (c *Conn) backoff(failures int) time.Duration {
	pause := c.cfg.MinBackoff << min(failures, 16)
	if pause > c.cfg.MaxBackoff || pause <= 0 {
		pause = c.cfg.MaxBackoff
	}
	return pause/2 + rand.N(pause/2+1)
}

// fatalError is one that another attempt to subscribe cannot mend.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

func (c *Conn) id() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frameworkID
}

func (c *Conn) current() (sub *subscription, frameworkID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sub, c.frameworkID
}

// Master is the URL of the master that the framework is subscribed with; empty for none.
func (c *Conn) Master() string {
	if sub, _ := c.current(); sub != nil {
		return sub.master.String()
	}
	return ""
}

func (c *Conn) set(sub *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sub = sub
}

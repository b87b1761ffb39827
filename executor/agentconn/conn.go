package agentconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// Conn is the connection to the agent.
type Conn struct {
	config Config
	deps   Deps
	outbox *outbox
	// stream carries the subscription, calls everything else: the agent answers SUBSCRIBE without end.
	stream, calls *http.Client
	// pages reads what the agent shows on its address: its socket, where there is one, has the executor API alone.
	pages *http.Client

	// The rest belongs to Run's goroutine.
	identified  bool // the first SUBSCRIBED was handed over
	connected   bool // SUBSCRIBED came on the present subscription
	shutDown    bool // SHUTDOWN came
	outageSince time.Time
}

// New checks the configuration. Nothing starts.
func New(config Config, deps Deps) (*Conn, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	return &Conn{
		config: config,
		deps:   deps,
		outbox: newOutbox(),
		stream: &http.Client{Transport: newTransport(config.Socket)},
		calls:  &http.Client{Transport: newTransport(config.Socket), Timeout: headerTimeout},
		pages:  &http.Client{Transport: newTransport(""), Timeout: headerTimeout},
	}, nil
}

// newTransport goes to the address of each request, or to a unix socket whatever the address is.
func newTransport(socket string) *http.Transport {
	dialer := &net.Dialer{
		Timeout: dialTimeout,
		// The agent's heartbeats come every 30 minutes, so the kernel must notice a peer that is gone.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive / 3, Count: 3},
	}
	dial := dialer.DialContext
	if socket != "" {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, dialer, socket) }
	}
	return &http.Transport{
		DialContext:           dial,
		ResponseHeaderTimeout: headerTimeout,
		MaxIdleConnsPerHost:   1,
	}
}

// Send queues a status for the agent and returns at once. The status must be in the ledger already.
func (c *Conn) Send(update ledger.Update) { c.outbox.put(update) }

// Flush waits until all queued statuses were sent, or the context ends.
func (c *Conn) Flush(ctx context.Context) error {
	for {
		idle, changed := c.outbox.idle()
		if idle {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("flush task statuses: %w", ctx.Err())
		case <-changed:
		}
	}
}

// Run keeps the subscription until the context ends or nothing is left to subscribe to. Whenever it ends by itself it
// has posted core.Shutdown before. A nil error means that the context ended or the agent shut us down; an error names
// what made the agent unreachable or unwilling.
func (c *Conn) Run(ctx context.Context) error {
	defer c.stream.CloseIdleConnections()
	defer c.calls.CloseIdleConnections()
	defer c.pages.CloseIdleConnections()
	for {
		err := c.subscribe(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return nil
		}
		if c.connected {
			c.connected = false
			c.outageSince = time.Time{}
			c.deps.Post(ctx, core.Disconnected{})
		}
		if c.outageSince.IsZero() {
			c.outageSince = now
		}
		if c.shutDown {
			return nil
		}
		if why := c.giveUp(err, now); why != "" {
			glog.Errorf("stop subscribing reason=%q err=%v", why, err)
			c.deps.Post(ctx, core.Shutdown{Grace: c.config.ShutdownGrace, Why: why})
			return fmt.Errorf("agent at %s: %s: %w", c.config.URL, why, err)
		}
		glog.Warningf("retry subscription err=%v", err)
		if !c.pause(ctx) {
			return nil
		}
	}
}

// giveUp tells why no further attempt is made, or "".
func (c *Conn) giveUp(err error, now time.Time) string {
	switch {
	case errors.Is(err, errdefs.ErrRefused):
		return "the agent refused the subscription"
	case !c.config.Checkpoint:
		return "the connection to the agent broke and checkpointing is off"
	case now.Sub(c.outageSince) >= c.config.RecoveryTimeout:
		return fmt.Sprintf("the agent stayed away for %v", c.config.RecoveryTimeout)
	}
	return ""
}

// pause waits between half of the retry interval and all of it, so that the executors of one agent do not come at once.
func (c *Conn) pause(ctx context.Context) bool {
	half := c.config.RetryInterval / 2
	timer := time.NewTimer(half + rand.N(half+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

package mesosconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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
	cfg     Config
	masters []*url.URL
	post    func(core.Event)
	// credentials go with every request to a master.
	credentials credentials

	// The stream and the calls have connections of their own, so that closing one never breaks the other.
	stream, calls *http.Client

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
	masters, err := ParseMasters(cfg.Master)
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
		cfg: cfg, masters: masters, post: post, credentials: who,
		stream: newClient(), calls: newClient(),
	}, nil
}

func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     time.Minute,
			// The stream is read as it comes, and a compressed one comes late.
			DisableCompression: true,
		},
		// A redirect names the leader, which is remembered: it is followed by hand.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Run subscribes as the framework with this id (empty: a new one), again and again, until ctx ends: then it returns nil.
// An error is one that another attempt cannot mend; it says what to do.
func (c *Conn) Run(ctx context.Context, frameworkID string) error {
	defer c.stream.CloseIdleConnections()
	defer c.calls.CloseIdleConnections()
	c.mu.Lock()
	c.frameworkID = frameworkID
	c.mu.Unlock()
	failures := 0
	for next := 0; ; next++ {
		lived, err := c.attempt(ctx, c.masters[next%len(c.masters)])
		if ctx.Err() != nil {
			return nil
		}
		var fatal *fatalError
		if errors.As(err, &fatal) {
			return fmt.Errorf("mesos master: %w", fatal.err)
		}
		if lived {
			failures = 0
		}
		pause := c.backoff(failures)
		failures++
		glog.Warningf("retry subscription in=%s reason=%q", pause.Round(time.Millisecond), err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
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

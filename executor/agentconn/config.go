package agentconn

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// Config is where the agent is and who we are; it comes from the MESOS_* variables.
type Config struct {
	// URL of the executor API: http://ADDRESS:PORT/AGENT PROCESS ID/api/v1/executor.
	URL string
	// Socket is the absolute path of a unix socket where the agent serves the same API, plain HTTP; calls go there and not to
	// URL's address, which is a name only then. Empty: there is none.
	Socket string
	// FrameworkID, ExecutorID and AgentID identify us in each call.
	FrameworkID, ExecutorID, AgentID string
	// Checkpoint tells that the agent may restart while we live. Without it a lost connection is the end.
	Checkpoint bool
	// RecoveryTimeout is how long an outage may last when Checkpoint is set.
	RecoveryTimeout time.Duration
	// ShutdownGrace is how long the agent waits for us after SHUTDOWN.
	ShutdownGrace time.Duration
	// Token is sent as bearer token unless it is empty. It is never logged.
	Token string
	// RetryInterval is the longest pause between attempts to subscribe; 0 means 500 ms.
	RetryInterval time.Duration
}

// Agent is what the first SUBSCRIBED tells about the agent that we run on.
type Agent struct {
	// ID is the agent's id; Hostname is the name of our node.
	ID, Hostname string
	// Resources is the agent's total in the role "*": unreserved and not revocable.
	Resources messages.Resources
	// Executor is the share of them that the executor was started with, zero if the agent does not tell.
	Executor messages.Resources
	// ContainerID is the id of our container.
	ContainerID string
}

// Deps are what the connection asks of its owner. All are called from goroutines of Run and may block until the
// context ends.
type Deps struct {
	// Subscribed hands over the first SUBSCRIBED, before the event Connected that goes with it.
	Subscribed func(context.Context, Agent)
	// Post hands over an event, in the order in which the agent sent them.
	Post func(context.Context, core.Event)
	// Unacknowledged asks for what goes along with a SUBSCRIBE (EX-120): tasks none of whose statuses was acknowledged,
	// and all statuses that were not, in order.
	Unacknowledged func(context.Context) ([]string, []ledger.Update)
}

const (
	defaultRetry = 500 * time.Millisecond
	dialTimeout  = 2 * time.Second
	// headerTimeout bounds the wait for the answer's head; an agent that hangs is no better than one that is away.
	headerTimeout = 10 * time.Second
	keepAlive     = 15 * time.Second
)

func (c *Config) complete() error {
	var faults []error
	need := func(name, value string) {
		if value == "" {
			faults = append(faults, fmt.Errorf("%s is empty", name))
		}
	}
	need("framework id", c.FrameworkID)
	need("executor id", c.ExecutorID)
	need("agent id", c.AgentID)
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		faults = append(faults, fmt.Errorf("agent URL %q is not http://ADDRESS:PORT/PATH", c.URL))
	}
	if c.Socket != "" && !filepath.IsAbs(c.Socket) {
		faults = append(faults, fmt.Errorf("agent's socket %q is not an absolute path", c.Socket))
	}
	if c.Checkpoint && c.RecoveryTimeout <= 0 {
		faults = append(faults, errors.New("recovery timeout must be above 0 when checkpointing is on"))
	}
	if c.RetryInterval <= 0 {
		c.RetryInterval = defaultRetry
	}
	if len(faults) > 0 {
		return fmt.Errorf("agent connection: %w: %w", errdefs.ErrInvalid, errors.Join(faults...))
	}
	return nil
}

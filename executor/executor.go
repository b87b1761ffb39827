package executor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/golang/glog"
	"golang.org/x/sync/errgroup"

	"github.com/mesopod/mesopod/executor/agentconn"
	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/executor/store"
)

// Executor is one executor. Make one with New.
type Executor struct {
	config Config
	env    Env
	conn   *agentconn.Conn
	inbox  chan message
	// orderer looks for orders of bundles in launches.
	orderer *orderer
	// identity and follower are there once the node has a name.
	identity *identity
	follower *follower
	// guard is between the loop and conn.
	guard *quotaGuard
	// about asks the agent once what matters to who runs in its containers.
	about func() (agentconn.About, error)
	// store is the ledger's file, open while Run lives.
	store *store.File
	// claim keeps the bridge and the range of our pods from other executors while the process lives.
	claim io.Closer
	// slots bounds the calls to the API server that are under way.
	slots chan struct{}
}

// ExitError is an end of the executor that is none to be proud of. Main exits with Code.
type ExitError struct {
	// Code is 1 for a failure that a restart may mend, 5 for a restart with another configuration; 3 when the kubelet ended
	// and 4 when the agent is lost for good, both after the tasks were ended, so that the keeper must end too.
	Code int
	Why  string
}

// Error implements error.
func (e *ExitError) Error() string { return fmt.Sprintf("executor ends: %s", e.Why) }

const (
	// agentLostCode is the exit code after the agent refused us or stayed away too long.
	agentLostCode = 4
	// callsAtOnce is how many binds, patches and deletions may be under way.
	callsAtOnce = 16
	// inboxSize lets the parts run ahead of the loop a little; nobody depends on it.
	inboxSize = 64
	// flushTimeout is how long statuses may take to leave at the end; what the core waits for has been acknowledged.
	flushTimeout = 2 * time.Second
	// stopTimeout bounds the end of our own goroutines, containerd's end and the sweep included.
	stopTimeout = 10 * time.Second
	// placeTimeout bounds the wait for who sweeps our folder.
	placeTimeout = 30 * time.Second
	// aboutTimeout bounds the questions to an agent that has just answered our subscription.
	aboutTimeout = 5 * time.Second
)

// New checks what can be checked before anything starts.
func New(config Config, env Env) (*Executor, error) {
	// The keeper knows best what it started.
	config.BundleDir = cmp.Or(env.BundleDir, config.BundleDir)
	config, err := config.complete(env)
	if err != nil {
		return nil, err
	}
	if config.Kubeconfig != "" {
		if _, err := newAPIClient(config.Kubeconfig, config.KubeletKubeconfig); err != nil {
			return nil, err
		}
	}
	refreshCertificates()
	registerMetrics()
	e := &Executor{
		config: config, env: env, orderer: newOrderer(env),
		inbox: make(chan message, inboxSize), slots: make(chan struct{}, callsAtOnce),
	}
	e.conn, err = agentconn.New(agentconn.Config{
		URL: env.AgentURL, Socket: env.AgentSocket, FrameworkID: env.FrameworkID, ExecutorID: env.ExecutorID, AgentID: env.AgentID,
		Checkpoint: env.Checkpoint, RecoveryTimeout: env.RecoveryTimeout, ShutdownGrace: env.ShutdownGrace, Token: env.Token,
	}, agentconn.Deps{Subscribed: e.identified, Post: e.post, Unacknowledged: e.unacknowledged})
	if err != nil {
		return nil, err
	}
	e.guard = newQuotaGuard(env.Cgroup, e.conn.Send)
	return e, nil
}

// Run lives until the agent, the idle watch or a failure ends the executor. The end of ctx asks for a shutdown like
// the agent's: pods end within the agent's grace period, then Run returns.
func (e *Executor) Run(ctx context.Context) error {
	crashBySignal()
	if err := e.place(ctx); err != nil {
		return err
	}
	known, err := e.recover()
	if err != nil {
		return err
	}
	defer func() {
		if err := e.store.Close(); err != nil {
			glog.Warningf("end ledger err=%v", err)
		}
	}()
	// The parts outlive ctx: they are what an orderly end needs.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	handOver := false
	defer func() {
		if !handOver {
			cancel()
		}
	}()
	group, life := errgroup.WithContext(life)
	e.about = sync.OnceValues(func() (agentconn.About, error) {
		ctx, cancel := context.WithTimeout(life, aboutTimeout)
		defer cancel()
		return e.conn.About(ctx)
	})
	connection := make(chan error, 1)
	group.Go(func() error {
		// An error here is the end of the subscription; the core was told to shut down, and ends the rest in order.
		err := e.conn.Run(life)
		if err != nil {
			glog.Errorf("end subscription err=%v", err)
		}
		connection <- err
		return nil
	})
	group.Go(func() error {
		select {
		case <-ctx.Done():
			e.post(life, core.Shutdown{Grace: e.env.ShutdownGrace, Why: "a signal asked for it"})
		case <-life.Done():
		}
		return nil
	})
	exit := e.loop(life, group, known)
	glog.Infof("end executor code=%d reason=%q", exit.Code, exit.Why)
	if exit.Code == reconfiguredCode {
		// As after a crash: whatever runs is the next executor's, and the end of our parts would be the end of it.
		handOver = true
		return &ExitError{Code: exit.Code, Why: exit.Why}
	}
	e.stop(ctx, cancel, group)
	select {
	case err := <-connection:
		// The core ends in order when the agent is lost; for whoever started us it is a failure all the same.
		if err != nil && exit.Code == 0 {
			exit.Code, exit.Why = agentLostCode, err.Error()
		}
	default:
	}
	if exit.Code != 0 {
		return &ExitError{Code: exit.Code, Why: exit.Why}
	}
	return nil
}

// crashBySignal makes a panic end the process by SIGABRT instead of exit code 2, which is that of wrong flags: the keeper
// starts the executor again after the one and not after the other (EX-124).
func crashBySignal() { debug.SetTraceback("crash") }

// recover reads what an earlier executor of this Mesos container knew, and tells the keeper where our state is.
func (e *Executor) recover() (*ledger.Ledger, error) {
	if e.env.StateFile != "" {
		if err := os.WriteFile(e.env.StateFile, []byte(e.config.StateDir+"\n"), 0o600); err != nil {
			return nil, fmt.Errorf("tell the keeper the state folder: %w", err)
		}
	}
	var known *ledger.Ledger
	var err error
	e.store, known, err = store.Open(filepath.Join(e.config.StateDir, "ledger"), ledger.Owner{
		Framework: e.env.FrameworkID, Agent: e.env.AgentID, Executor: e.env.ExecutorID, Container: e.env.Container,
	})
	return known, err
}

// stop ends what was started. The kubelet's own goroutines stay; they end with the process.
func (e *Executor) stop(ctx context.Context, cancel context.CancelFunc, group *errgroup.Group) {
	// ctx may have ended: that is how the end was asked for.
	flush, done := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer done()
	if err := e.conn.Flush(flush); err != nil {
		glog.Warningf("leave statuses unsent err=%v", err)
	}
	cancel()
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case err := <-ended:
		if err != nil {
			glog.Warningf("end parts err=%v", err)
		}
	case <-timer.C:
		glog.Warningf("leave parts running reason=%q", "they did not end in time")
	}
}

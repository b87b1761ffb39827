package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"sync"
	"syscall"
	"time"

	"github.com/golang/glog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is the private containerd.
type Runtime struct {
	config Config
	host   host
	conn   *grpc.ClientConn
	cri    cri.RuntimeServiceClient

	patience  patience
	readyOnce sync.Once
	ready     chan struct{}
}

const (
	// bootPoll is the pause between two asks whether containerd is up. It boots in some 30 ms.
	bootPoll = 20 * time.Millisecond
	// stopTimeout is what containerd gets to end by itself.
	stopTimeout = 5 * time.Second
	// firstRestart doubles with each death in a row up to lastRestart; a life of steadyAfter begins a new row.
	firstRestart = 100 * time.Millisecond
	lastRestart  = 5 * time.Second
	steadyAfter  = 30 * time.Second
)

// New checks the configuration. Nothing starts.
func New(config Config) (*Runtime, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix://"+config.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A containerd that died is back soon; the default would wait up to two minutes between attempts.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second, Backoff: reconnect()}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd: %w", err)
	}
	return &Runtime{
		config: config, host: detect(), conn: conn, cri: cri.NewRuntimeServiceClient(conn), ready: make(chan struct{}), patience: defaultPatience,
	}, nil
}

// Socket is the path of containerd's socket.
func (r *Runtime) Socket() string { return r.config.socket() }

// Ready is closed when containerd answered for the first time.
func (r *Runtime) Ready() <-chan struct{} { return r.ready }

// Run adopts or sweeps what an earlier run left, keeps containerd alive until the context ends, then ends it and sweeps again. Its
// error is nil when the context ended; otherwise containerd could not even be started.
func (r *Runtime) Run(ctx context.Context) error {
	defer r.conn.Close()
	if err := r.config.enter(ctx); err != nil {
		return err
	}
	if err := r.config.write(r.host); err != nil {
		return err
	}
	// The kernel ends a child with a death signal when the thread that started it ends, so the thread must be ours.
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	pause := firstRestart
	for ctx.Err() == nil {
		began := time.Now()
		err := r.live(ctx)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, errNotStarted) {
			return err
		}
		if time.Since(began) >= steadyAfter {
			pause = firstRestart
		}
		glog.Errorf("restart containerd pause=%v err=%v", pause, err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, lastRestart)
	}
	r.config.leave(ctx)
	return nil
}

var errNotStarted = errors.New("containerd was not started")

// live is one life of containerd: from start to end.
func (r *Runtime) live(ctx context.Context) error {
	r.config.removeDeadSockets()
	log, err := os.OpenFile(r.config.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("%w: log file: %w", errNotStarted, err)
	}
	defer log.Close()
	command := exec.Command(r.config.BundleDir+"/containerd", "--config", r.config.configFile())
	command.Env = r.config.environment()
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := command.Start(); err != nil {
		return fmt.Errorf("%w: %w", errNotStarted, err)
	}
	glog.Infof("start containerd pid=%d socket=%s", command.Process.Pid, r.config.socket())
	alive, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	var hung error
	waiting.Go(func() { hung = r.attend(alive, command.Process) })
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = stop(command.Process, ended)
	}
	cancel()
	waiting.Wait()
	if err == nil {
		err = errors.New("exit status 0")
	}
	if hung != nil {
		err = hung
	}
	return fmt.Errorf("containerd ended: %w", err)
}

// stop ends the process, gently first.
func stop(process *os.Process, ended <-chan error) error {
	if err := process.Signal(syscall.SIGTERM); err != nil {
		glog.Warningf("signal containerd pid=%d err=%v", process.Pid, err)
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		glog.Warningf("kill containerd pid=%d reason=%q", process.Pid, "it did not end in time")
		if err := process.Kill(); err != nil {
			glog.Warningf("kill containerd pid=%d err=%v", process.Pid, err)
		}
		return <-ended
	}
}

// environment is ours with the bundle first in PATH: containerd looks for its shim there.
func (c Config) environment() []string {
	environment := os.Environ()
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return append(environment, "PATH="+c.BundleDir+":"+path)
}

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/golang/glog"
)

// child is a program that runs beside this one and is started again when it ends, as an operator's supervisor would.
type child struct {
	name string   // for messages and the log file
	args []string // program and arguments
	env  []string // whole environment, without the mark
	// netns is the file of the network namespace to start it in; empty is our own. The program is started there by
	// nsenter, not by ip-netns(8), which would give it another /sys without cgroups.
	netns string
	log   string        // file for its output, appended to
	grace time.Duration // from SIGTERM to SIGKILL
}

const (
	// tooShort is the life of a child that will hardly do better when it is started again.
	tooShort = 5 * time.Second
	// tooOften is the number of such lives in a row that is enough. Somebody may have killed it.
	tooOften = 5
	// restartPause is the time between the end of a child and its next start.
	restartPause = time.Second
)

// run keeps the child running until ctx ends; it returns nil once the child has ended then. A child that ends soon
// after its start is an error, told with the end of its log: at once before up is closed, since then its flags or its
// machine are wrong, and after that when it happens again and again.
func (c child) run(ctx context.Context, dir string, up <-chan struct{}) error {
	// The kernel sends Pdeathsig when the thread ends that started the child, not when the process does. This thread
	// lives as long as the child, since nothing but this goroutine runs on it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	short := 0
	for {
		began := time.Now()
		err := c.once(ctx, dir)
		if ctx.Err() != nil {
			return nil
		}
		lived := time.Since(began)
		if short++; lived >= tooShort {
			short = 0
		}
		limit := tooOften
		select {
		case <-up:
		default:
			limit = 1
		}
		if short >= limit {
			return fmt.Errorf("%s ended after %.1f s: %w; its log %s ends with:\n%s", c.name, lived.Seconds(), err, c.log, tail(c.log, 15))
		}
		glog.Warningf("restart child name=%s reason=%q log=%s", c.name, err, c.log)
		select {
		case <-time.After(restartPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// once starts the child and waits for its end, which it asks for when ctx ends.
func (c child) once(ctx context.Context, dir string) error {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", c.name, err)
	}
	// The child has a copy of its own, and we write nothing.
	defer func() { _ = log.Close() }()
	args := c.args
	if c.netns != "" {
		args = append([]string{"nsenter", "--net=" + c.netns, "--"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(c.env, mark+"="+dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = dir
	// A group of its own keeps Ctrl-C in a terminal from it: we end our children one after the other.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = c.grace
	err = cmd.Run()
	if err == nil {
		err = errors.New("exit status 0")
	}
	return err
}

// tail is the end of a log file, indented.
func tail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "\t(" + err.Error() + ")"
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return "\t" + strings.Join(all[max(0, len(all)-lines):], "\n\t")
}

// part is a piece of the cluster that runs in a goroutine of Run's.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // valid after that
	told   bool          // whether its end was reported already
}

// parts are all that run, in the order in which they were started. Each is ended by stop, not by a context, because
// they have to end in order.
type parts struct {
	mu      sync.Mutex // guards running while parts are started side by side
	running []*part
	ended   chan *part // gets each part that ends; has room for all agents, master, scheduler and control plane, so that none waits for a reader
}

func newParts() *parts { return &parts{ended: make(chan *part, maxAgents+3)} }

// start runs a part in a goroutine.
func (p *parts) start(ctx context.Context, name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	one := &part{name: name, cancel: cancel, done: make(chan struct{})}
	p.mu.Lock()
	p.running = append(p.running, one)
	p.mu.Unlock()
	go func() {
		one.err = run(ctx)
		close(one.done)
		p.ended <- one
	}()
}

// stop ends the part that was started last and waits for it.
func (p *parts) stop() error {
	one := p.running[len(p.running)-1]
	p.running = p.running[:len(p.running)-1]
	one.cancel()
	<-one.done
	if one.err != nil && !one.told && !errors.Is(one.err, context.Canceled) {
		return fmt.Errorf("%s: %w", one.name, one.err)
	}
	return nil
}

// until waits for a condition, for the end of any part, or for the end of ctx, whichever comes first. ask is repeated
// until it returns nil; its last error is told when limit has passed.
func (p *parts) until(ctx context.Context, limit time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case one := <-p.ended:
			return endedEarly(one)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not ready within %s: %w", limit, err)
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func endedEarly(one *part) error {
	one.told = true
	if one.err != nil {
		return one.err
	}
	return fmt.Errorf("%s ended by itself", one.name)
}

// systemEnv is what our children take over from our environment.
func systemEnv() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, name := range []string{"HOME", "LANG", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

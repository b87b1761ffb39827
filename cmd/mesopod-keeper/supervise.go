package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	firstPause, lastPause = time.Second, 30 * time.Second
	// steadyLife is how long an executor lives whose next crash is not of the same row.
	steadyLife = time.Minute
)

// wrongConfiguration is the executor's exit code for one that it does not understand.
const wrongConfiguration = 2

// reconfigured is its exit code when it wants to be started again with another configuration: no fault, and no end.
const reconfigured = 5

// decidedCodes are the executor's ends that a restart would not mend: asked for, wrong flags or configuration, the
// kubelet ended and all tasks were reported lost, the agent is lost for good; and our own.
var decidedCodes = []int{0, wrongConfiguration, 3, 4, exitUnable}

// crashed tells whether an end is one after which the executor is started again.
func crashed(status unix.WaitStatus) bool {
	return status.Signaled() || !slices.Contains(decidedCodes, status.ExitStatus())
}

// nextPause is the time until the next start, after a life of some length that came after the pause before.
func nextPause(last, lived time.Duration) time.Duration {
	if last == 0 || lived >= steadyLife {
		return firstPause
	}
	return min(2*last, lastPause)
}

// supervisor keeps an executor running.
type supervisor struct {
	// dir is where its programs are, before is where they were until an order; empty without one, and once the new ones
	// have proven themselves.
	dir, before            folder
	arguments, environment []string
	// ordered brings what an order names.
	ordered func() (folder, error)

	signals chan os.Signal
	// bringing tells that an order is being carried out; its result comes by brought.
	bringing bool
	brought  chan result
	// refused is a folder that we came back from.
	refused folder
	// replaced tells that we ended the executor to start it anew from dir.
	replaced bool
}

// result is how an order went.
type result struct {
	dir folder
	err error
}

// run keeps the executor running until an end that is none to come back from, and returns its exit code. Signals are
// handed on, and whatever ends below us is reaped.
func (s *supervisor) run() (int, error) {
	s.signals, s.brought = make(chan os.Signal, 16), make(chan result, 1)
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGCHLD)
	defer signal.Stop(s.signals)
	var pause time.Duration
	for {
		began := time.Now()
		pid, err := s.start()
		if err != nil && pause == 0 && s.before.dir == "" {
			return exitUnable, fmt.Errorf("start %s (is --bundle-dir right?): %w", s.dir.program(), err)
		}
		why, decided := fmt.Sprint(err), false
		var status unix.WaitStatus
		if err == nil {
			var asked bool
			if status, asked = s.await(pid); asked {
				return exitCode(status), nil
			}
			why, decided = describe(status), !crashed(status)
		}
		if s.replaced {
			s.replaced, pause = false, firstPause
			tell("the executor runs on from %s, its pods run on", s.dir)
			continue
		}
		failed := !decided && status.ExitStatus() != reconfigured || status.ExitStatus() == wrongConfiguration
		if failed && s.before.dir != "" && time.Since(began) < steadyLife {
			tell("the executor of %s ended (%s) after %s: go back to %s", s.dir, why, time.Since(began).Round(time.Second), s.before)
			s.dir, s.before, s.refused = s.before, folder{}, s.dir
			continue
		}
		s.before = folder{}
		if decided {
			return exitCode(status), nil
		}
		if pause = nextPause(pause, time.Since(began)); !failed {
			pause = firstPause // changes of the configuration that follow each other are no row of crashes
		}
		tell("the executor ended (%s); start it again in %s, its pods run on", why, pause)
		if number, asked := s.rest(pause); asked {
			return exitCode(unix.WaitStatus(number)), nil
		}
	}
}

func (s *supervisor) start() (int, error) {
	program := s.dir.program()
	return syscall.ForkExec(program, append([]string{program}, s.arguments...), &syscall.ProcAttr{
		Env:   slices.Concat(os.Environ(), s.environment, s.dir.environment()),
		Files: []uintptr{0, 1, 2},
		// No Setsid and no Setpgid. Should we be killed the executor must not go on for a moment: it would report pods killed in
		// order, and the scheduler would not start them anew. Mesos or the watchdog ends the pods.
		Sys: &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL},
	})
}

// await waits for the end of the child, and tells whether a signal asked for it.
func (s *supervisor) await(pid int) (status unix.WaitStatus, asked bool) {
	for {
		select {
		case r := <-s.brought:
			if s.take(r) && !asked {
				s.replaced = true
				// The hard way is the one after which its successor knows least, and so is the one that is always tried.
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended meanwhile
			}
		case one := <-s.signals:
			switch number, _ := one.(syscall.Signal); number {
			case unix.SIGCHLD:
				if status, ended := reap(pid); ended {
					return status, asked
				}
			case unix.SIGHUP:
				s.bring()
			default:
				asked = true
				_ = unix.Kill(pid, number) // it may have ended meanwhile
			}
		}
	}
}

// rest waits, unless a signal asks for the end.
func (s *supervisor) rest(pause time.Duration) (syscall.Signal, bool) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return 0, false
		case r := <-s.brought:
			s.take(r)
		case one := <-s.signals:
			switch number, _ := one.(syscall.Signal); number {
			case unix.SIGCHLD:
				reapAll()
			case unix.SIGHUP:
				s.bring()
			default:
				return number, true
			}
		}
	}
}

// bring carries out an order beside the running executor. One that comes meanwhile is not lost: the file is looked at
// again by whoever sends the next signal.
func (s *supervisor) bring() {
	if s.bringing || s.ordered == nil {
		return
	}
	s.bringing = true
	go func() {
		dir, err := s.ordered()
		s.brought <- result{dir, err}
	}()
}

// take makes a bundle that was brought the one to run, and tells whether that is another one than before.
func (s *supervisor) take(r result) bool {
	s.bringing = false
	if r.err != nil {
		tell("stay with %s: %v", s.dir, r.err)
		return false
	}
	if r.dir == s.dir {
		return false
	}
	if r.dir == s.refused {
		tell("stay with %s: the executor of %s has failed here", s.dir, r.dir)
		return false
	}
	s.dir, s.before = r.dir, s.dir
	return true
}

// reap takes the status of every child that has ended, and returns that of one.
func reap(wanted int) (found unix.WaitStatus, ended bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case pid <= 0 || err != nil:
			return found, ended
		case pid == wanted:
			found, ended = status, true
		}
	}
}

func reapAll() { reap(0) }

func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}

// tell writes a line into the sandbox's stderr.
func tell(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "mesopod-keeper: "+format+"\n", arguments...)
}

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

// decidedCodes are the executor's ends that a restart would not mend: asked for, wrong flags or configuration, the
// kubelet ended and all tasks were reported lost, the agent is lost for good; and our own.
var decidedCodes = []int{0, 2, 3, 4, exitUnable}

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

// supervise keeps the program running until an end that is none to come back from, and returns its exit code. Signals are
// handed on, and whatever ends below us is reaped.
func supervise(program string, arguments []string, environment ...string) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGCHLD)
	defer signal.Stop(signals)
	var pause time.Duration
	for {
		began := time.Now()
		pid, err := syscall.ForkExec(program, append([]string{program}, arguments...), &syscall.ProcAttr{
			Env:   append(os.Environ(), environment...),
			Files: []uintptr{0, 1, 2},
			// No Setsid and no Setpgid. SIGTERM lets the executor end its pods should we be killed alone.
			Sys: &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM},
		})
		if err != nil && pause == 0 {
			return exitUnable, fmt.Errorf("start %s (is --bundle-dir right?): %w", program, err)
		}
		why := fmt.Sprint(err)
		if err == nil {
			status, asked := await(pid, signals)
			if asked || !crashed(status) {
				return exitCode(status), nil
			}
			why = describe(status)
		}
		pause = nextPause(pause, time.Since(began))
		fmt.Fprintf(os.Stderr, "mesopod-keeper: the executor ended (%s); start it again in %s, its pods run on\n", why, pause)
		if number, asked := rest(pause, signals); asked {
			return exitCode(unix.WaitStatus(number)), nil
		}
	}
}

// await waits for the end of the child, and tells whether a signal asked for it.
func await(pid int, signals <-chan os.Signal) (status unix.WaitStatus, asked bool) {
	for s := range signals {
		if s == unix.SIGCHLD {
			if status, ended := reap(pid); ended {
				return status, asked
			}
			continue
		}
		asked = true
		if number, ok := s.(syscall.Signal); ok {
			_ = unix.Kill(pid, number) // it may have ended meanwhile
		}
	}
	return status, asked
}

// rest waits, unless a signal asks for the end.
func rest(pause time.Duration, signals <-chan os.Signal) (syscall.Signal, bool) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return 0, false
		case s := <-signals:
			if s == unix.SIGCHLD {
				reapAll()
			} else if number, ok := s.(syscall.Signal); ok {
				return number, true
			}
		}
	}
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

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/executor/statedir"
)

// The watchdog ends everything of an executor whose keeper was killed: the processes in its cgroups, its mounts and the
// cgroups that the keeper made. Mesos does the first under the linux launcher, in part under the posix launcher, and the rest
// never.
//
// It holds the reading end of a pipe whose writing end the keeper alone has; the end of the keeper, however it comes, is
// the end of the file. So that what ends the executor does not end the watchdog too, it has a session of its own, it is
// no descendant of the keeper, and it sits in the root of each cgroup hierarchy. It ends when its work is done.

const (
	watchdogVerb = "watchdog"
	// watchdogTimeout bounds each part of the work after the keeper's end.
	watchdogTimeout = 5 * time.Second
	// The watchdog's files: the pipe from the keeper, and where it tells that it is on guard.
	pipeFile, readyFile = 3, 4
)

// startWatchdog returns when the watchdog is on guard.
func startWatchdog(p plan, made []string, stateFile string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("start the watchdog: %w", err)
		}
	}()
	// Both are closed on exec: no child of ours holds the writing end. That one stays open as long as we live.
	reading, writing, err := os.Pipe()
	if err != nil {
		return err
	}
	onGuard, telling, err := os.Pipe()
	if err != nil {
		return err
	}
	defer onGuard.Close()
	arguments := []string{os.Args[0], watchdogVerb, "-cgroup", p.cgroup, "-container", container(), "-state-file", stateFile,
		"-made", strings.Join(made, string(filepath.ListSeparator)), "-own=" + strconv.FormatBool(p.own)}
	pid, err := spawn(arguments, reading.Fd(), telling.Fd())
	err = errors.Join(err, reading.Close(), telling.Close())
	if err != nil {
		return err
	}
	// The child starts the watchdog and ends, which leaves the watchdog to init.
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if n, err := onGuard.Read(make([]byte, 1)); n != 1 {
		return fmt.Errorf("it ended (%s) before it was on guard: %w", describe(status), err)
	}
	guarded = append(guarded, writing)
	return nil
}

// guarded is the keeper's end of the pipe, which the garbage collector would close.
var guarded []*os.File

// spawn starts this program again in a session of its own, with files 3 and up.
func spawn(arguments []string, files ...uintptr) (int, error) {
	return syscall.ForkExec("/proc/self/exe", arguments, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: append([]uintptr{0, 1, 2}, files...), Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// guard is what a watchdog knows.
type guard struct {
	plan                 plan
	version2             string
	made                 []string
	container, stateFile string
}

// watch is the watchdog's life.
func watch(arguments []string) error {
	g, detached, err := parseGuard(arguments)
	if err != nil {
		return err
	}
	if !detached {
		_, err := spawn(append([]string{os.Args[0], watchdogVerb, "-detached"}, arguments...), pipeFile, readyFile)
		return err
	}
	// What is meant for the executor is not meant for us.
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if err := g.moveOut(); err != nil {
		return err
	}
	ready := os.NewFile(readyFile, "ready")
	if _, err := ready.Write([]byte{1}); err != nil {
		return fmt.Errorf("tell the keeper: %w", err)
	}
	if err := ready.Close(); err != nil {
		return fmt.Errorf("tell the keeper: %w", err)
	}
	// It never writes: this returns with its end.
	_, _ = os.NewFile(pipeFile, "keeper").Read(make([]byte, 1))
	return g.clear()
}

func parseGuard(arguments []string) (g guard, detached bool, err error) {
	flags := flag.NewFlagSet(watchdogVerb, flag.ContinueOnError)
	flags.BoolVar(&detached, "detached", false, "this is the watchdog and not who starts it")
	cgroup := flags.String("cgroup", "", "the executor's cgroup, the same in each hierarchy")
	own := flags.Bool("own", false, "the cgroup is ours and not one of Mesos")
	made := flags.String("made", "", "the folders of cgroups that the keeper made, outermost first")
	flags.StringVar(&g.container, "container", "", "id of the Mesos container")
	flags.StringVar(&g.stateFile, "state-file", "", "file with the path of the executor's state folder")
	if err := flags.Parse(arguments); err != nil {
		return g, false, err
	}
	// Without both it would kill who knows whom.
	if g.container == "" || filepath.Base(*cgroup) != g.container {
		return g, false, fmt.Errorf("cgroup %q is not that of container %q", *cgroup, g.container)
	}
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return g, false, err
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return g, false, err
	}
	all, err := hierarchies(string(cgroups), string(mountinfo))
	if err != nil {
		return g, false, err
	}
	g.version2 = version2Mount(string(mountinfo))
	g.plan = plan{cgroup: *cgroup, own: *own}
	for _, h := range all {
		g.plan.steps = append(g.plan.steps, step{hierarchy: h})
	}
	g.made = slices.DeleteFunc(filepath.SplitList(*made), func(dir string) bool { return dir == "" })
	return g, detached, nil
}

// moveOut takes this process out of the executor's cgroups.
func (g guard) moveOut() error {
	mounts := []string{}
	if g.version2 != "" {
		mounts = append(mounts, g.version2)
	}
	for _, s := range g.plan.steps {
		mounts = append(mounts, s.hierarchy.mount)
	}
	for _, mount := range mounts {
		if err := writeFile(filepath.Join(mount, "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
			return fmt.Errorf("leave the executor's cgroup: %w", err)
		}
	}
	return nil
}

// clear ends what is left of the executor. It goes on after an error.
func (g guard) clear() error {
	err := g.kill()
	err = errors.Join(err, g.unmount())
	return errors.Join(err, g.remove())
}

// dirs are the executor's cgroups, in all hierarchies.
func (g guard) dirs() []string {
	var dirs []string
	for _, s := range g.plan.steps {
		dirs = append(dirs, s.hierarchy.dir(g.plan.cgroup))
	}
	if g.version2 != "" {
		dirs = append(dirs, filepath.Join(g.version2, g.plan.cgroup))
	}
	return dirs
}

func (g guard) kill() error {
	var faults []error
	deadline := time.Now().Add(watchdogTimeout)
	for _, dir := range g.dirs() {
		faults = append(faults, killUntil(dir, deadline, func() {}))
	}
	return errors.Join(faults...)
}

// unmount takes away the mounts of the executor's state folder and the sockets of its shims, unless another one has moved in.
func (g guard) unmount() (err error) {
	text, err := os.ReadFile(g.stateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the executor did not live long enough to have any
	}
	if err != nil {
		return fmt.Errorf("tell the state folder: %w", err)
	}
	path := strings.TrimSpace(string(text))
	if !filepath.IsAbs(path) || path == "/" {
		return fmt.Errorf("state folder %q is none", path)
	}
	if _, err := os.Stat(path); err != nil {
		return nil // nothing was ever made there, or all of it is gone
	}
	ctx, cancel := context.WithTimeout(context.Background(), watchdogTimeout)
	defer cancel()
	dir, err := statedir.Lock(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Unlock()) }()
	owner, err := dir.Owner()
	if err != nil || owner != g.container {
		return err
	}
	return errors.Join(dir.RemoveShimSockets(), dir.Unmount())
}

// remove removes the cgroups that the keeper made. Mesos removes its own.
func (g guard) remove() error {
	for deadline := time.Now().Add(watchdogTimeout); ; time.Sleep(killPoll) {
		g.plan.leave(g.made, g.version2)
		left := slices.DeleteFunc(slices.Clone(g.made), func(dir string) bool {
			_, err := os.Stat(dir)
			// The common parents stay while others live below them.
			return err != nil || filepath.Base(dir) != g.container
		})
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cgroups %v do not go", left)
		}
	}
}

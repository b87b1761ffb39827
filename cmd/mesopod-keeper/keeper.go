package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroupVariable tells the executor where it lives.
const cgroupVariable = "MESOPOD_CGROUP"

// keep is the keeper's life: prepare, run the executor, clean up. It returns the exit code.
func keep(bundle, config string) (int, error) {
	if err := checkKmsg("/dev/kmsg"); err != nil {
		return exitUnable, err
	}
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return exitUnable, fmt.Errorf("tell our cgroups: %w", err)
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return exitUnable, fmt.Errorf("tell the cgroup hierarchies: %w", err)
	}
	all, err := hierarchies(string(cgroups), string(mountinfo))
	if err != nil {
		return exitUnable, err
	}
	p, err := planFor(all, container())
	if err != nil {
		return exitUnable, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return exitUnable, fmt.Errorf("become the reaper of orphans: %w", err)
	}
	version2 := version2Mount(string(mountinfo))
	p.sweep(version2, reapAll)
	made, err := p.enter()
	defer p.leave(made, version2)
	if err != nil {
		return exitUnable, err
	}
	code, err := runExecutor(bundle, config, p.cgroup)
	if p.own {
		// Mesos ends what is in its own cgroups. Nobody but us ends what is in ours.
		for _, s := range p.steps {
			if s.hierarchy.has("freezer") || s.hierarchy.has("pids") {
				err = errors.Join(err, killAll(s.hierarchy.dir(p.cgroup), reapAll))
			}
		}
	}
	return code, err
}

// container is the id of our Mesos container: the last part of the sandbox's path on the host.
func container() string {
	directory := os.Getenv("MESOS_DIRECTORY")
	if directory == "" {
		return ""
	}
	return filepath.Base(directory)
}

// checkKmsg tells in time what the kubelet would die of.
func checkKmsg(path string) error {
	file, err := os.OpenFile(path, os.O_RDONLY, 0)
	switch {
	case err == nil:
		return file.Close()
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the kubelet must read %s and may not: start the agent without the isolator cgroups/devices, or with "+
			`--allowed_devices='{"allowed_devices":[{"device":{"path":"/dev/kmsg"},"access":{"read":true,"write":true,"mknod":false}}]}': %w`, path, err)
	}
	return fmt.Errorf("the kubelet must read %s: %w", path, err)
}

// runExecutor starts the executor, hands signals on, and reaps whatever ends below us until the executor did.
func runExecutor(bundle, config, cgroup string) (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	defer signal.Stop(signals)

	// The child's death signal belongs to the thread that starts it, so that thread must last as long as we do.
	runtime.LockOSThread()
	program := filepath.Join(bundle, "mesopod")
	pid, err := syscall.ForkExec(program, []string{program, "executor", "--config", config}, &syscall.ProcAttr{
		Env:   append(os.Environ(), cgroupVariable+"="+cgroup),
		Files: []uintptr{0, 1, 2},
		// No Setsid and no Setpgid. SIGTERM lets the executor end its pods should we be killed alone.
		Sys: &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM},
	})
	if err != nil {
		return exitUnable, fmt.Errorf("start %s (is --bundle-dir right?): %w", program, err)
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case s := <-signals:
				if number, ok := s.(syscall.Signal); ok {
					_ = unix.Kill(pid, number) // it may have ended meanwhile
				}
			case <-done:
				return
			}
		}
	}()
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return exitUnable, fmt.Errorf("wait for the executor: %w", err)
		case ended == pid:
			return exitCode(status), nil
		}
	}
}

func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// reapAll takes the status of every child that has ended.
func reapAll() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
			return
		}
	}
}

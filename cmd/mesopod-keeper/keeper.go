package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// cgroupVariable tells the executor where it lives.
const cgroupVariable = "MESOPOD_CGROUP"

// stateFileVariable tells the executor where to write the path of its state folder, for the watchdog.
const (
	stateFileVariable = "MESOPOD_STATE_FILE"
	stateFileName     = ".mesopod-state"
)

// keep is the keeper's life: prepare, run the executor, clean up. It returns the exit code.
func keep(o options) (int, error) {
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
	version2 := version2Mount(string(mountinfo))
	p.sweep(version2, reapAll)
	made, err := p.enter()
	defer p.leave(made, version2)
	if err != nil {
		return exitUnable, err
	}
	stateFile := filepath.Join(sandbox(), stateFileName)
	// Before we are the reaper of orphans: the watchdog must be nobody's descendant.
	if err := startWatchdog(p, made, stateFile); err != nil {
		return exitUnable, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return exitUnable, fmt.Errorf("become the reaper of orphans: %w", err)
	}
	programs := &programs{options: o, orderFile: filepath.Join(sandbox(), orderFileName)}
	code, err := run(programs, p.cgroup, stateFile)
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

// run runs the executor until it ends for good.
func run(programs *programs, cgroup, stateFile string) (int, error) {
	dir, signalled, err := programs.first()
	if signalled != 0 {
		return exitCode(unix.WaitStatus(signalled)), nil
	}
	if err != nil {
		return exitUnable, err
	}
	// A child's death signal belongs to the thread that starts it, so that thread must last as long as we do.
	runtime.LockOSThread()
	s := supervisor{
		dir: dir, ordered: programs.ordered, arguments: []string{"executor", "--config", programs.config},
		environment: []string{
			cgroupVariable + "=" + cgroup, stateFileVariable + "=" + stateFile, orderFileVariable + "=" + programs.orderFile,
		},
	}
	return s.run()
}

// container is the id of our Mesos container: the last part of the sandbox's path on the host.
func container() string {
	directory := os.Getenv("MESOS_DIRECTORY")
	if directory == "" {
		return ""
	}
	return filepath.Base(directory)
}

// sandbox is our folder as we see it.
func sandbox() string {
	if directory := os.Getenv("MESOS_SANDBOX"); directory != "" {
		return directory
	}
	return os.Getenv("MESOS_DIRECTORY")
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

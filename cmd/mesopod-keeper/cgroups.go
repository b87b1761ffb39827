package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	killTimeout = 10 * time.Second
	killPoll    = 20 * time.Millisecond
)

// enter makes what the plan names and moves this process there. It returns the folders that it made, outermost first
// within each hierarchy.
func (p plan) enter() ([]string, error) {
	var made []string
	for _, s := range p.steps {
		dirs, err := s.make()
		if errors.Is(err, fs.ErrNotExist) {
			// Another keeper ended just now and removed the common parent between our two steps.
			dirs, err = s.make()
		}
		made = append(made, dirs...)
		if err != nil {
			return made, err
		}
		if !s.join {
			continue
		}
		if err := writeFile(filepath.Join(s.hierarchy.dir(p.cgroup), "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
			return made, fmt.Errorf("join cgroup: %w", err)
		}
	}
	return made, nil
}

// make makes the cgroup and what is missing above it, and returns what it made.
func (s step) make() ([]string, error) {
	var made []string
	for _, ancestor := range s.ancestors {
		dir := s.hierarchy.dir(ancestor)
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			made = append(made, dir)
		} else if !errors.Is(err, fs.ErrExist) {
			return made, fmt.Errorf("make cgroup: %w", err)
		}
		if s.hierarchy.has("cpuset") {
			if err := fillCpuset(dir); err != nil {
				return made, err
			}
		}
	}
	return made, nil
}

// fillCpuset gives a new cpuset what its parent has: an empty one takes no process.
func fillCpuset(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("read cpuset: %w", err)
		}
		if strings.TrimSpace(string(own)) != "" {
			continue
		}
		parent, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if err != nil {
			return fmt.Errorf("read cpuset: %w", err)
		}
		if err := writeFile(filepath.Join(dir, name), strings.TrimSpace(string(parent))); err != nil {
			return fmt.Errorf("fill cpuset: %w", err)
		}
	}
	return nil
}

// writeFile writes in one call, without creating: the kernel tells at once what it refuses.
func writeFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// processes are the pids in the cgroup and all below it.
func processes(dir string) []int {
	var pids []int
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil // it vanished meanwhile, with its processes
		}
		text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil
		}
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// killAll kills every process in the cgroup's tree but ourselves, again and again until none is left: one may fork
// between a look and its end.
func killAll(dir string, reap func()) error { return killUntil(dir, time.Now().Add(killTimeout), reap) }

func killUntil(dir string, deadline time.Time, reap func()) error {
	for ; ; time.Sleep(killPoll) {
		reap()
		pids := slices.DeleteFunc(processes(dir), func(pid int) bool { return pid == os.Getpid() })
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of %s do not end", pids, dir)
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended by itself
		}
	}
}

// removeTree removes a cgroup and all below it. What has processes stays.
func removeTree(dir string) {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, d := range dirs {
		_ = unix.Rmdir(d) // a parent with a child that stays, stays
	}
}

// leave moves this process to the root of each hierarchy where we made the cgroup, and removes what we made there with
// all that the kubelet made below.
func (p plan) leave(made []string, version2 string) {
	for _, s := range p.steps {
		dir := s.hierarchy.dir(p.cgroup)
		if !slices.Contains(made, dir) {
			continue
		}
		_ = writeFile(filepath.Join(s.hierarchy.mount, "cgroup.procs"), strconv.Itoa(os.Getpid())) // else the folder stays
		removeTree(dir)
	}
	if version2 != "" {
		// The container runtime alone made these.
		removeTree(filepath.Join(version2, p.cgroup))
		if p.own {
			_ = unix.Rmdir(filepath.Join(version2, ownParent)) // it stays while others live below it
		}
	}
	for _, dir := range slices.Backward(made) {
		_ = unix.Rmdir(dir) // the common parent stays while others live below it
	}
}

// sweep removes what dead keepers left: own cgroups whose keeper is gone, with the processes in them; and copies of
// cgroups of Mesos' containers in hierarchies where Mesos does not remove them.
func (p plan) sweep(version2 string, reap func()) {
	for _, s := range p.steps {
		for _, dir := range children(filepath.Dir(s.hierarchy.dir(p.cgroup))) {
			cgroup := filepath.Join(filepath.Dir(p.cgroup), filepath.Base(dir))
			if cgroup == p.cgroup {
				continue
			}
			if p.own {
				if pids := processes(dir); len(pids) > 0 {
					if slices.ContainsFunc(pids, isKeeper) {
						continue
					}
					if err := killAll(dir, reap); err != nil {
						fmt.Fprintln(os.Stderr, "mesopod-keeper: sweep:", err)
					}
				}
				removeTree(dir)
			} else if p.dead(cgroup) && len(processes(dir)) == 0 {
				removeTree(dir)
			}
		}
	}
	if version2 == "" {
		return
	}
	// Copies in version 2, with no process left in them by now.
	for _, dir := range children(filepath.Join(version2, filepath.Dir(p.cgroup))) {
		if (p.own || p.dead(filepath.Join(filepath.Dir(p.cgroup), filepath.Base(dir)))) && len(processes(dir)) == 0 {
			removeTree(dir)
		}
	}
}

// children are the folders in a folder.
func children(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // nobody made it yet
	}
	var dirs []string
	for _, entry := range entries {
		if entry.IsDir() {
			dirs = append(dirs, filepath.Join(dir, entry.Name()))
		}
	}
	return dirs
}

// dead tells whether a sibling container is gone by Mesos' word: its launcher keeps a freezer cgroup for each.
func (p plan) dead(cgroup string) bool {
	for _, s := range p.steps {
		if s.hierarchy.has("freezer") {
			_, err := os.Stat(s.hierarchy.dir(cgroup))
			return errors.Is(err, fs.ErrNotExist)
		}
	}
	return false
}

func isKeeper(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && namesKeeper(string(name))
}

// namesKeeper tells a keeper by its comm. The kernel cuts names to 15 bytes, so it never cuts this one of 14; the name
// "mesopod" is the executor's, which may outlive its keeper.
func namesKeeper(comm string) bool {
	return strings.TrimSuffix(comm, "\n") == "mesopod-keeper"
}

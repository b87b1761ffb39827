package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killLimit is how long processes may take to vanish after SIGKILL, and cgroups after their last process.
const killLimit = 10 * time.Second

// killAll kills all processes that are ours, again and again until none is left: one may start another meanwhile.
func killAll(own groups) error {
	var left []int
	gone, err := waitFor(killLimit, func() (bool, error) {
		if err := thawAll(own); err != nil {
			return false, err
		}
		var err error
		if left, err = ourProcesses(own); err != nil {
			return false, err
		}
		for _, pid := range left {
			// One that ended meanwhile is what was wanted.
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return false, fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		return len(left) == 0, nil
	})
	if err != nil {
		return err
	}
	if !gone {
		return fmt.Errorf("processes %v live on after SIGKILL", left)
	}
	return nil
}

// ourProcesses lists the processes with our mark or in a cgroup of ours, without this one. Zombies do not count: who
// has to reap them may be anybody.
func ourProcesses(own groups) ([]int, error) {
	var ours []int
	err := eachMarked(func(pid int, _ string) { ours = append(ours, pid) })
	if err != nil {
		return nil, err
	}
	list, err := own.list()
	if err != nil {
		return nil, err
	}
	for _, group := range list {
		data, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if err != nil {
			continue // removed meanwhile
		}
		for _, field := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid != os.Getpid() && pid > 1 && !zombie(pid) {
				ours = append(ours, pid)
			}
		}
	}
	slices.Sort(ours)
	return slices.Compact(ours), nil
}

// markedDirs lists the state folders that the marks of living processes name.
func markedDirs() ([]string, error) {
	var dirs []string
	err := eachMarked(func(_ int, dir string) {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	})
	return dirs, err
}

// eachMarked calls f with each process that has our mark, and the mark's value.
func eachMarked(f func(pid int, dir string)) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A process that ended meanwhile, or a zombie, has none.
		environment, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil {
			continue
		}
		for variable := range bytes.SplitSeq(environment, []byte{0}) {
			if dir, ok := bytes.CutPrefix(variable, []byte(mark+"=")); ok && filepath.IsAbs(string(dir)) {
				f(pid, filepath.Clean(string(dir)))
				break
			}
		}
	}
	return nil
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// The state follows the name, which stands in brackets and may hold anything.
	_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

// cgroupHierarchies lists the mount points of all cgroup hierarchies, v1 and v2.
func cgroupHierarchies() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		front, back, found := strings.Cut(line, " - ")
		if fields := strings.Fields(front); found && len(fields) > 4 && strings.HasPrefix(back, "cgroup") {
			points = append(points, mountEscapes.Replace(fields[4]))
		}
	}
	return points, nil
}

// groups are the roots of our cgroups, as patterns below the mount of each hierarchy.
type groups []string

// ownGroups are the roots of the cgroups of the clusters in dirs: each agent's own, below which Mesos makes those of its
// containers, and, where its launcher makes none, those that the keeper makes for them, named after the container.
func ownGroups(dirs []string) (groups, error) {
	own := groups{cgroupRoot + "/local-*"}
	for _, dir := range dirs {
		l := layout{Config{StateDir: dir}}
		runs, err := filepath.Glob(filepath.Join(l.works(), "work", "slaves", "*", "frameworks", "*", "executors", "*", "runs", "*"))
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			if id := filepath.Base(run); id != "latest" {
				own = append(own, keeperCgroup+"/"+id)
			}
		}
	}
	return own, nil
}

// list lists our cgroups in all hierarchies, children before their parents.
func (g groups) list() ([]string, error) {
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, hierarchy := range hierarchies {
		for _, pattern := range g {
			roots, err := filepath.Glob(filepath.Join(hierarchy, pattern))
			if err != nil {
				return nil, err
			}
			for _, root := range roots {
				if err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
					if err != nil {
						return ignoreMissing(err)
					}
					if e.IsDir() {
						found = append(found, path)
					}
					return nil
				}); err != nil {
					return nil, err
				}
			}
		}
	}
	slices.Reverse(found)
	return found, nil
}

// podsGone tells whether no process of a pod runs: the kubelet keeps pods in cgroups below one of its own.
func podsGone(own groups) (bool, error) {
	list, err := own.list()
	if err != nil {
		return false, err
	}
	for _, group := range list {
		if !strings.Contains(group, "/kubepods") {
			continue
		}
		// A group that was removed meanwhile has none.
		if data, err := os.ReadFile(filepath.Join(group, "cgroup.procs")); err == nil && len(data) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// thawAll lets frozen processes of ours go on, so that they can die.
func thawAll(own groups) error {
	list, err := own.list()
	if err != nil {
		return err
	}
	for _, group := range list {
		// Only the freezer hierarchy has the file, and the group may vanish meanwhile.
		if state, err := os.ReadFile(filepath.Join(group, "freezer.state")); err != nil || strings.TrimSpace(string(state)) == "THAWED" {
			continue
		}
		_ = os.WriteFile(filepath.Join(group, "freezer.state"), []byte("THAWED"), 0)
	}
	return nil
}

// removeCgroups removes our cgroups, and their parent where nobody else uses it. The kernel may hold a group for some
// milliseconds after its last process.
func removeCgroups(own groups) error {
	var last error
	gone, err := waitFor(killLimit, func() (bool, error) {
		list, err := own.list()
		if err != nil {
			return false, err
		}
		for _, group := range list {
			if err := syscall.Rmdir(group); err != nil && !errors.Is(err, syscall.ENOENT) {
				last = fmt.Errorf("remove cgroup %s: %w", group, err)
			}
		}
		return len(list) == 0, nil
	})
	if err != nil {
		return err
	}
	if !gone {
		return last
	}
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		// They fail where another mesopod on this machine has cgroups of its own there.
		_ = syscall.Rmdir(filepath.Join(hierarchy, keeperCgroup))
		_ = syscall.Rmdir(filepath.Join(hierarchy, cgroupRoot))
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// ownParent is the cgroup below which we make our own where Mesos makes none. Nothing else may lie there: what has no
// living keeper in it is swept.
const ownParent = "/mesopod/executors"

// hierarchy is one version 1 cgroup hierarchy.
type hierarchy struct {
	// name is what the kernel calls it: its controllers, or "name=systemd".
	name string
	// mount is where it is mounted.
	mount string
	// path is the cgroup that we are in now.
	path string
}

// has tells whether a controller belongs to the hierarchy.
func (h hierarchy) has(controller string) bool {
	return slices.Contains(strings.Split(h.name, ","), controller)
}

// dir is the folder of a cgroup.
func (h hierarchy) dir(cgroup string) string { return path.Join(h.mount, cgroup) }

// errVersion2 is a machine without version 1 hierarchies.
var errVersion2 = errors.New("this machine has cgroup v2 only, which is not supported yet: " +
	"boot it with systemd.unified_cgroup_hierarchy=0 or mount the v1 hierarchies")

// hierarchies joins /proc/self/cgroup and /proc/self/mountinfo: the version 1 hierarchies that are mounted, in the
// kernel's order.
func hierarchies(cgroups, mountinfo string) ([]hierarchy, error) {
	mounts := version1Mounts(mountinfo)
	var found []hierarchy
	for line := range strings.Lines(cgroups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || fields[1] == "" { // an empty list of controllers is version 2
			continue
		}
		if mount, ok := mounts[sorted(fields[1])]; ok {
			found = append(found, hierarchy{name: fields[1], mount: mount, path: fields[2]})
		}
	}
	if !slices.ContainsFunc(found, func(h hierarchy) bool { return h.has("memory") }) {
		return nil, errVersion2
	}
	return found, nil
}

// sorted is the name of a hierarchy independent of the order of its controllers.
func sorted(controllers string) string {
	list := strings.Split(controllers, ",")
	slices.Sort(list)
	return strings.Join(list, ",")
}

// version1Mounts maps the sorted controllers of each hierarchy to its mount point.
func version1Mounts(mountinfo string) map[string]string {
	// These options stand among the controllers in mountinfo.
	notControllers := []string{"rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode", "favordynmods"}
	mounts := map[string]string{}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		// head[3] is the cgroup that is mounted: only a mount of the root shows paths as the kernel tells them.
		if !ok || len(head) < 5 || len(tail) < 3 || tail[0] != "cgroup" || head[3] != "/" {
			continue
		}
		controllers := slices.DeleteFunc(strings.Split(tail[2], ","), func(option string) bool {
			return slices.Contains(notControllers, option) || strings.HasPrefix(option, "release_agent=")
		})
		name := sorted(strings.Join(controllers, ","))
		if _, again := mounts[name]; !again {
			mounts[name] = head[4]
		}
	}
	return mounts
}

// version2Mount is where the version 2 hierarchy is mounted beside the others, or "".
func version2Mount(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if ok && len(head) >= 5 && len(tail) > 0 && tail[0] == "cgroup2" {
			return head[4]
		}
	}
	return ""
}

// plan is where the executor and its pods will live.
type plan struct {
	// cgroup is the path, the same in each hierarchy.
	cgroup string
	// own tells that Mesos knows nothing of the cgroup, so that we must end what is in it.
	own bool
	// steps is what to make, hierarchy by hierarchy.
	steps []step
}

// step brings us into the cgroup of one hierarchy.
type step struct {
	hierarchy hierarchy
	// join tells that we are not in it yet.
	join bool
	// ancestors are the paths to make where they are missing, outermost first.
	ancestors []string
}

// planFor decides on the cgroup. Where the agent's launcher made one for our container, in whichever hierarchies, it is
// that one; its last part is the container's id. Else it is an own one, named after the container.
func planFor(all []hierarchy, container string) (plan, error) {
	if container == "" || container == "." || container == "/" || strings.Contains(container, "/") {
		return plan{}, fmt.Errorf("the container's id cannot be told from MESOS_DIRECTORY (got %q): start the keeper by a Mesos agent", container)
	}
	p := plan{cgroup: path.Join(ownParent, container), own: true}
	for _, h := range all {
		if path.Base(h.path) == container {
			p.cgroup, p.own = h.path, false
			break
		}
	}
	for _, h := range all {
		p.steps = append(p.steps, step{hierarchy: h, join: h.path != p.cgroup, ancestors: ancestors(p.cgroup)})
	}
	return p, nil
}

// ancestors are the path and those above it without the root, outermost first: /a/b gives /a and /a/b.
func ancestors(cgroup string) []string {
	var all []string
	for at := cgroup; at != "/" && at != "."; at = path.Dir(at) {
		all = append(all, at)
	}
	slices.Reverse(all)
	return all
}

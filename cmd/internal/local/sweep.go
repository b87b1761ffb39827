package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sweep removes what a local cluster has put onto the machine, and gives back the settings it changed. It is all there
// is to stopping once the parts have ended, to [Reset] and to starting after a kill; it may be called at any time, and
// twice, by whoever holds the machine (see acquire). Ours is known by marks of our own:
//
//	processes    environment variable MESOPOD_LOCAL, or member of a cgroup of ours
//	mounts       below the state folder; network namespaces of agent and pods live by mounts there too
//	links        mesopod0, mesopod-aN; all others live in an agent's namespace
//	cgroups      mesopod/local-* in every hierarchy, and mesopod/executors/ID of our agents' containers
//	files        links in the kubelet's fixed log folder that lead into the state folder; notes of network plugins
//	             about our containers; see also hostFolders
//	sysctls      those recorded before the first change
//	rules        nft table mesopod_local; all others live in an agent's namespace
//
// An earlier run may have had more agents than this one, so whatever is an agent's is found by patterns.
// A run of another state folder that was killed is known by the mark of its processes, and swept too.
func sweep(l layout) error {
	dirs := []string{l.StateDir}
	found, err := markedDirs()
	if err != nil {
		return err
	}
	for _, dir := range found {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	own, err := ownGroups(dirs)
	if err != nil {
		return err
	}
	errs := []error{killAll(own)}
	for _, dir := range dirs {
		one := l
		one.StateDir = dir
		errs = append(errs, sweepDir(one))
	}
	errs = append(errs, closeOutside(), removeLinks(), removeCgroups(own))
	for _, dir := range dirs {
		one := l
		one.StateDir = dir
		errs = append(errs, restoreHost(one))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what is left of a local cluster: %w", err)
	}
	return nil
}

// sweepDir removes what belongs to one state folder, whose processes have ended.
func sweepDir(l layout) error {
	return errors.Join(unmountBelow(l.StateDir), removeLogLinks(l), removeNetworkRecords(l))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unmountBelow unmounts all mounts below dir, the deepest first. A mount that was shared may be listed more than once.
func unmountBelow(dir string) error {
	var last error
	for range 20 {
		points, err := mountsBelow(dir)
		if err != nil || len(points) == 0 {
			return err
		}
		for _, point := range points {
			last = unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	}
	return fmt.Errorf("mounts below %s remain: %w", dir, last)
}

// mountsBelow lists the mount points below dir, later ones first.
func mountsBelow(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return parseMounts(string(data), dir), nil
}

// mountEscapes are the characters that mountinfo writes as octal numbers.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func parseMounts(mountinfo, dir string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := mountEscapes.Replace(fields[4]); strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	return points
}

// removeLogLinks removes the links that kubelets make in a fixed folder to logs in our sandboxes.
func removeLogLinks(l layout) error {
	const folder = "/var/log/containers"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return ignoreMissing(err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, l.StateDir+"/") {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}

// removeNetworkRecords removes what the network plugins' library has noted about our pods in a folder that all CNI
// callers of a machine share.
func removeNetworkRecords(l layout) error {
	records, err := filepath.Glob("/var/lib/cni/results/*")
	if err != nil {
		return err
	}
	var errs []error
	for _, record := range records {
		data, err := os.ReadFile(record)
		if err != nil {
			errs = append(errs, ignoreMissing(err))
			continue
		}
		// The pod's network namespace is below our state folder.
		if bytes.Contains(data, []byte(`"`+l.StateDir+"/")) {
			errs = append(errs, os.Remove(record))
		}
	}
	return errors.Join(errs...)
}

// waitFor asks until done is true, at most for limit.
func waitFor(limit time.Duration, done func() (bool, error)) (bool, error) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return ok, err
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return false, nil
		}
	}
}

// removeIfEmpty removes a folder, unless somebody keeps something else in it.
func removeIfEmpty(dir string) error {
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return ignoreMissing(err)
	}
	return os.Remove(dir)
}

package runtime

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/golang/glog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// sweep removes what dead containers left: mounts below the state folder (root file systems, shared memory, network
// namespaces, the kubelet's volumes and its mount of itself), address leases and the bridge. While a shim of ours lives
// there is nothing dead yet: its containers will be adopted or ended by the kubelet, so everything stays.
// It only logs what it cannot do: a left mount harms nobody but itself.
func (c Config) sweep() {
	if pids := c.shims(); len(pids) > 0 {
		glog.Infof("skip sweep reason=%q shims=%v", "containers of an earlier run live", pids)
		return
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		glog.Warningf("skip sweep err=%v", err)
		return
	}
	for _, point := range mountsBelow(string(mounts), c.StateDir) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			glog.Warningf("leave mount path=%s err=%v", point, err)
		}
	}
	if err := os.RemoveAll(c.ipamDir()); err != nil {
		glog.Warningf("leave address leases path=%s err=%v", c.ipamDir(), err)
	}
	link, err := netlink.LinkByName(c.Bridge)
	if err != nil {
		return // no such bridge: nothing to remove
	}
	if err := netlink.LinkDel(link); err != nil {
		glog.Warningf("leave bridge name=%s err=%v", c.Bridge, err)
	}
}

// shims are the processes that hold containers of our containerd: its socket is in their command line.
func (c Config) shims() []int {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	var pids []int
	for _, file := range commands {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		if !isShim(line, c.socket()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isShim(commandLine []byte, socket string) bool {
	arguments := bytes.Split(commandLine, []byte{0})
	return strings.Contains(string(arguments[0]), "containerd-shim") &&
		slices.ContainsFunc(arguments, func(a []byte) bool { return string(a) == socket })
}

// mountsBelow are the mount points below the folder (itself left out), deepest first, as /proc/self/mountinfo tells them.
func mountsBelow(mountinfo, folder string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if strings.HasPrefix(point, folder+"/") {
			points = append(points, point)
		}
	}
	// A mount over another one comes later in the list and must go first.
	slices.Reverse(points)
	slices.SortStableFunc(points, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return points
}

// unescape undoes the octal escapes of mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

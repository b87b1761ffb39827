package runtime

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang/glog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/executor/statedir"
)

const (
	// lockTimeout bounds the wait for whoever sweeps the state folder; the keeper's watchdog needs a few seconds.
	lockTimeout = 20 * time.Second
	// strangersTimeout is what the containers of an earlier Mesos container get to end: its watchdog kills them within
	// 5 s of its keeper's death.
	strangersTimeout = 6 * time.Second
	processPoll      = 20 * time.Millisecond
)

// enter takes over the state folder. When the executor before was one of the same Mesos container, its containers live
// on and are adopted; only its containerd, which ends with it, is waited for. When it was another's, its tasks have
// ended for Mesos, and what is left of it is swept.
func (c Config) enter(ctx context.Context) (err error) {
	lockCtx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	dir, err := statedir.Lock(lockCtx, c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Unlock()) }()
	owner, err := dir.Owner()
	if err != nil {
		return err
	}
	c.endPredecessor(ctx)
	if owner == c.Container {
		glog.Infof("adopt state folder path=%s container=%s shims=%v", c.StateDir, owner, c.shims())
		return nil
	}
	c.await(ctx, strangersTimeout, c.shims)
	c.sweep(dir)
	return dir.SetOwner(c.Container)
}

// leave sweeps at the end of a life in which all pods ended.
func (c Config) leave(ctx context.Context) {
	lockCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	dir, err := statedir.Lock(lockCtx, c.StateDir)
	if err != nil {
		glog.Warningf("skip sweep err=%v", err)
		return
	}
	c.sweep(dir)
	if err := dir.Unlock(); err != nil {
		glog.Warningf("leave lock err=%v", err)
	}
}

// endPredecessor makes sure that no second containerd works on our folders, and none removes our socket at its end. The
// kernel has told the one of a dead executor to end.
func (c Config) endPredecessor(ctx context.Context) {
	if c.await(ctx, stopTimeout, c.containerds) {
		return
	}
	for _, pid := range c.containerds() {
		glog.Warningf("kill containerd pid=%d reason=%q", pid, "it is left of an earlier executor and does not end")
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			glog.Warningf("kill containerd pid=%d err=%v", pid, err)
		}
	}
	c.await(ctx, stopTimeout, c.containerds)
}

// await waits until there is no such process, and tells whether that came true.
func (c Config) await(ctx context.Context, timeout time.Duration, processes func() []int) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(processPoll)
	defer ticker.Stop()
	for len(processes()) > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// sweep removes what dead containers left: mounts below the state folder (root file systems, shared memory, network
// namespaces, the kubelet's volumes and its mount of itself), records of containers, address leases and the bridge. While a shim of ours lives
// there is nothing dead yet: its containers will be adopted or ended by the kubelet, so everything stays.
// It only logs what it cannot do: a left mount harms nobody but itself.
func (c Config) sweep(dir *statedir.Dir) {
	if pids := c.shims(); len(pids) > 0 {
		glog.Infof("skip sweep reason=%q shims=%v", "containers of an earlier run live", pids)
		return
	}
	if err := dir.RemoveShimSockets(); err != nil {
		glog.Warningf("leave sockets of shims err=%v", err)
	}
	if err := dir.Unmount(); err != nil {
		glog.Warningf("leave mounts err=%v", err)
	} else {
		c.removeVolatile()
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

// removeVolatile removes what containerd and runc expect to be gone after a reboot, and do not look after: records of
// containers, files of network namespaces. Nothing may be mounted below.
func (c Config) removeVolatile() {
	for _, dir := range []string{filepath.Join(c.StateDir, "state"), filepath.Join(c.StateDir, "runc")} {
		if err := os.RemoveAll(dir); err != nil {
			glog.Warningf("leave records of dead containers path=%s err=%v", dir, err)
		}
	}
}

// removeDeadSockets removes the sockets of shims that were killed while others live on: containerd forgets such a shim but
// not its socket. It is for times when no containerd runs, so that no shim is just being started.
func (c Config) removeDeadSockets() {
	sockets, err := filepath.Glob(filepath.Join(statedir.ShimSockets(c.StateDir), "*"))
	if err != nil {
		return // it is our own pattern
	}
	for _, socket := range sockets {
		shim, err := net.Dial("unix", socket)
		if err == nil {
			_ = shim.Close()
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			continue
		}
		if err := os.Remove(socket); err != nil {
			glog.Warningf("leave socket of a dead shim err=%v", err)
		}
	}
}

// shims are the processes that hold containers of our containerd: its socket is in their command line.
func (c Config) shims() []int {
	return processes(func(line []byte) bool { return isShim(line, c.socket()) })
}

// containerds are the processes that run with our configuration file.
func (c Config) containerds() []int {
	return processes(func(line []byte) bool { return isContainerd(line, c.configFile()) })
}

// processes are those with such a command line. A zombie has none.
func processes(match func(commandLine []byte) bool) []int {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	var pids []int
	for _, file := range commands {
		line, err := os.ReadFile(file)
		if err != nil || !match(line) {
			continue // another one, or it ended meanwhile
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isShim(commandLine []byte, socket string) bool {
	arguments := bytes.Split(commandLine, []byte{0})
	return strings.Contains(string(arguments[0]), "containerd-shim") && has(arguments, socket)
}

func isContainerd(commandLine []byte, configFile string) bool {
	arguments := bytes.Split(commandLine, []byte{0})
	return filepath.Base(string(arguments[0])) == "containerd" && has(arguments, configFile)
}

func has(arguments [][]byte, word string) bool {
	return slices.ContainsFunc(arguments, func(a []byte) bool { return string(a) == word })
}

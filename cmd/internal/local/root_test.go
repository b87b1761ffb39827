package local

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// needRoot says which tests need it. CI runs them: it is root.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts, and the lock of the machine")
	}
}

// Two clusters of whatever folders cannot have the machine; the one that has it gives it back.
func TestAcquire(t *testing.T) {
	first, second := layout{good(t)}, layout{good(t)}
	first.StateDir, second.StateDir = t.TempDir(), t.TempDir()
	held, err := acquire(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []layout{first, second} {
		if again, err := acquire(l); err == nil {
			t.Errorf("a second cluster in %s may run", l.StateDir)
			_ = again.release() // the test has failed
		}
	}
	if err := held.release(); err != nil {
		t.Fatal(err)
	}
	again, err := acquire(second)
	if err != nil {
		t.Fatalf("the machine was not given back: %v", err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}

func TestUnmountBelow(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	inner := filepath.Join(dir, "a", "b")
	mount := func(path string) {
		t.Helper()
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", path, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	mount(filepath.Join(dir, "a"))
	mount(inner)
	mount(inner) // one upon the other, as mounts of a killed run can be
	file, err := os.Create(filepath.Join(inner, "open"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := unmountBelow(dir); err != nil {
		t.Error(err)
	}
	left, err := mountsBelow(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
}

// A process that carries our mark is found by it, and its folder with it; others are not.
func TestMarkedProcesses(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("cat")
	cmd.Env = append(systemEnv(), mark+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Once it has answered it runs cat, with its own environment.
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	found := false
	if err := eachMarked(func(pid int, at string) {
		if pid == os.Getpid() {
			t.Error("this process counts as one of the cluster's")
		}
		found = found || pid == cmd.Process.Pid && at == dir
	}); err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Error("a marked process was not found")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if zombie(os.Getpid()) {
		t.Error("a living process counts as a zombie")
	}
	if ok, err := waitFor(10*time.Second, func() (bool, error) { return zombie(cmd.Process.Pid), nil }); !ok || err != nil {
		t.Errorf("a process that was killed and not reaped is no zombie: %v", err)
	}
	// It was killed.
	_ = cmd.Wait()
}

// What was recorded is restored, and what was not there before is removed, once.
func TestRestoreHost(t *testing.T) {
	needRoot(t)
	l := layout{good(t)}
	l.StateDir = t.TempDir()
	if err := saveHost(l); err != nil {
		t.Fatal(err)
	}
	path := sysctlPath("kernel.panic")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("7"), 0); errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) {
		t.Skip("this machine does not let anybody change kernel settings")
	} else if err != nil {
		t.Fatal(err)
	}
	if err := restoreHost(l); err != nil {
		t.Error(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(after)) != strings.TrimSpace(string(before)) {
		t.Errorf("kernel.panic is %s, it was %s", after, before)
	}
	if _, err := os.Stat(l.host()); err == nil {
		t.Error("the record stays: a later restore would undo what others have set since")
	}
	if err := restoreHost(l); err != nil {
		t.Errorf("restoring twice: %v", err)
	}
}

func TestCheckPorts(t *testing.T) {
	a, err := plan(good(t))
	if err != nil {
		t.Fatal(err)
	}
	free := map[string]int{"a server": 6443}
	if err := checkPorts(free, a.bridge.Addr()); err != nil {
		t.Skipf("port 6443 is taken on this machine, so nothing can be said: %v", err)
	}
	// A program that listens on all addresses is in the way, though the bridge's address is not there yet.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Port: 6443}), unix.Listen(fd, 1)); err != nil {
		t.Fatal(err)
	}
	if err := checkPorts(free, a.bridge.Addr()); err == nil || !strings.Contains(err.Error(), "6443") {
		t.Errorf("a taken port is told as %v", err)
	}
}

// Agents, and through them their pods, are one hop from each other and from the machine; a sweep for fewer agents
// removes the links of all.
func TestNetwork(t *testing.T) {
	needRoot(t)
	cfg := good(t)
	cfg.StateDir, cfg.Agents = t.TempDir(), 3
	l := layout{cfg}
	a, err := plan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	origin, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unmountBelow(l.StateDir), netns.Set(origin), origin.Close()); err != nil {
			t.Error(err) // and the thread ends with the test
			return
		}
		runtime.UnlockOSThread()
		threads, err := filepath.Glob("/proc/self/task/*/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			if now, err := os.Readlink(thread); err == nil && now != inode(t) {
				t.Errorf("thread %s is in %s, the test in %s", thread, now, inode(t))
			}
		}
	})
	if err := buildNetwork(l, a); err != nil {
		t.Fatal(err)
	}
	here, err := netlink.NewHandle()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	wantHops(t, here, "the machine", a.agents)
	for _, one := range a.agents {
		ns, err := netns.GetFromPath(l.netns(one))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ns.Close() }()
		there, err := netlink.NewHandleAt(ns)
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
		routes, err := there.RouteList(nil, unix.AF_INET)
		if err != nil {
			t.Fatal(err)
		}
		// The ways to pods of other agents are for the executors to find.
		if !slices.ContainsFunc(routes, func(r netlink.Route) bool { return r.Gw.Equal(a.bridge.Addr().AsSlice()) }) || len(routes) != 2 {
			t.Errorf("routes of %s are %v, want those to the bridge's network and by the bridge", one.hostname, routes)
		}
	}
	l.Agents = 1
	if err := errors.Join(sweepDir(l), removeLinks(), removeLinks()); err != nil {
		t.Fatal(err)
	}
	left, err := here.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range left {
		if strings.HasPrefix(link.Attrs().Name, "mesopod") {
			t.Errorf("link %s stays", link.Attrs().Name)
		}
	}
}

// inode names the network namespace of this thread.
func inode(t *testing.T) string {
	t.Helper()
	name, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// wantHops makes sure that the way to the agents' pods leads over their own agent.
func wantHops(t *testing.T, h *netlink.Handle, from string, agents []agent) {
	t.Helper()
	for _, one := range agents {
		routes, err := h.RouteGet(one.pods.Addr().Next().AsSlice())
		if err != nil {
			t.Fatalf("way from %s to pods of %s: %v", from, one.hostname, err)
		}
		if got := routes[0].Gw.String(); got != one.endpoint.Addr().String() {
			t.Errorf("way from %s to pods of %s leads over %s", from, one.hostname, got)
		}
	}
}

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/executor/statedir"
)

// The test program is the keeper when it is told so: a watchdog starts its own program again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == watchdogVerb {
		main()
		return
	}
	if bundle := os.Getenv("KEEPER_TEST_BUNDLE"); bundle != "" {
		code, err := keep(options{bundleDir: bundle, config: "none"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// life is a keeper under posix isolation whose executor has a state folder with a mount, and children that left its
// session and its parent.
type life struct {
	keeper  *exec.Cmd
	state   string
	cgroups []string
}

func startLife(t *testing.T, id string) life {
	t.Helper()
	l := life{state: filepath.Join(t.TempDir(), "state")}
	bundle, sandbox := t.TempDir(), filepath.Join(t.TempDir(), id)
	for _, dir := range []string{sandbox, filepath.Join(l.state, "rootfs")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := statedir.Lock(t.Context(), l.state)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.SetOwner(id); err != nil {
		t.Fatal(err)
	}
	if err := dir.Unlock(); err != nil {
		t.Fatal(err)
	}
	text := `#!/bin/sh
echo ` + l.state + ` > $MESOPOD_STATE_FILE
mount -t tmpfs -o size=4k tmpfs ` + l.state + `/rootfs
setsid sh -c 'trap "" TERM; while :; do sleep 60; done' &
(setsid sleep 600 &)
echo $MESOPOD_CGROUP
wait
`
	if err := os.WriteFile(filepath.Join(bundle, "mesopod"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	l.keeper = exec.Command(os.Args[0])
	l.keeper.Env = append(os.Environ(), "KEEPER_TEST_BUNDLE="+bundle, "MESOS_DIRECTORY="+sandbox, "MESOS_SANDBOX="+sandbox)
	l.keeper.Stderr = os.Stderr
	out, err := l.keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.keeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.keeper.Process.Kill() // it has ended already
		_ = unix.Unmount(filepath.Join(l.state, "rootfs"), unix.MNT_DETACH)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasSuffix(strings.TrimSpace(line), "/"+id) {
		t.Fatalf("the executor says %q, error %v", line, err)
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, mount := range version1Mounts(string(mountinfo)) {
		l.cgroups = append(l.cgroups, filepath.Join(mount, strings.TrimSpace(line)))
	}
	return l
}

// left tells what there is of the executor.
func (l life) left() string {
	var left []string
	for _, dir := range l.cgroups {
		if _, err := os.Stat(dir); err == nil {
			left = append(left, fmt.Sprintf("%s with %v", dir, processes(dir)))
		}
	}
	mountinfo, _ := os.ReadFile("/proc/self/mountinfo") // an empty one fails the test's first look
	if strings.Contains(string(mountinfo), " "+l.state+"/") {
		left = append(left, "a mount")
	}
	if pids := watchdogs(); len(pids) > 0 {
		left = append(left, fmt.Sprintf("watchdog %v", pids))
	}
	return strings.Join(left, ", ")
}

// watchdogs are those of this test program.
func watchdogs() []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.HasPrefix(string(line), os.Args[0]+"\x00"+watchdogVerb) {
			found = append(found, file)
		}
	}
	return found
}

func (l life) awaitNothing(t *testing.T, within time.Duration) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(within); l.left() != ""; <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %s there still is: %s", within, l.left())
		}
	}
}

// Under posix isolation, keeper kill -9: after 5 s nothing of the executor runs, is mounted or has a cgroup, the
// watchdog itself included. What belongs to others is left alone.
func TestKeeperKilled(t *testing.T) {
	other := exec.Command("sleep", "600")
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	l := startLife(t, "keeper-test-killed")
	for _, part := range []string{"keeper-test-killed with [", "a mount", "watchdog"} {
		if !strings.Contains(l.left(), part) {
			t.Fatalf("there is only %s: this test would prove nothing", l.left())
		}
	}
	if err := l.keeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = l.keeper.Wait() // it was killed
	l.awaitNothing(t, 5*time.Second)
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of somebody else: %v", err)
	}
}

// The end that is asked for leaves as little, though the executor leaves much.
func TestKeeperAsked(t *testing.T) {
	l := startLife(t, "keeper-test-asked")
	if err := l.keeper.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = l.keeper.Wait() // the script dies of the signal
	l.awaitNothing(t, 5*time.Second)
}

// A state folder that another container has taken over keeps its mounts.
func TestWatchdogSparesSuccessor(t *testing.T) {
	l := startLife(t, "keeper-test-before")
	dir, err := statedir.Lock(t.Context(), l.state)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.SetOwner("keeper-test-after"); err != nil {
		t.Fatal(err)
	}
	if err := dir.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := l.keeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = l.keeper.Wait() // it was killed
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(5 * time.Second); l.left() != "a mount"; <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("there is: %s; want the mount alone", l.left())
		}
	}
}

// A watchdog without a clear order does nothing.
func TestWatchdogNeedsContainer(t *testing.T) {
	for _, arguments := range [][]string{nil, {"-cgroup", "/"}, {"-cgroup", "/mesos/c1", "-container", "c2"}, {"-cgroup", "/mesos"}} {
		if _, _, err := parseGuard(arguments); err == nil {
			t.Errorf("%v was taken", arguments)
		}
	}
}

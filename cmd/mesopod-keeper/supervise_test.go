package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func ended(code int) unix.WaitStatus { return unix.WaitStatus(code << 8) }

func TestCrashed(t *testing.T) {
	for _, c := range []struct {
		name   string
		status unix.WaitStatus
		want   bool
	}{
		{"asked for", ended(0), false}, {"wrong flags", ended(2), false}, {"the kubelet ended", ended(3), false},
		{"the agent is lost", ended(4), false}, {"not started", ended(exitUnable), false},
		{"failure", ended(1), true}, {"the kubelet's own exit", ended(255), true},
		{"kill -9", unix.WaitStatus(unix.SIGKILL), true}, {"panic", unix.WaitStatus(unix.SIGABRT), true},
	} {
		if got := crashed(c.status); got != c.want {
			t.Errorf("%s: crashed %v", c.name, got)
		}
	}
}

func TestNextPause(t *testing.T) {
	var pause time.Duration
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if pause = nextPause(pause, time.Second); pause != want*time.Second {
			t.Errorf("pause %d is %s", i, pause)
		}
	}
	if pause = nextPause(pause, time.Minute); pause != time.Second {
		t.Errorf("after a long life: %s", pause)
	}
}

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mesopod")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// A program that is killed is started again with the same words; its own end ends it all.
func TestSupervise(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	program := script(t, `[ "$1 $WORD" = "executor x" ] || exit 9
if [ -e `+mark+` ]; then exit 3; fi
touch `+mark+`
kill -9 $$
`)
	if code, err := supervise(program, []string{"executor"}, "WORD=x"); code != 3 || err != nil {
		t.Errorf("code %d, error %v", code, err)
	}
}

// A signal goes to the program, and what it does then is the end, be it a crash.
func TestSuperviseSignal(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"obeys": {"trap 'exit 0' TERM; kill $PPID; while :; do sleep 0.1; done", 0},
		"dies":  {"kill $PPID; while :; do sleep 0.1; done", 128 + 15},
	} {
		if code, err := supervise(script(t, c.text), nil); code != c.want || err != nil {
			t.Errorf("%s: code %d, error %v", name, code, err)
		}
	}
	// While nothing runs, too.
	program := script(t, "(sleep 0.3; kill "+"$PPID"+") & kill -9 $$")
	if code, err := supervise(program, nil); code != 128+15 || err != nil {
		t.Errorf("during the pause: code %d, error %v", code, err)
	}
	if code, err := supervise(filepath.Join(t.TempDir(), "none"), nil); code != exitUnable || err == nil {
		t.Errorf("missing program: code %d, error %v", code, err)
	}
}

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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

func supervise(program string, arguments []string, environment ...string) (int, error) {
	s := supervisor{dir: folder{dir: filepath.Dir(program)}, arguments: arguments, environment: environment}
	return s.run()
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

// An order takes the executor over to another bundle: the old one is killed, however it feels about signals, and the new
// one starts at once. One that is the same, or cannot be had, changes nothing.
func TestOrder(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	old := folder{dir: filepath.Dir(script(t, "trap '' TERM HUP; echo old $MESOPOD_BUNDLE >> "+log+"; kill -HUP $PPID; while :; do sleep 0.1; done")), digest: "a"}
	next := folder{dir: filepath.Dir(script(t, "echo new $MESOPOD_BUNDLE >> "+log+"; exit 3")), digest: "b"}
	answers := []result{{err: errors.New("no source has it")}, {dir: old}, {dir: next}}
	s := supervisor{dir: old}
	s.ordered = func() (folder, error) {
		answer := answers[0]
		answers = answers[1:]
		if len(answers) > 0 {
			// The next order follows when this one has been carried out.
			time.AfterFunc(100*time.Millisecond, func() { _ = unix.Kill(os.Getpid(), unix.SIGHUP) })
		}
		return answer.dir, answer.err
	}
	began := time.Now()
	if code, err := s.run(); code != 3 || err != nil {
		t.Errorf("code %d, error %v", code, err)
	}
	if text, err := os.ReadFile(log); string(text) != "old a\nnew b\n" {
		t.Errorf("ran %q, error %v", text, err)
	}
	if lived := time.Since(began); lived > firstPause+2*time.Second {
		t.Errorf("it took %s", lived)
	}
}

// A bundle whose executor crashes or does not understand its configuration, both soon, is given up for the one before.
func TestOrderOfBadBundle(t *testing.T) {
	for name, end := range map[string]string{"crashes": "kill -9 $$", "does not understand": "exit 2", "is none": ""} {
		mark := filepath.Join(t.TempDir(), "mark")
		old := folder{dir: filepath.Dir(script(t, "[ -e "+mark+" ] && exit 3; touch "+mark+"; kill -HUP $PPID; while :; do sleep 0.1; done"))}
		bad := folder{dir: filepath.Dir(script(t, end)), digest: "b"}
		if end == "" {
			bad.dir = t.TempDir()
		}
		s := supervisor{dir: old, ordered: func() (folder, error) { return bad, nil }}
		if code, err := s.run(); code != 3 || err != nil || s.dir != old {
			t.Errorf("a bundle that %s: code %d, error %v, at last %v", name, code, err, s.dir)
		}
		if s.take(result{dir: bad}) || s.dir != old {
			t.Errorf("a bundle that %s is taken again", name)
		}
	}
}

func TestOrderFile(t *testing.T) {
	p := programs{options: options{cacheDir: t.TempDir()}, orderFile: filepath.Join(t.TempDir(), "order")}
	for text, want := range map[string]string{
		"": "no such file", "{": "unexpected end", `{"sha256":"x"}`: "SHA-256", `{"sha256":"` + strings.Repeat("a", 64) + `","sources":["x"]}`: "neither",
		`{"sha256":"` + strings.Repeat("a", 64) + `"}`: "no source",
	} {
		if text != "" {
			if err := os.WriteFile(p.orderFile, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.ordered(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("order %s: error %v, want %s", text, err, want)
		}
		_ = os.Remove(p.orderFile) // it was never there in the first case
	}
}

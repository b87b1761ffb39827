package credentials

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

func newRenewer(t *testing.T, dir string) *Renewer {
	t.Helper()
	store, err := Open(dir, "a1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRenewer(store, Who{AgentID: "S1", ExecutorID: messages.ExecutorID, Node: "a1", Address: net.IP{127, 0, 0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func runRenewer(t *testing.T, r *Renewer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Run(ctx) }() // it returns nil
	t.Cleanup(func() { cancel(); <-ended })
}

func await(t *testing.T, r *Renewer) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return r.Await(ctx)
}

func (s *scheduler) access(token string) messages.Access {
	pin := s.pin()
	return messages.Access{URL: s.server.URL, KeySHA256: pin[:], Token: token}
}

func (s *scheduler) questions() []messages.CredentialsRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]messages.CredentialsRequest(nil), s.asked...)
}

func (s *scheduler) awaitQuestions(t *testing.T, n int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); len(s.questions()) < n; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("asked %d times, want %d", len(s.questions()), n)
		}
	}
}

// Without a token nobody waits; with one certificates come; the next executor has them without asking, and no token is
// left on the disk.
func TestRenewerByToken(t *testing.T) {
	s, dir := newScheduler(t), t.TempDir()
	r := newRenewer(t, dir)
	runRenewer(t, r)
	if err := await(t, r); !errors.Is(err, errdefs.ErrRefused) {
		t.Errorf("before a launch: %v, want ErrRefused", err)
	}
	r.Offer(s.access("secret-token"))
	if err := await(t, r); err != nil {
		t.Fatal(err)
	}
	<-r.Ready()
	if asked := s.questions(); len(asked) != 1 || asked[0].Token != "secret-token" || asked[0].Node != "a1" {
		t.Errorf("asked %+v", asked)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 7 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "secret-token") {
			t.Errorf("%s holds the token, %v", file, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want 0600", file, info.Mode(), err)
		}
	}
	// A launch by another scheduler, while there are certificates: its address is kept, its token is not.
	moved := s.access("second-token")
	moved.URL = "https://127.0.0.1:1"
	r.Offer(moved)
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil || strings.Contains(string(text), "token") || !strings.Contains(string(text), moved.URL) {
		t.Errorf("kept is %s, %v", text, err)
	}
	r.Offer(s.access("third-token"))
	next := newRenewer(t, dir)
	if err := await(t, next); err != nil {
		t.Errorf("the next executor: %v", err)
	}
	if access, ok := next.Access(); !ok || access.URL != s.server.URL {
		t.Errorf("the next executor reaches %v", access)
	}
}

// An executor that is restarted between launch and answer asks with the token that it had.
func TestRenewerRestarted(t *testing.T) {
	s, dir := newScheduler(t), t.TempDir()
	newRenewer(t, dir).Offer(s.access("secret-token"))
	r := newRenewer(t, dir)
	runRenewer(t, r)
	if err := await(t, r); err != nil || s.questions()[0].Token != "secret-token" {
		t.Errorf("%v, asked %v", err, s.questions())
	}
}

// A token that is refused fails those who wait, until a launch brings another; a scheduler that is away does not.
func TestRenewerRefused(t *testing.T) {
	s := newScheduler(t)
	r := newRenewer(t, t.TempDir())
	runRenewer(t, r)
	s.status = http.StatusForbidden
	r.Offer(s.access("bad"))
	if err := await(t, r); !errors.Is(err, errdefs.ErrRefused) || !strings.Contains(err.Error(), "as ordered") {
		t.Errorf("refused: %v", err)
	}
	s.mu.Lock()
	s.status = http.StatusServiceUnavailable
	s.mu.Unlock()
	r.Offer(s.access("good"))
	waits := make(chan error, 1)
	go func() { waits <- await(t, r) }()
	s.awaitQuestions(t, 2)
	s.mu.Lock()
	s.status = 0
	s.mu.Unlock()
	if err := <-waits; err != nil {
		t.Errorf("after the scheduler came back: %v", err)
	}
}

// New certificates are asked for with the old ones when the scheduler wants it, and with the token when it does not take
// them.
func TestRenewerRenews(t *testing.T) {
	s := newScheduler(t)
	s.renewAfter = 1
	r := newRenewer(t, t.TempDir())
	runRenewer(t, r)
	r.Offer(s.access("first"))
	s.awaitQuestions(t, 3)
	asked := s.questions()
	if asked[1].Token != "" || string(asked[1].KubeletCSR) == string(asked[0].KubeletCSR) {
		t.Errorf("renewed with %+v", asked[1])
	}
	s.mu.Lock()
	peers := s.peers
	s.mu.Unlock()
	if len(peers) == 0 || peers[0] != "mesopod:executor:a1" {
		t.Errorf("renewed as %v", peers)
	}
}

// Certificates that have ended are none.
func TestRenewerExpired(t *testing.T) {
	s, dir := newScheduler(t), t.TempDir()
	r := newRenewer(t, dir)
	runRenewer(t, r)
	r.Offer(s.access("first"))
	if err := await(t, r); err != nil {
		t.Fatal(err)
	}
	late := newRenewer(t, dir)
	late.now = func() time.Time { return time.Now().Add(4 * time.Hour) }
	late.refusal = errNone
	if err := await(t, late); !errors.Is(err, errdefs.ErrRefused) {
		t.Errorf("expired: %v, want ErrRefused", err)
	}
	late.Offer(s.access("second"))
	s.life = 24 * time.Hour
	runRenewer(t, late)
	if err := await(t, late); err != nil {
		t.Fatal(err)
	}
	if asked := s.questions(); asked[len(asked)-1].Token != "second" {
		t.Errorf("asked with %q", asked[len(asked)-1].Token)
	}
}

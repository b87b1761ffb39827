package executor

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/internal/pki"
	"github.com/mesopod/mesopod/messages"
)

const documentHead = "apiVersion: mesopod.io/v1alpha1\nkind: ExecutorConfig\n"

// configServer is a scheduler that serves a document to whoever shows a certificate.
type configServer struct {
	*httptest.Server
	mu      sync.Mutex
	text    string // empty: 404
	changed chan struct{}
}

func newConfigServer(t *testing.T, text string) *configServer {
	t.Helper()
	s := &configServer{text: text, changed: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *configServer) set(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *configServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for {
		s.mu.Lock()
		text, changed := s.text, s.changed
		s.mu.Unlock()
		if text == "" {
			http.NotFound(w, r)
			return
		}
		if tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text))); r.Header.Get("If-None-Match") != tag {
			w.Header().Set("ETag", tag)
			_, _ = w.Write([]byte(text)) // the executor may be gone
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// launch is the envelope of a launch by this scheduler.
func (s *configServer) launch(t *testing.T) []byte {
	t.Helper()
	pin := sha256.Sum256(s.Certificate().RawSubjectPublicKeyInfo)
	envelope, err := messages.WithAccess([]byte(`{"version":1,"taskID":"u.1"}`), messages.Access{URL: s.URL, KeySHA256: pin[:]})
	if err != nil {
		t.Fatal(err)
	}
	return envelope
}

// followed is an executor with files of the operator's, one that follows the document. It ends with the test.
func followed(t *testing.T, stateDir string) *Executor {
	t.Helper()
	e := newExecutor(t, func(w http.ResponseWriter, r *http.Request) {}, nil)
	authority, err := pki.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := authority.Client("executor", "mesopod:executor:a1", "mesopod:executors")
	if err == nil {
		err = pki.WriteKubeconfig(e.config.Kubeconfig, "https://127.0.0.1:1", authority.CertFile(), certificate, key)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.config.StateDir = stateDir
	if e.identity, err = newIdentity(e.config, e.env, "a1"); err != nil {
		t.Fatal(err)
	}
	e.follower = &follower{e: e, node: "a1", settled: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.follower.run(ctx) }() // it returns nil
	t.Cleanup(func() { cancel(); <-ended })
	return e
}

func settled(t *testing.T, e *Executor) Config {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	config, err := e.follower.now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func nextMessage(t *testing.T, e *Executor) message {
	t.Helper()
	select {
	case m := <-e.inbox:
		return m
	case <-time.After(30 * time.Second):
		t.Fatal("nothing comes")
		return message{}
	}
}

// Static pods of the document go to the core as they are on this node (EX-103). Those that are wrong are told and passed over,
// whoever finds it (EX-104).
func TestStaticPods(t *testing.T) {
	s := newConfigServer(t, documentHead+`staticPods:
- {apiVersion: v1, kind: Pod, metadata: {name: log}, spec: {containers: [{name: main, image: log, resources: {requests: {cpu: 100m}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: typo}, spec: {container: []}}
- {apiVersion: v1, kind: Pod, metadata: {name: bad}, spec: {containers: [{name: UPPER, image: x}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: probe, namespace: kube-system}, spec: {containers: [{name: main, image: probe}]}}
`)
	e := followed(t, t.TempDir())
	e.identity.offer(s.launch(t))
	settled(t, e)
	configured, _ := nextMessage(t, e).event.(core.Configured)
	var names []string
	for _, p := range configured.Static {
		name, _, _ := strings.Cut(p.Claim, "@")
		names = append(names, name+" as "+p.Pod.Namespace+"/"+p.Pod.Name)
	}
	if diff := cmp.Diff([]string{"default/log as default/log-a1", "kube-system/probe as kube-system/probe-a1"}, names); diff != "" {
		t.Errorf("static pods (-want +got):\n%s", diff)
	}
	faults := errors.Join(e.follower.faults...)
	if len(e.follower.faults) != 2 || !strings.Contains(faults.Error(), `staticPods[1]`) || !strings.Contains(faults.Error(), "static pod default/bad-a1") {
		t.Errorf("faults %v", faults)
	}
}

// The first document decides, the core hears of it, and it is kept for the next executor. One that says the same, or is
// wrong, changes nothing; another ends the executor for the next one.
func TestFollow(t *testing.T) {
	s, dir := newConfigServer(t, documentHead+"suicideTimeout: 3m\n"), t.TempDir()
	e := followed(t, dir)
	e.identity.offer(s.launch(t))
	if config := settled(t, e); config.SuicideTimeout.Duration != 3*time.Minute {
		t.Errorf("settled on %+v", config)
	}
	if diff := cmp.Diff(core.Configured{LaunchGrace: 5 * time.Minute, SuicideTimeout: 3 * time.Minute}, nextMessage(t, e).event); diff != "" {
		t.Errorf("what the loop hears (-want +got):\n%s", diff)
	}
	if kept, ok := e.known(); !ok || kept.SuicideTimeout.Duration != 3*time.Minute {
		t.Errorf("kept is %+v, %t", kept, ok)
	}
	e.follower.lives()
	s.set(documentHead + "# a word more\nsuicideTimeout: 180s\n")
	s.set(documentHead + "suicideTimeout: -1s\n")
	s.set(documentHead + "kubeletConfiguration: {eventBurst: -3}\n") // of which the kubelet would die
	s.set(documentHead + "suicideTimeout: 4m\nkubeletConfiguration: {podPidsLimit: 99}\n")
	m := nextMessage(t, e)
	if m.exit == nil || m.exit.Code != reconfiguredCode {
		t.Errorf("the loop hears %+v", m)
	}
	kept, ok := e.known()
	if !ok || kept.SuicideTimeout.Duration != 4*time.Minute || !strings.Contains(string(kept.KubeletConfiguration), "99") {
		t.Errorf("kept is %+v, %t", kept, ok)
	}
	if info, err := os.Stat(filepath.Join(dir, inUseFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kept in %v, %v", info, err)
	}
}

// Pods do not wait for a document that does not come: an earlier scheduler tells of none, or serves none, or only one
// that is wrong.
func TestFollowNothing(t *testing.T) {
	for name, envelope := range map[string]func(*testing.T) []byte{
		"launch without access": func(*testing.T) []byte { return []byte(`{"version":1,"taskID":"u.1"}`) },
		"no such path":          func(t *testing.T) []byte { return newConfigServer(t, "").launch(t) },
		"wrong":                 func(t *testing.T) []byte { return newConfigServer(t, "kind: x\n").launch(t) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := followed(t, dir)
			e.identity.offer(envelope(t))
			if config := settled(t, e); config.SuicideTimeout.Duration != 20*time.Minute {
				t.Errorf("settled on %+v", config)
			}
			if _, ok := e.known(); ok {
				t.Error("something is kept")
			}
		})
	}
}

// What is kept and is not good any more is none.
func TestKeptIsDamaged(t *testing.T) {
	dir := t.TempDir()
	e := followed(t, dir)
	for _, text := range []string{"", "junk", documentHead + "kubeletConfiguration: {maxPods: 3}\n"} {
		if err := os.WriteFile(filepath.Join(dir, inUseFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := e.known(); ok {
			t.Errorf("%q is good", text)
		}
	}
}

// A document that no kubelet lives by is given up for the one before, and is not taken again; one that a kubelet lived by
// is not to blame for its end.
func TestTrial(t *testing.T) {
	good, bad := documentHead+"suicideTimeout: 3m\n", documentHead+"kubeletConfiguration: {allowedUnsafeSysctls: [vm.swappiness]}\n"
	s, dir := newConfigServer(t, good), t.TempDir()
	e := followed(t, dir)
	e.identity.offer(s.launch(t))
	settled(t, e)
	nextMessage(t, e)
	e.follower.lives()
	if m := e.follower.ended(errors.New("late")); m.event == nil || m.exit != nil {
		t.Errorf("a kubelet that ends later is %+v", m)
	}
	s.set(bad)
	if m := nextMessage(t, e); m.exit == nil {
		t.Fatalf("the loop hears %+v", m)
	}

	next := followed(t, dir)
	onTrial, err := next.documents().start()
	if err != nil || !onTrial || string(next.documents().inUse()) != bad {
		t.Fatalf("the next executor lives by %q, on trial %t, %v", next.documents().inUse(), onTrial, err)
	}
	next.follower.trial.Store(onTrial)
	if m := next.follower.ended(errors.New("as it would")); m.exit == nil || m.exit.Code != reconfiguredCode {
		t.Errorf("a kubelet that does not start is %+v", m)
	}

	last := followed(t, dir)
	onTrial, err = last.documents().start()
	if err != nil || onTrial || string(last.documents().inUse()) != good || !last.documents().refused([]byte(bad)) {
		t.Errorf("the one after that lives by %q, on trial %t, %v", last.documents().inUse(), onTrial, err)
	}
	last.identity.offer(s.launch(t)) // it still serves the bad one
	if config := settled(t, last); len(config.KubeletConfiguration) > 0 {
		t.Errorf("settled on %s", config.KubeletConfiguration)
	}
}

// An executor that is killed by chance does not condemn a document, one that is killed each time does. Without one before
// the defaults come back.
func TestTrialByCrashes(t *testing.T) {
	d := documents{t.TempDir()}
	if err := d.try([]byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	for n := range mostStarts {
		if onTrial, err := d.start(); err != nil || !onTrial {
			t.Errorf("start %d: on trial %t, %v", n, onTrial, err)
		}
	}
	if onTrial, err := d.start(); err != nil || onTrial || d.inUse() != nil || !d.refused([]byte("new")) {
		t.Errorf("in the end: %q, on trial %t, %v", d.inUse(), onTrial, err)
	}
	// A second one during the trial of a first goes back to what was good, not to that.
	if err := errors.Join(d.try([]byte("good"), 1), d.good(), d.try([]byte("bad"), 0), d.try([]byte("worse"), 0), d.fail()); err != nil {
		t.Fatal(err)
	}
	if onTrial, err := d.start(); err != nil || onTrial || string(d.inUse()) != "good" {
		t.Errorf("after two: %q, on trial %t, %v", d.inUse(), onTrial, err)
	}
}

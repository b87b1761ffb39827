package scheduler

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

const head = "apiVersion: mesopod.io/v1alpha1\nkind: ExecutorConfig\n"

// askDocument asks as somebody.
func askDocument(t *testing.T, d *document, user, group, known, prefer string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, messages.ExecutorConfigPath, nil)
	r.TLS = &tls.ConnectionState{}
	if user != "" {
		r.TLS.VerifiedChains = [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: user, Organization: []string{group}}}}}
	}
	r.Header.Set("If-None-Match", known)
	r.Header.Set("Prefer", prefer)
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// Executors alone get the document, once, and hear of a change as soon as the file has it; a file that is wrong is none.
func TestDocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "executors.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(head + "suicideTimeout: 1m\n")
	d, err := newDocument(path, ignored)
	if err != nil {
		t.Fatal(err)
	}
	const executor, group = "mesopod:executor:a1", "mesopod:executors"
	for _, who := range [][2]string{{"", ""}, {"system:node:a1", "system:nodes"}, {executor, "system:nodes"}, {"mesopod:admin", group}} {
		if w := askDocument(t, d, who[0], who[1], "", ""); w.Code != http.StatusForbidden {
			t.Errorf("%v: %d, want 403", who, w.Code)
		}
	}
	first := askDocument(t, d, executor, group, "", "")
	if first.Code != http.StatusOK || first.Body.String() != head+"suicideTimeout: 1m\n" {
		t.Errorf("got %d %s", first.Code, first.Body)
	}
	tag := first.Header().Get("ETag")
	if again := askDocument(t, d, executor, group, tag, ""); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("the same again: %d %s", again.Code, again.Body)
	}
	write("kubletPort: 1\n") // wrong, and never served
	d.look()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	news := make(chan *httptest.ResponseRecorder, 1)
	go func() { news <- askDocument(t, d, executor, group, tag, "respond-async, wait=60") }()
	write(head + "suicideTimeout: 2m\n")
	if w := <-news; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "2m") || w.Header().Get("ETag") == tag {
		t.Errorf("after the change: %d %s", w.Code, w.Body)
	}
}

func TestDocumentFaults(t *testing.T) {
	for text, want := range map[string]string{
		head + "kubletPort: 1\n":                                            `unknown field "kubletPort"`,
		head + "kubeletConfiguration: {podPidLimit: 1}\n":                   `kubeletConfiguration: invalid: unknown field "podPidLimit"`,
		head + "kubeletConfiguration: {crashLoopBackOff: {x: 1}}\n":         `"crashLoopBackOff.x"`,
		head + "kubeletConfiguration: {podPidsLimit: many}\n":               "podPidsLimit",
		head + "kubeletConfiguration: {podPidsLimit: 100, cgroupRoot: /}\n": "kubeletConfiguration.cgroupRoot is not to be set",
	} {
		path := filepath.Join(t.TempDir(), "executors.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newDocument(path, ignored); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if _, err := newDocument("/nothing", ignored); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("no file: %v", err)
	}
	d, err := newDocument("", ignored)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := d.now()
	if _, err := checkDocument(text); err != nil {
		t.Errorf("without a file the document is %s: %v", text, err)
	}
}

// The core hears of static pods at the start and after each change (EX-103); a manifest that is wrong is none of them (EX-104).
func TestDocumentStaticPods(t *testing.T) {
	path := filepath.Join(t.TempDir(), "executors.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(head+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const one = "{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: main, image: x}]}}"
	var posted []core.StaticPods
	write("staticPods: [" + one + ", {kind: Pod}]\n")
	d, err := newDocument(path, func(pods core.StaticPods) { posted = append(posted, pods) })
	if err != nil || len(d.static.Pods) != 1 || !strings.HasPrefix(d.static.Pods[0].Claim, "default/one@") {
		t.Fatalf("at the start %+v, %v", d.static, err)
	}
	d.look()
	write("suicideTimeout: 1m\n")
	d.look()
	write("staticPods: 5\n") // which is no document
	d.look()
	if len(posted) != 1 || len(posted[0].Pods) != 0 {
		t.Errorf("posted %+v, want that there are none", posted)
	}
}

// ignored takes static pods and does nothing.
func ignored(core.StaticPods) {}

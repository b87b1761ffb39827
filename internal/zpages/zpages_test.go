package zpages

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Only what is live counts for liveness, everything for readiness; faults and ?verbose name each check.
func TestHealth(t *testing.T) {
	checks := []Check{{Name: "loop", Live: true}, {Name: "mesos", Fault: "not subscribed"}, {Name: "leader", Note: "leads"}}
	ask := func(path string, ready bool, checks []Check) (int, string) {
		w := httptest.NewRecorder()
		Health(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil), checks, ready)
		return w.Code, w.Body.String()
	}
	const all = "[+]loop ok\n[-]mesos failed: not subscribed\n[+]leader ok: leads\n"
	for _, c := range []struct {
		path   string
		ready  bool
		checks []Check
		code   int
		body   string
	}{
		{"/livez", false, checks, 200, "ok"},
		{"/livez?verbose", false, checks, 200, "[+]loop ok\n"},
		{"/readyz", true, checks, 503, all},
		{"/readyz?verbose", true, checks, 503, all},
		{"/readyz", true, checks[:1], 200, "ok"},
		{"/livez", false, []Check{{Name: "loop", Live: true, Fault: "stuck"}}, 503, "[-]loop failed: stuck\n"},
	} {
		if code, body := ask(c.path, c.ready, c.checks); code != c.code || body != c.body {
			t.Errorf("%s answers %d %q, want %d %q", c.path, code, body, c.code, c.body)
		}
	}
}

// A page escapes what it shows, names no other place, and may not be framed.
func TestPage(t *testing.T) {
	w := httptest.NewRecorder()
	Page(w, Template("p", `{{template "style"}}<main>{{.}} {{clock now}}</main>{{template "refresh"}}`, map[string]any{
		"now": func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}), "<b>")
	body := w.Body.String()
	if w.Code != 200 || !strings.Contains(body, "<main>&lt;b&gt; 03:04:05.000</main>") || strings.Contains(body, "://") {
		t.Errorf("page %d: %s", w.Code, body)
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("policy %q", policy)
	}
}

// An address that somebody has is waited for; the end of the context ends the server.
func TestServe(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { write(w, []byte("here")) }))
	}()
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(30 * time.Second)
	for {
		text, err := read(t, "http://"+address)
		if err == nil && text == "here" {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatalf("no answer: %q, %v", text, err)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("end: %v", err)
	}
}

func read(t *testing.T, address string) (string, error) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// A full journal forgets the oldest entries and keeps the order of the others.
func TestJournal(t *testing.T) {
	for total, want := range map[int][]string{0: {}, 2: {"a", "b"}, 3: {"a", "b", "c"}, 5: {"c", "d", "e"}, 9: {"g", "h", "i"}} {
		j := NewJournal[string](3)
		for n := range total {
			j.Add(string(rune('a' + n)))
		}
		if diff := cmp.Diff(want, j.Entries(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%d entries (-want +got):\n%s", total, diff)
		}
	}
}

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/core"
)

// journal is what the handlers show.
var journal = NewJournal(16)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// planned fits every pod on one agent, but one that is too odd, and one that comes when there is no master.
func planned(_ context.Context, pod *corev1.Pod) (Plan, error) {
	switch pod.Name {
	case "odd":
		return Plan{}, fmt.Errorf("pod is odd: %w", errdefs.ErrInvalid)
	case "early":
		return Plan{}, fmt.Errorf("no master: %w", errdefs.ErrUnavailable)
	}
	return Plan{Pod: pod.Namespace + "/" + pod.Name, Fits: 1, Agents: []PlanRow{{Node: "a1", Fits: true, Offer: OfferHeld}}}, nil
}

// get asks the handler of a scheduler that is v, or that does not answer.
func get(t *testing.T, v View, err error, path string) (code int, body string) {
	t.Helper()
	handler := Handler(Deps{
		View:    func(context.Context) (View, error) { return v, err },
		Journal: journal, Plan: planned,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics")) }),
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// A scheduler that works is ready when Mesos, the API server and the comparison of both are; one that stands by is ready to take
// over; one that waits for the API server lives, and is not ready.
func TestHealth(t *testing.T) {
	good := core.View{FrameworkID: "F1", Connected: true, IDStored: true, PodsListed: true, Reconciled: true, Open: true}
	but := func(change func(*core.View)) View {
		c := good
		change(&c)
		return View{Time: now, Standing: Working, Core: &c}
	}
	for _, c := range []struct {
		name  string
		view  View
		err   error
		live  int
		ready int
		says  string // part of what /readyz?verbose answers
	}{
		{"ready", View{Standing: Working, Master: "http://m1:5050", Core: &good}, nil, 200, 200, "[+]mesos ok: http://m1:5050"},
		{"the master is away", View{Time: now, Standing: Working, Since: now.Add(-7 * time.Second), Fault: "EOF", Core: &core.View{}}, nil, 200, 503,
			"[-]mesos failed: not subscribed with a Mesos master for 7s: EOF"},
		{"no id", but(func(v *core.View) { v.IDStored = false }), nil, 200, 503, "[-]framework-id failed"},
		{"no pods", but(func(v *core.View) { v.PodsListed = false }), nil, 200, 503, "[-]pods failed"},
		{"not reconciled", but(func(v *core.View) { v.Reconciled = false }), nil, 200, 503, "[-]reconciliation failed"},
		{"no API server", View{Standing: Starting}, nil, 200, 503, "[-]leader failed: waits for the API server"},
		{"stands by", View{Standing: StandingBy, Elects: true, Leader: "h2_1"}, nil, 200, 200, "[+]leader ok: stands by for h2_1"},
		{"stuck", View{}, errors.New("too late"), 503, 503, "[-]loop failed: the scheduler's loop does not answer: too late"},
	} {
		for path, want := range map[string]int{"/livez": c.live, "/healthz": c.live, "/readyz": c.ready, "/readyz?verbose": c.ready} {
			if got, body := get(t, c.view, c.err, path); got != want || got == 200 && !strings.Contains(path, "?") && body != "ok" {
				t.Errorf("%s: %s answers %d %q, want %d", c.name, path, got, body, want)
			}
		}
		if _, body := get(t, c.view, c.err, "/readyz?verbose"); !strings.Contains(body, c.says) {
			t.Errorf("%s: %q, want %q in it", c.name, body, c.says)
		}
	}
	if _, body := get(t, View{}, nil, "/metrics"); body != "metrics" {
		t.Errorf("metrics: %q", body)
	}
}

// POST /plan takes a pod, and says what is wrong with anything else.
func TestPlan(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"%s"},"spec":{"containers":[{"name":"c"}]}}`
	for _, c := range []struct {
		body, says string
		code       int
	}{
		{fmt.Sprintf(pod, "web"), `"pod": "default/web"`, 200},
		{fmt.Sprintf(pod, "odd"), "pod is odd", 422},
		{fmt.Sprintf(pod, "early"), "no master", 503},
		{"{", "decode pod", 400},
		{`{"apiVersion":"v1","kind":"Node"}`, "want a v1 Pod", 400},
		{strings.Repeat(" ", planBytes+1), "read pod", 413},
	} {
		w := httptest.NewRecorder()
		Handler(Deps{Plan: planned, Metrics: http.NotFoundHandler()}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/plan", strings.NewReader(c.body)))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%.80s: %d %s, want %d and %q", c.body, w.Code, w.Body, c.code, c.says)
		}
	}
}

// Profiles are served to those only who ask for them at the scheduler's start.
func TestProfiling(t *testing.T) {
	for _, on := range []bool{false, true} {
		handler := Handler(Deps{Profiling: on, Metrics: http.NotFoundHandler()})
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/goroutine?debug=1", nil))
		if got := w.Code == http.StatusOK && strings.Contains(w.Body.String(), "goroutine profile"); got != on {
			t.Errorf("profiling %t: answered %d", on, w.Code)
		}
	}
}

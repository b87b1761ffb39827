package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mesopod/mesopod/executor/core"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// get asks the handler of an executor that is v, or that does not answer.
func get(t *testing.T, v View, err error, path string) (code int, body string) {
	t.Helper()
	handler := Handler(Deps{
		View:    func(context.Context) (View, error) { return v, err },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics")) }),
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// A process that answers lives; it is ready when agent and kubelet are there and nothing ends it.
func TestHealth(t *testing.T) {
	ready := core.View{Connected: true, KubeletReady: true}
	for _, c := range []struct {
		name  string
		core  *core.View
		err   error
		live  int
		ready int
		says  string // part of what /readyz?verbose answers
	}{
		{"ready", &ready, nil, 200, 200, "[+]agent ok"},
		{"no subscription yet", nil, nil, 200, 503, "[-]agent failed: not subscribed"},
		{"the agent is away", &core.View{KubeletReady: true}, nil, 200, 503, "[-]agent failed: not subscribed"},
		{"the kubelet starts", &core.View{Connected: true}, nil, 200, 503, "[-]kubelet failed: takes no pods yet"},
		{"shutting down", &core.View{Connected: true, KubeletReady: true, ShuttingDown: true}, nil, 200, 503, "[-]shutdown failed"},
		{"stuck", nil, errors.New("too late"), 503, 503, "[-]loop failed: the executor's loop does not answer: too late"},
	} {
		v := View{Core: c.core}
		for path, want := range map[string]int{"/livez": c.live, "/healthz": c.live, "/readyz": c.ready, "/readyz?verbose": c.ready} {
			if got, body := get(t, v, c.err, path); got != want || got == 200 && !strings.Contains(path, "?") && body != "ok" {
				t.Errorf("%s: %s answers %d %q, want %d", c.name, path, got, body, want)
			}
		}
		if _, body := get(t, v, c.err, "/readyz?verbose"); !strings.Contains(body, c.says) {
			t.Errorf("%s: %q, want %q in it", c.name, body, c.says)
		}
	}
}

// The page and its JSON tell the same: tasks, what holds the executor, and what happened with its reason.
func TestPageAndState(t *testing.T) {
	v := View{
		Time: now, Started: now.Add(-time.Minute), Version: "v1", Node: "a1",
		Core: &core.View{Connected: true, KubeletReady: true, HeldBy: "live tasks: 1", Tasks: []core.TaskView{
			{TaskID: "u.1", Namespace: "default", Name: "web<1>", State: core.Running, Unacknowledged: 2},
			{TaskID: "static-pods.k.1.S1", StaticPods: "default/log@01020304", State: core.Running}}},
		Recent: []Entry{
			{Time: now, Kind: Event, Name: "Kill", TaskID: "u.1"},
			{Time: now, Kind: Effect, Name: "DeletePod", TaskID: "u.1", What: "default/web", Why: "kill asked by the scheduler"},
		},
	}
	code, page := get(t, v, nil, "/")
	for _, part := range []string{"default/web&lt;1&gt;", "static pods: default/log@01020304", "Running", "held by live tasks: 1", "kill asked by the scheduler", "runs for 1m0s"} {
		if code != 200 || !strings.Contains(page, part) {
			t.Errorf("page %d lacks %q:\n%s", code, part, page)
		}
	}
	if strings.Index(page, "DeletePod") > strings.Index(page, "Kill<") {
		t.Error("the newest entry does not come first")
	}
	if strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("the page needs something from elsewhere")
	}
	_, text := get(t, v, nil, "/state")
	var state struct {
		Node string
		Core struct {
			Tasks []struct{ TaskID, State string }
		}
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil || state.Node != "a1" || len(state.Core.Tasks) != 2 || state.Core.Tasks[0].State != "Running" {
		t.Errorf("state %s: %+v, error %v", text, state, err)
	}
	for _, v := range []View{{}, {Core: &core.View{}}} {
		if code, page := get(t, v, nil, "/"); code != 200 || !strings.Contains(page, "No task.") || !strings.Contains(page, "Nothing yet.") {
			t.Errorf("page of an executor without tasks: %d\n%s", code, page)
		}
	}
	if code, _ := get(t, v, nil, "/nope"); code != http.StatusNotFound {
		t.Errorf("unknown path: %d", code)
	}
	if _, body := get(t, v, nil, "/metrics"); body != "metrics" {
		t.Errorf("metrics: %q", body)
	}
}

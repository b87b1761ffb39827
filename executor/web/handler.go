package web

import (
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/internal/zpages"
)

// View is what the executor is at one moment.
type View struct {
	// Time is when the loop made it.
	Time time.Time `json:"time"`
	// Version is the program's, Started the process's start.
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// The ids that Mesos gave; Node is empty until the agent has named it.
	Node        string `json:"node"`
	AgentID     string `json:"agentID"`
	FrameworkID string `json:"frameworkID"`
	ExecutorID  string `json:"executorID"`
	Container   string `json:"container"`
	// Core is nil until the first subscription.
	Core *core.View `json:"core,omitempty"`
	// Recent is what happened last, the oldest first.
	Recent []Entry `json:"recent"`
}

// Deps are what the pages need of others.
type Deps struct {
	// View asks the executor's loop. It fails when the context ends first.
	View func(context.Context) (View, error)
	// Metrics answers /metrics.
	Metrics http.Handler
}

// answerLimit is how long the loop may take to answer. It never waits for anything but the disk.
const answerLimit = 5 * time.Second

// checks are the parts of health.
func checks(v View) []zpages.Check {
	connected, ready, ending := false, false, false
	if v.Core != nil {
		connected, ready, ending = v.Core.Connected, v.Core.KubeletReady, v.Core.ShuttingDown
	}
	fault := func(is bool, what string) string {
		if is {
			return what
		}
		return ""
	}
	return []zpages.Check{
		{Name: "loop", Live: true}, // it has answered
		{Name: "agent", Fault: fault(!connected, "not subscribed")},
		{Name: "kubelet", Fault: fault(!ready, "takes no pods yet")},
		{Name: "shutdown", Fault: fault(ending, "shutting down")},
	}
}

// Handler serves the paths that the package comment names.
func Handler(deps Deps) http.Handler {
	mux := http.NewServeMux()
	with := func(do func(http.ResponseWriter, *http.Request, View)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), answerLimit)
			defer cancel()
			view, err := deps.View(ctx)
			if err != nil {
				zpages.Refuse(w, http.StatusServiceUnavailable, "[-]loop failed: the executor's loop does not answer: %v", err)
				return
			}
			do(w, r, view)
		}
	}
	mux.Handle("GET /livez", with(func(w http.ResponseWriter, r *http.Request, v View) { zpages.Health(w, r, checks(v), false) }))
	mux.Handle("GET /healthz", with(func(w http.ResponseWriter, r *http.Request, v View) { zpages.Health(w, r, checks(v), false) }))
	mux.Handle("GET /readyz", with(func(w http.ResponseWriter, r *http.Request, v View) { zpages.Health(w, r, checks(v), true) }))
	mux.Handle("GET /metrics", deps.Metrics)
	mux.Handle("GET /state", with(func(w http.ResponseWriter, _ *http.Request, v View) { zpages.JSON(w, v) }))
	mux.Handle("GET /{$}", with(func(w http.ResponseWriter, _ *http.Request, v View) { zpages.Page(w, page, v) }))
	return mux
}

//go:embed page.html
var pageText string

var page = zpages.Template("page", pageText, template.FuncMap{
	// newest first: that is what somebody who looks wants to read.
	"reverse": func(entries []Entry) []Entry {
		entries = slices.Clone(entries)
		slices.Reverse(entries)
		return entries
	},
})

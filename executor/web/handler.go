package web

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/executor/core"
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

// check is a part of health.
type check struct {
	name string
	// live: without it the executor is broken, and not only not ready.
	live bool
	// fault is empty when all is well.
	fault func(View) string
}

var checks = []check{
	{"loop", true, func(View) string { return "" }}, // it has answered
	{"agent", false, func(v View) string {
		if v.Core == nil || !v.Core.Connected {
			return "not subscribed"
		}
		return ""
	}},
	{"kubelet", false, func(v View) string {
		if v.Core == nil || !v.Core.KubeletReady {
			return "takes no pods yet"
		}
		return ""
	}},
	{"shutdown", false, func(v View) string {
		if v.Core != nil && v.Core.ShuttingDown {
			return "shutting down"
		}
		return ""
	}},
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
				http.Error(w, "[-]loop failed: the executor's loop does not answer: "+err.Error(), http.StatusServiceUnavailable)
				return
			}
			do(w, r, view)
		}
	}
	mux.Handle("GET /livez", with(func(w http.ResponseWriter, r *http.Request, v View) { health(w, r, v, false) }))
	mux.Handle("GET /healthz", with(func(w http.ResponseWriter, r *http.Request, v View) { health(w, r, v, false) }))
	mux.Handle("GET /readyz", with(func(w http.ResponseWriter, r *http.Request, v View) { health(w, r, v, true) }))
	mux.Handle("GET /metrics", deps.Metrics)
	mux.Handle("GET /state", with(func(w http.ResponseWriter, _ *http.Request, v View) { state(w, v) }))
	mux.Handle("GET /{$}", with(func(w http.ResponseWriter, _ *http.Request, v View) { page(w, v) }))
	return mux
}

// health answers as Kubernetes' health endpoints do: 200 and "ok", or 503 and what is wrong.
func health(w http.ResponseWriter, r *http.Request, v View, ready bool) {
	var text strings.Builder
	failed := false
	for _, c := range checks {
		if !ready && !c.live {
			continue
		}
		if fault := c.fault(v); fault != "" {
			failed = true
			fmt.Fprintf(&text, "[-]%s failed: %s\n", c.name, fault)
		} else {
			fmt.Fprintf(&text, "[+]%s ok\n", c.name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if failed {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	answer := "ok"
	if failed || r.URL.Query().Has("verbose") {
		answer = text.String()
	}
	write(w, []byte(answer))
}

func state(w http.ResponseWriter, v View) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "encode state: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, append(text, '\n'))
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"clock": func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
	"since": func(now, then time.Time) string { return now.Sub(then).Truncate(time.Second).String() },
	// newest first: that is what somebody who looks wants to read.
	"reverse": func(entries []Entry) []Entry {
		entries = slices.Clone(entries)
		slices.Reverse(entries)
		return entries
	},
}).Parse(pageText))

func page(w http.ResponseWriter, v View) {
	var text bytes.Buffer
	if err := pageTemplate.Execute(&text, v); err != nil {
		http.Error(w, "make page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
	write(w, text.Bytes())
}

func write(w http.ResponseWriter, text []byte) {
	if _, err := w.Write(text); err != nil {
		glog.V(1).Infof("answer page err=%v", err) // who asked has gone
	}
}

package web

import (
	"context"
	"net/http"
	"time"

	"github.com/mesopod/mesopod/internal/zpages"
)

// Deps are what the pages need of others.
type Deps struct {
	// View asks the scheduler. It fails when the context ends first.
	View func(context.Context) (View, error)
	// Metrics answers /metrics.
	Metrics http.Handler
}

// answerLimit is how long the scheduler may take to answer. Its loop waits for nobody.
const answerLimit = 5 * time.Second

// Handler serves health, metrics and pages. Paths: /livez, /readyz and /healthz (?verbose names each check, as Kubernetes' own
// do), /metrics (Prometheus text: kube-scheduler's series and those that begin with mesopod_scheduler_).
func Handler(deps Deps) http.Handler {
	mux := http.NewServeMux()
	with := func(do func(http.ResponseWriter, *http.Request, View)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), answerLimit)
			defer cancel()
			view, err := deps.View(ctx)
			if err != nil {
				zpages.Refuse(w, http.StatusServiceUnavailable, "[-]loop failed: the scheduler's loop does not answer: %v", err)
				return
			}
			do(w, r, view)
		}
	}
	live := with(func(w http.ResponseWriter, r *http.Request, v View) { zpages.Health(w, r, checks(v), false) })
	mux.Handle("GET /livez", live)
	mux.Handle("GET /healthz", live)
	mux.Handle("GET /readyz", with(func(w http.ResponseWriter, r *http.Request, v View) { zpages.Health(w, r, checks(v), true) }))
	mux.Handle("GET /metrics", deps.Metrics)
	return mux
}

package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/zpages"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// Deps are what the pages need of others.
type Deps struct {
	// View asks the scheduler. It fails when the context ends first.
	View func(context.Context) (View, error)
	// Journal is what happened last.
	Journal *Journal
	// Procure tells what pods need; it must be the core's.
	Procure procure.Config
	// Plan tells where a pod could be placed. It changes nothing.
	Plan func(context.Context, *corev1.Pod) (Plan, error)
	// Metrics answers /metrics.
	Metrics http.Handler
	// Profiling adds /debug/pprof.
	Profiling bool
}

// answerLimit is how long the scheduler may take to answer. Its loop waits for nobody.
const answerLimit = 5 * time.Second

// pages are the handlers of HTML pages: each makes what is shown, as HTML or, with ?format=json, as JSON.
type pages struct{ Deps }

// Handler serves the paths that the package comment names.
func Handler(deps Deps) http.Handler {
	p, mux := pages{deps}, http.NewServeMux()
	live := p.with(func(w http.ResponseWriter, r *http.Request, v View) { zpages.Health(w, r, checks(v), false) })
	mux.Handle("GET /livez", live)
	mux.Handle("GET /healthz", live)
	mux.Handle("GET /readyz", p.with(func(w http.ResponseWriter, r *http.Request, v View) { zpages.Health(w, r, checks(v), true) }))
	mux.Handle("GET /metrics", deps.Metrics)
	mux.Handle("GET /{$}", p.page("overview", p.overview))
	mux.Handle("GET /agents", p.page("agents", p.agents))
	mux.Handle("GET /pods", p.page("pods", p.pods))
	mux.Handle("GET /pods/{namespace}/{name}", p.page("pod", p.pod))
	mux.Handle("GET /offers", p.page("offers", p.offers))
	mux.Handle("GET /queue", p.page("queue", p.queue))
	mux.HandleFunc("POST /plan", p.plan)
	mux.Handle("GET /recent", p.page("recent", p.recent))
	if deps.Profiling {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// with asks for the view first.
func (p pages) with(do func(http.ResponseWriter, *http.Request, View)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerLimit)
		defer cancel()
		view, err := p.View(ctx)
		if err != nil {
			zpages.Refuse(w, http.StatusServiceUnavailable, "[-]loop failed: the scheduler's loop does not answer: %v", err)
			return
		}
		do(w, r, view)
	}
}

// fault is an answer other than the page.
type fault struct {
	code int
	text string
}

func (f *fault) Error() string { return f.text }

func badRequest(err error) *fault { return &fault{http.StatusBadRequest, err.Error()} }

// page answers with what show makes. A scheduler that does not work shows an empty core.
func (p pages) page(name string, show func(*http.Request, View, Head) (any, *fault)) http.HandlerFunc {
	return p.with(func(w http.ResponseWriter, r *http.Request, v View) {
		if v.Core == nil {
			v.Core = &core.View{}
		}
		head := Head{Time: v.Time, Standing: v.Standing, Leader: v.Leader, Master: v.Master, page: name, title: name, root: "./", query: r.URL.Query()}
		data, fault := show(r, v, head)
		switch {
		case fault != nil:
			zpages.Refuse(w, fault.code, "%s", fault.text)
		case r.URL.Query().Get("format") == "json":
			zpages.JSON(w, data)
		default:
			zpages.Page(w, templates[name], data)
		}
	})
}

func (p pages) overview(_ *http.Request, v View, head Head) (any, *fault) {
	head.title = "overview"
	o := OverviewPage{
		Head: head, Framework: v.Name, FrameworkID: v.Core.FrameworkID, Roles: v.Roles, Version: v.Version, Started: v.Started,
		Since: v.Since, Fault: v.Fault, Offers: len(v.Core.Offers), Waits: waits(v),
	}
	uses := map[string]int{}
	for i := range v.Core.Agents {
		a := &v.Core.Agents[i]
		uses[a.Use()]++
		if a.Executor {
			o.Executors++
		}
		if a.Visible {
			o.Total = o.Total.plus(Amount{CPUs: a.Total.CPUs, MemMB: int64(a.Total.MemMB), DiskMB: int64(a.Total.DiskMB), GPUs: int64(a.Total.GPUs)})
		}
		if a.Free != nil {
			o.Offered = o.Offered.plus(amount(a.Free.All().Free))
		}
	}
	for _, use := range []string{"used", "new", "refused", "gone"} {
		o.Agents = append(o.Agents, Count{use, uses[use]})
	}
	o.Pods = stageCounts(v.Core, podFilter{})
	waiting := reasons(podFilter{stages: unplaced}.pods(v.Core))
	o.Reasons = waiting[:min(len(waiting), 5)]
	o.Recent = p.Journal.Newest(15, "")
	return o, nil
}

// waits says what placing waits for, if it does.
func waits(v View) string {
	for _, c := range checks(v) {
		if c.Fault != "" {
			return c.Fault
		}
	}
	return ""
}

// stageCounts counts the pods that a filter holds for by their stage, whatever the filter says of stages.
func stageCounts(v *core.View, f podFilter) []Count {
	f.stages = nil
	n := map[core.Stage]int{}
	for i := range v.Pods {
		if f.holds(&v.Pods[i]) {
			n[v.Pods[i].Stage]++
		}
	}
	var counts []Count
	for _, stage := range core.Stages {
		counts = append(counts, Count{string(stage), n[stage]})
	}
	return counts
}

func (p pages) agents(r *http.Request, v View, head Head) (any, *fault) {
	query := r.URL.Query()
	rows := agentRows(v.Core, query.Get("q"))
	some, err := part(query, len(rows))
	if err != nil {
		return nil, badRequest(err)
	}
	rows = cut(some, rows)
	measure(rows, v.Core, p.Procure)
	return AgentsPage{Head: head, Part: some, Text: query.Get("q"), Agents: rows}, nil
}

func (p pages) pods(r *http.Request, v View, head Head) (any, *fault) {
	query := r.URL.Query()
	f := podFilter{agent: query.Get("agent"), text: query.Get("q")}
	stage := query.Get("stage")
	if stage != "" {
		if f.stages = []core.Stage{core.Stage(stage)}; !slices.Contains(core.Stages, f.stages[0]) {
			return nil, badRequest(fmt.Errorf("stage=%s: want one of %v", stage, core.Stages))
		}
	}
	found := f.pods(v.Core)
	some, err := part(query, len(found))
	if err != nil {
		return nil, badRequest(err)
	}
	return PodsPage{
		Head: head, Part: some, Text: f.text, Stage: stage, Agent: f.agent,
		Pods: podRows(cut(some, found)), Stages: stageCounts(v.Core, f),
	}, nil
}

func podRows(pods []*core.PodView) []PodRow {
	rows := []PodRow{}
	for _, p := range pods {
		rows = append(rows, podRow(p))
	}
	return rows
}

func (p pages) pod(r *http.Request, v View, head Head) (any, *fault) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	at := slices.IndexFunc(v.Core.Pods, func(p core.PodView) bool { return p.Pod.Namespace == namespace && p.Pod.Name == name })
	if at < 0 {
		return nil, &fault{http.StatusNotFound, fmt.Sprintf("there is no pod %s/%s of this scheduler; /recent?q=%s shows what is remembered of one that is gone", namespace, name, name)}
	}
	is := &v.Core.Pods[at]
	head.title, head.root = namespace+"/"+name, "../../"
	page := PodPage{
		Head: head, PodRow: podRow(is), Phase: string(is.Pod.Status.Phase), Scheduler: is.Pod.Spec.SchedulerName,
		Conditions: conditions(is.Pod), Timeline: p.Journal.OfPod(string(is.Pod.UID)), framework: v.Core.FrameworkID,
	}
	need, err := procure.SizeOf(is.Pod, p.Procure)
	if err != nil {
		page.Fault = err.Error()
		return page, nil
	}
	needs := amount(need.Amounts)
	page.Needs, page.Ports, page.Role = &needs, need.Ports.All(), is.Pod.Annotations[messages.AnnotationRole]
	return page, nil
}

func (p pages) offers(r *http.Request, v View, head Head) (any, *fault) {
	query := r.URL.Query()
	rows := offerRows(v.Core, query.Get("agent"))
	some, err := part(query, len(rows))
	if err != nil {
		return nil, badRequest(err)
	}
	return OffersPage{Head: head, Part: some, Agent: query.Get("agent"), Offers: cut(some, rows)}, nil
}

func (p pages) queue(r *http.Request, v View, head Head) (any, *fault) {
	found := podFilter{stages: unplaced}.pods(v.Core)
	slices.SortStableFunc(found, func(a, b *core.PodView) int { return a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time) })
	some, err := part(r.URL.Query(), len(found))
	if err != nil {
		return nil, badRequest(err)
	}
	all := reasons(found)
	return QueuePage{Head: head, Part: some, Reasons: all[:min(len(all), defaultLimit)], Pods: podRows(cut(some, found))}, nil
}

func (p pages) recent(r *http.Request, _ View, head Head) (any, *fault) {
	query := r.URL.Query()
	some, err := part(query, mostLimit)
	if err != nil {
		return nil, badRequest(err)
	}
	if query.Get("limit") == "" {
		some.Limit = 200
	}
	return RecentPage{Head: head, Text: query.Get("q"), Limit: some.Limit, Entries: p.Journal.Newest(some.Limit, query.Get("q"))}, nil
}

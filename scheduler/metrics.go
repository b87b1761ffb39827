package scheduler

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

const subsystem = "mesopod_scheduler"

func gauge(name, help string) *metrics.Gauge {
	return metrics.NewGauge(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
}

func gauges(name, help string, labels ...string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
}

func counter(name, help string) *metrics.Counter {
	return metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
}

func counters(name, help string, labels ...string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
}

// seconds are the buckets of what takes from some milliseconds to minutes.
var seconds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// The scheduler's own series. They are in the registry of kube-scheduler's. Gauges are set when somebody asks.
var (
	metricBuild      = gauges("build_info", "1, with the version of the program.", "version")
	metricWorks      = gauge("works", "1 while this scheduler works, 0 while it waits for the API server or stands by for another one.")
	metricSubscribed = gauge("subscribed", "1 while the scheduler is subscribed with a Mesos master.")
	metricPlacing    = gauge("placing", "1 while pods are placed: subscribed, framework id stored, pods listed and compared with Mesos.")
	metricStart      = gauge("start_duration_seconds", "Time from the start of the scheduler's work until pods were placed.")
	metricAgents     = gauges("agents", "Mesos agents that made an offer, by use: used, new (its node is not stored yet), refused, gone (Mesos does not reach it).", "use")
	metricExecutors  = gauge("executors", "Agents where an executor runs or is being started.")
	metricHeld       = gauge("offers_held", "Offers that are held.")
	metricPods       = gauges("pods", "Pods of this scheduler by stage: queued, held, waiting, launching, starting, running, away, ending, succeeded, failed.", "stage")
	metricTasks      = gauges("tasks", "Live Mesos tasks by state.", "state")

	metricSubscriptions   = counter("subscriptions_total", "Subscriptions with a Mesos master.")
	metricDisconnections  = counter("disconnections_total", "Subscriptions that broke.")
	metricOffers          = counter("offers_received_total", "Offers received.")
	metricOffersEnded     = counters("offers_ended_total", "Offers that ended, by how: accepted, declined, rescinded, lost (with the subscription).", "how")
	metricDeclined        = counters("offers_declined_total", "Offers declined, by reason: role, agent (not used), unfit (pods wait, none used it), idle (no pod waits), cordoned (its node is), failed (its ACCEPT failed).", "reason")
	metricRevives         = counter("revives_total", "REVIVE calls.")
	metricBatch           = metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: "accept_tasks", StabilityLevel: metrics.ALPHA, Help: "Tasks launched by one ACCEPT call.", Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200}})
	metricReserve         = counters("reservations_total", "Reservations for pods, by result: made or refused.", "result")
	metricBind            = metrics.NewHistogramVec(&metrics.HistogramOpts{Subsystem: subsystem, Name: "bind_duration_seconds", StabilityLevel: metrics.ALPHA, Help: "Time from kube-scheduler's choice of an agent until the pod was seen bound, or its launch had surely failed.", Buckets: seconds}, []string{"result"})
	metricLaunch          = metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: "launch_duration_seconds", StabilityLevel: metrics.ALPHA, Help: "Time from ACCEPT to the task's TASK_RUNNING.", Buckets: seconds})
	metricUpdates         = counters("status_updates_total", "Task status updates received, by state, source and reason in Mesos' words.", "state", "source", "reason")
	metricKills           = counter("kills_total", "KILL calls, repetitions included.")
	metricReconciliations = counters("reconciliations_total", "RECONCILE calls, by kind: explicit (names tasks) or implicit.", "kind")
	metricEvents          = counters("events_total", "Events that the scheduler's core took, by kind.", "kind")
	metricEffects         = counters("effects_total", "Effects that the scheduler's core asked for, by kind.", "kind")
	metricFailures        = counters("effect_failures_total", "Effects that failed, by kind: calls to Mesos and writes to the API server.", "kind")
	metricStep            = metrics.NewHistogram(&metrics.HistogramOpts{Subsystem: subsystem, Name: "step_duration_seconds", StabilityLevel: metrics.ALPHA, Help: "Time of one step of the scheduler's core.", Buckets: []float64{1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1}})

	registerMetrics = sync.OnceFunc(func() {
		legacyregistry.MustRegister(metricBuild, metricWorks, metricSubscribed, metricPlacing, metricStart, metricAgents, metricExecutors,
			metricHeld, metricPods, metricTasks, metricSubscriptions, metricDisconnections, metricOffers, metricOffersEnded, metricDeclined,
			metricRevives, metricBatch, metricReserve, metricBind, metricLaunch, metricUpdates, metricKills, metricReconciliations,
			metricEvents, metricEffects, metricFailures, metricStep)
	})
)

// tally counts what goes into the core and comes out of it. The loop owns it.
type tally struct {
	began time.Time
	// offers are those that have not ended: offer id to nothing. It is kept apart from the core's pool, and so is a check of it.
	offers map[string]struct{}
	// binds are the times of requests that are not answered, launches those of tasks that have not run yet.
	binds    map[uint64]time.Time
	launches map[string]time.Time
}

func newTally() *tally {
	registerMetrics()
	return &tally{began: time.Now(), offers: map[string]struct{}{}, binds: map[uint64]time.Time{}, launches: map[string]time.Time{}}
}

// event is called with each event before the core takes it.
func (t *tally) event(now time.Time, event core.Event) {
	metricEvents.WithLabelValues(kindOf(event)).Inc()
	switch e := event.(type) {
	case core.Subscribed:
		metricSubscriptions.Inc()
		t.lose()
	case core.Disconnected:
		metricDisconnections.Inc()
		t.lose()
	case core.Offers:
		for i := range e.Offers {
			t.offers[e.Offers[i].ID.Value] = struct{}{}
		}
		metricOffers.Add(float64(len(e.Offers)))
	case core.Rescinded:
		t.end("rescinded", e.OfferID)
	case core.StatusUpdate:
		t.update(now, &e.Status)
	case core.Bind:
		t.binds[e.Request] = now
	case core.CallFailed:
		metricFailures.WithLabelValues(kindOf(e.Effect)).Inc()
	}
}

// effect is called with each effect.
func (t *tally) effect(now time.Time, effect core.Effect) {
	metricEffects.WithLabelValues(kindOf(effect)).Inc()
	switch e := effect.(type) {
	case core.Accept:
		t.end("accepted", e.OfferIDs...)
		metricBatch.Observe(float64(len(e.Tasks)))
		for i := range e.Tasks {
			t.launches[e.Tasks[i].TaskID.Value] = now
		}
	case core.Decline:
		t.end("declined", e.OfferIDs...)
		metricDeclined.WithLabelValues(string(e.Reason)).Add(float64(len(e.OfferIDs)))
	case core.Revive:
		metricRevives.Inc()
	case core.Kill:
		metricKills.Inc()
	case core.Reconcile:
		kind := "explicit"
		if len(e.Tasks) == 0 {
			kind = "implicit"
		}
		metricReconciliations.WithLabelValues(kind).Inc()
	case core.ReserveDone:
		result := "made"
		if e.Refusal != "" {
			result = "refused"
		}
		metricReserve.WithLabelValues(result).Inc()
	case core.BindDone:
		t.bound(now, e)
	case core.GateChanged:
		if e.Open && t.began != (time.Time{}) {
			metricStart.Set(now.Sub(t.began).Seconds())
			t.began = time.Time{}
		}
	}
}

// end counts offers that have not ended yet: those of a failed ACCEPT are declined after it, and a DECLINE may be repeated.
func (t *tally) end(how string, offerIDs ...string) {
	for _, id := range offerIDs {
		if _, open := t.offers[id]; open {
			delete(t.offers, id)
			metricOffersEnded.WithLabelValues(how).Inc()
		}
	}
}

// lose ends all offers: they went with their subscription.
func (t *tally) lose() {
	metricOffersEnded.WithLabelValues("lost").Add(float64(len(t.offers)))
	clear(t.offers)
}

func (t *tally) bound(now time.Time, e core.BindDone) {
	began, asked := t.binds[e.Request]
	if !asked {
		return
	}
	delete(t.binds, e.Request)
	result := "bound"
	if e.Err != nil {
		result = "failed"
	}
	metricBind.WithLabelValues(result).Observe(now.Sub(began).Seconds())
}

func (t *tally) update(now time.Time, status *mesos.TaskStatus) {
	source, reason := "", ""
	if status.Source != nil {
		source = strings.TrimPrefix(status.Source.String(), "SOURCE_")
	}
	if status.Reason != nil {
		reason = strings.TrimPrefix(status.Reason.String(), "REASON_")
	}
	state := status.GetState()
	metricUpdates.WithLabelValues(tasks.Name(state), source, reason).Inc()
	began, launched := t.launches[status.TaskID.Value]
	switch {
	case !launched:
	case state == mesos.TASK_RUNNING:
		metricLaunch.Observe(now.Sub(began).Seconds())
		delete(t.launches, status.TaskID.Value)
	case tasks.Terminal(state):
		delete(t.launches, status.TaskID.Value)
	}
}

// kindOf is the type's name without its package.
func kindOf(value any) string { return strings.TrimPrefix(fmt.Sprintf("%T", value), "core.") }

// truth is 1 for true.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// show sets the gauges to what the scheduler is. A core that does not work yet is nil.
func show(version string, works bool, v *core.View) {
	metricBuild.WithLabelValues(version).Set(1)
	metricWorks.Set(truth(works))
	if v == nil {
		v = &core.View{}
	}
	metricSubscribed.Set(truth(v.Connected))
	metricPlacing.Set(truth(v.Open))
	metricHeld.Set(float64(len(v.Offers)))
	uses := map[string]int{"used": 0, "new": 0, "refused": 0, "gone": 0}
	executors := 0
	for i := range v.Agents {
		uses[v.Agents[i].Use()]++
		if v.Agents[i].Executor {
			executors++
		}
	}
	metricExecutors.Set(float64(executors))
	stages := map[core.Stage]int{}
	states := map[string]int{"STAGING": 0, "STARTING": 0, "RUNNING": 0, "KILLING": 0, "UNREACHABLE": 0, "UNKNOWN": 0}
	for _, stage := range core.Stages {
		stages[stage] = 0
	}
	count := func(all []core.TaskView) {
		for i := range all {
			states[all[i].State]++
		}
	}
	for i := range v.Pods {
		stages[v.Pods[i].Stage]++
		count(v.Pods[i].Tasks)
	}
	count(v.Orphans)
	set(metricAgents, uses)
	set(metricPods, stages)
	set(metricTasks, states)
}

func set[K ~string](g *metrics.GaugeVec, values map[K]int) {
	for label, n := range values {
		g.WithLabelValues(string(label)).Set(float64(n))
	}
}

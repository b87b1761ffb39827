package executor

import (
	"maps"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mesopod/mesopod/executor/core"
)

// The executor's own series. They are in the registry of the kubelet's, so that the kubelet's port shows them as well.
var (
	metricTasks = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "mesopod_executor", Name: "tasks", StabilityLevel: metrics.ALPHA,
		Help: "Mesos tasks that the executor knows, by its state for them.",
	}, []string{"state"})
	metricUnacknowledged = metrics.NewGauge(&metrics.GaugeOpts{
		Subsystem: "mesopod_executor", Name: "unacknowledged_updates", StabilityLevel: metrics.ALPHA,
		Help: "Task status updates that the agent has not acknowledged.",
	})
	metricConnected = metrics.NewGauge(&metrics.GaugeOpts{
		Subsystem: "mesopod_executor", Name: "agent_subscribed", StabilityLevel: metrics.ALPHA,
		Help: "1 while the executor is subscribed with its agent.",
	})
	metricPods = metrics.NewGauge(&metrics.GaugeOpts{
		Subsystem: "mesopod_executor", Name: "kubelet_pods", StabilityLevel: metrics.ALPHA,
		Help: "Pods in the set that the kubelet was given.",
	})
	metricUpdates = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "mesopod_executor", Name: "status_updates_total", StabilityLevel: metrics.ALPHA,
		Help: "Task status updates handed to the agent connection, by Mesos' task state.",
	}, []string{"state"})
	metricEvents = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "mesopod_executor", Name: "events_total", StabilityLevel: metrics.ALPHA,
		Help: "Events that the executor's core took, by kind.",
	}, []string{"kind"})
	metricFailures = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "mesopod_executor", Name: "api_failures_total", StabilityLevel: metrics.ALPHA,
		Help: "Calls to the API server that failed, by call: bind (patches included) or delete (evictions included).",
	}, []string{"call"})
	metricLaunch = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: "mesopod_executor", Name: "launch_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time from LAUNCH to the task's TASK_RUNNING.",
		Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300},
	})

	registerMetrics = sync.OnceFunc(func() {
		legacyregistry.MustRegister(metricTasks, metricUnacknowledged, metricConnected, metricPods, metricUpdates, metricEvents,
			metricFailures, metricLaunch)
	})
)

// launches remembers when tasks were launched that are not Running yet. The loop owns it.
type launches map[string]time.Time

// countEvent is called with each event, before the core takes it.
func (l launches) countEvent(now time.Time, event core.Event) {
	metricEvents.WithLabelValues(kindOf(event)).Inc()
	switch e := event.(type) {
	case core.Launch:
		l[e.TaskID] = now
	case core.BindFailed:
		metricFailures.WithLabelValues("bind").Inc()
	case core.DeleteFailed:
		metricFailures.WithLabelValues("delete").Inc()
	}
}

// countEffect is called with each effect.
func (l launches) countEffect(now time.Time, effect core.Effect) {
	update, ok := effect.(core.SendUpdate)
	if !ok {
		return
	}
	state := update.Update.State.String()
	metricUpdates.WithLabelValues(state).Inc()
	began, launching := l[update.Update.TaskID]
	switch {
	case !launching || state == "TASK_STARTING":
		return
	case state == "TASK_RUNNING":
		metricLaunch.Observe(now.Sub(began).Seconds())
	}
	delete(l, update.Update.TaskID)
}

// gauge shows what the core is, and forgets launches that are over without an update that told.
func (l launches) gauge(v core.View) {
	count := map[core.State]int{core.Binding: 0, core.Starting: 0, core.Running: 0, core.Killing: 0, core.Done: 0}
	open, under := 0, map[string]bool{}
	for _, t := range v.Tasks {
		under[t.TaskID] = t.State == core.Binding || t.State == core.Starting
		count[t.State]++
		open += t.Unacknowledged
	}
	maps.DeleteFunc(l, func(taskID string, _ time.Time) bool { return !under[taskID] })
	for state, n := range count {
		metricTasks.WithLabelValues(state.String()).Set(float64(n))
	}
	metricUnacknowledged.Set(float64(open))
	metricPods.Set(float64(v.FedPods))
	connected := 0.0
	if v.Connected {
		connected = 1
	}
	metricConnected.Set(connected)
}

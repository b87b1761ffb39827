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
	metricFeed = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: "mesopod_executor", Name: "launch_feed_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time from LAUNCH until the kubelet was given the pod, without the time of the calls to the API server between them.",
		Buckets: []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 30},
	})

	registerMetrics = sync.OnceFunc(func() {
		legacyregistry.MustRegister(metricTasks, metricUnacknowledged, metricConnected, metricPods, metricUpdates, metricEvents,
			metricFailures, metricLaunch, metricFeed)
	})
)

// launches remembers tasks that were launched and are not Running yet. The loop owns it.
type launches map[string]*launching

// launching is the way of a task to the kubelet: when its LAUNCH came in, when the call under way was made, and how long
// earlier ones took. bound: TASK_STARTING is sent, the next set of the kubelet's has the pod.
type launching struct {
	began, asked time.Time
	calls        time.Duration
	bound        bool
}

func (l *launching) answered(at time.Time) {
	if l != nil && !l.asked.IsZero() {
		l.calls, l.asked = l.calls+at.Sub(l.asked), time.Time{}
	}
}

// countEvent is called with each event and the time at which it came in, before the core takes it.
func (l launches) countEvent(at time.Time, event core.Event) {
	metricEvents.WithLabelValues(kindOf(event)).Inc()
	switch e := event.(type) {
	case core.Launch:
		l[e.TaskID] = &launching{began: at}
	case core.Bound:
		l[e.TaskID].answered(at)
	case core.BindFailed:
		l[e.TaskID].answered(at)
		metricFailures.WithLabelValues("bind").Inc()
	case core.DeleteFailed:
		metricFailures.WithLabelValues("delete").Inc()
	}
}

// countEffect is called with each effect after it was carried out.
func (l launches) countEffect(now time.Time, effect core.Effect) {
	switch e := effect.(type) {
	case core.Bind:
		l.asked(e.TaskID, now)
	case core.Patch:
		l.asked(e.TaskID, now)
	case core.SendUpdate:
		l.countUpdate(now, e.Update.TaskID, e.Update.State.String())
	case core.Feed:
		for _, launch := range l {
			if launch.bound {
				launch.bound = false
				metricFeed.Observe((now.Sub(launch.began) - launch.calls).Seconds())
			}
		}
	}
}

func (l launches) asked(taskID string, now time.Time) {
	if launch := l[taskID]; launch != nil {
		launch.asked = now
	}
}

func (l launches) countUpdate(now time.Time, taskID, state string) {
	metricUpdates.WithLabelValues(state).Inc()
	launch := l[taskID]
	switch {
	case launch == nil:
		return
	case state == "TASK_STARTING":
		launch.bound = true
		return
	case state == "TASK_RUNNING":
		metricLaunch.Observe(now.Sub(launch.began).Seconds())
	}
	delete(l, taskID)
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
	maps.DeleteFunc(l, func(taskID string, _ *launching) bool { return !under[taskID] })
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

package executor

import (
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
)

// What a launch takes without the API server: calls that fail and the one that binds are left out, pauses are not.
func TestLaunchFeedDuration(t *testing.T) {
	registerMetrics()
	metricFeed.ClearState()
	t.Cleanup(metricFeed.ClearState)
	begin := time.Unix(1_000_000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	l := launches{}
	l.countEvent(at(0), core.Launch{TaskID: "a"})
	l.countEffect(at(1), core.Bind{TaskID: "a"})
	l.countEvent(at(1000), core.BindFailed{TaskID: "a"})
	l.countEffect(at(1200), core.Patch{TaskID: "a"})
	l.countEvent(at(3000), core.Bound{TaskID: "a"})
	starting := core.SendUpdate{Update: ledger.Update{TaskID: "a", State: mesos.TASK_STARTING}}
	l.countEffect(at(3003), starting)
	l.countEffect(at(3004), core.Feed{})
	l.countEffect(at(9000), core.Feed{}) // it was fed already
	const want = `
# HELP mesopod_executor_launch_feed_duration_seconds [ALPHA] Time from LAUNCH until the kubelet was given the pod, without the time of the calls to the API server between them.
# TYPE mesopod_executor_launch_feed_duration_seconds histogram
mesopod_executor_launch_feed_duration_seconds_bucket{le="0.001"} 0
mesopod_executor_launch_feed_duration_seconds_bucket{le="0.002"} 0
mesopod_executor_launch_feed_duration_seconds_bucket{le="0.005"} 0
mesopod_executor_launch_feed_duration_seconds_bucket{le="0.01"} 0
mesopod_executor_launch_feed_duration_seconds_bucket{le="0.02"} 0
mesopod_executor_launch_feed_duration_seconds_bucket{le="0.05"} 0
mesopod_executor_launch_feed_duration_seconds_bucket{le="0.1"} 0
mesopod_executor_launch_feed_duration_seconds_bucket{le="0.25"} 1
mesopod_executor_launch_feed_duration_seconds_bucket{le="0.5"} 1
mesopod_executor_launch_feed_duration_seconds_bucket{le="1"} 1
mesopod_executor_launch_feed_duration_seconds_bucket{le="5"} 1
mesopod_executor_launch_feed_duration_seconds_bucket{le="30"} 1
mesopod_executor_launch_feed_duration_seconds_bucket{le="+Inf"} 1
mesopod_executor_launch_feed_duration_seconds_sum 0.205
mesopod_executor_launch_feed_duration_seconds_count 1
`
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), "mesopod_executor_launch_feed_duration_seconds"); err != nil {
		t.Error(err)
	}
}

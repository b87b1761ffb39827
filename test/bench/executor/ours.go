package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/bench/figure"
	"github.com/mesopod/mesopod/test/cluster"
)

// ours is the executor with its keeper, as Mesos starts them.
type ours struct {
	cluster *cluster.Cluster
	bench   *bench
}

func (o *ours) name() string { return "executor" }

func (o *ours) place(pod *corev1.Pod) { pod.Spec.SchedulerName = messages.DefaultSchedulerName }

func (o *ours) fresh(ctx context.Context) error {
	if err := o.warm(ctx); err != nil {
		return err
	}
	pid, err := o.cluster.PartPID(o.cluster.OfAgent(1), cluster.ExecutorWords)
	if err != nil {
		return err
	}
	// The keeper starts another one.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	return o.warm(ctx)
}

func (o *ours) warm(ctx context.Context) error {
	if _, err := o.bench.start(ctx, o, 1); err != nil {
		return err
	}
	return o.bench.clear(ctx, o)
}

func (o *ours) processes() ([]int, error) {
	executor, err := o.cluster.PartPID(o.cluster.OfAgent(1), cluster.ExecutorWords)
	keeper, err2 := o.cluster.PartPID(o.cluster.OfAgent(1), cluster.KeeperWords)
	pids := []int{executor, keeper}
	if watchdog, err := o.cluster.PartPID(o.cluster.OfAgent(1), "mesopod-keeper", "watchdog"); err == nil {
		pids = append(pids, watchdog)
	}
	return pids, errors.Join(err, err2)
}

// churn launches and ends pods, a batch at a time, and compares what the executor has at the begin and at the end.
func (b *bench) churn(ctx context.Context, o *ours, pods int) error {
	const batch = 20
	if err := o.fresh(ctx); err != nil {
		return err
	}
	// The first batches fill caches and pools.
	var before held
	for done := -5 * batch; done < pods; done += batch {
		if done == 0 {
			var err error
			if before, err = o.held(ctx, "begin"); err != nil {
				return err
			}
			fmt.Printf("# at the begin: %+v\n", before)
		}
		if _, err := b.start(ctx, o, batch); err != nil {
			return err
		}
		if err := b.clear(ctx, o); err != nil {
			return err
		}
	}
	after, err := o.held(ctx, "end")
	if err != nil {
		return err
	}
	fmt.Printf("# at the end: %+v\n", after)
	good := figure.AtMost("churn-goroutines-growth", after.goroutines-before.goroutines, "goroutines", 20, 0)
	good = figure.AtMost("churn-files-growth", after.files-before.files, "descriptors", 10, 0) && good
	good = figure.AtMost("churn-heap-growth", (after.heap-before.heap)/1e6, "MB", 10, 0) && good
	if !good {
		return errors.New("the executor keeps something of pods that have ended")
	}
	return nil
}

// feeds are the medians of launches one after another and of many in one go, in seconds.
func (b *bench) feeds(ctx context.Context, o *ours, burst func() error) (alone, together float64, err error) {
	before, err := o.series(ctx)
	if err != nil {
		return 0, 0, err
	}
	for range oneByOne {
		if _, err := b.start(ctx, o, 1); err != nil {
			return 0, 0, err
		}
	}
	if alone, err = o.feedMedian(ctx, before); err != nil {
		return 0, 0, err
	}
	if err := b.clear(ctx, o); err != nil {
		return 0, 0, err
	}
	if before, err = o.series(ctx); err != nil {
		return 0, 0, err
	}
	if err := burst(); err != nil {
		return 0, 0, err
	}
	together, err = o.feedMedian(ctx, before)
	return alone, together, err
}

func (o *ours) profile(ctx context.Context) ([]byte, error) {
	return o.ask("debug/pprof/profile").Param("seconds", idleSeconds).DoRaw(ctx)
}

// held is what a process has.
type held struct{ goroutines, files, heap float64 }

// held reads the executor's metrics after it was left alone and its garbage was collected. With -profile it writes what the heap
// is made of.
func (o *ours) held(ctx context.Context, when string) (held, error) {
	if err := pause(ctx, 5*settle); err != nil {
		return held{}, err
	}
	// Twice: what has a finalizer goes with the second.
	var heap []byte
	for range 2 {
		var err error
		if heap, err = o.ask("debug/pprof/heap").Param("gc", "1").DoRaw(ctx); err != nil {
			return held{}, err
		}
	}
	if o.bench.profile != "" {
		if err := os.WriteFile(o.bench.profile+".heap-"+when, heap, 0o600); err != nil {
			return held{}, err
		}
	}
	return o.metrics(ctx)
}

// ask is a question to the executor's kubelet.
func (o *ours) ask(path string) *rest.Request {
	return o.cluster.Client.CoreV1().RESTClient().Get().Resource("nodes").Name(o.cluster.Node(1)).SubResource("proxy").Suffix(path)
}

func (o *ours) metrics(ctx context.Context) (held, error) {
	found, err := o.series(ctx)
	if err != nil {
		return held{}, err
	}
	pid, err := o.cluster.PartPID(o.cluster.OfAgent(1), cluster.ExecutorWords)
	if err != nil {
		return held{}, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return held{goroutines: found["go_goroutines"], files: float64(len(files)), heap: found["go_memstats_heap_alloc_bytes"]}, err
}

// series are the executor's metrics: name with labels, and value.
func (o *ours) series(ctx context.Context) (map[string]float64, error) {
	data, err := o.ask("metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			found[name] = value
		}
	}
	return found, lines.Err()
}

// feedSeries is the histogram of the time from LAUNCH to the kubelet, without the calls to the API server.
const feedSeries = "mesopod_executor_launch_feed_duration_seconds"

// feedMedian is the median of the launches that feedSeries counted since before: seconds, interpolated within its bucket.
func (o *ours) feedMedian(ctx context.Context, before map[string]float64) (float64, error) {
	const name = feedSeries
	found, err := o.series(ctx)
	if err != nil {
		return 0, err
	}
	for series, value := range before {
		found[series] -= value
	}
	half := found[name+"_count"] / 2
	if half == 0 {
		return 0, fmt.Errorf("no launch is counted in %s", name)
	}
	lower, below := 0.0, 0.0
	for _, upper := range slices.Sorted(maps.Keys(buckets(found, name))) {
		count := found[fmt.Sprintf("%s_bucket{le=%q}", name, strconv.FormatFloat(upper, 'g', -1, 64))]
		if count >= half {
			return lower + (upper-lower)*(half-below)/(count-below), nil
		}
		lower, below = upper, count
	}
	return 0, fmt.Errorf("half of the launches took longer than %g s", lower)
}

// buckets are the finite upper bounds of a histogram.
func buckets(found map[string]float64, name string) map[float64]bool {
	bounds := map[float64]bool{}
	for series := range found {
		text, ok := strings.CutPrefix(series, name+`_bucket{le="`)
		bound, err := strconv.ParseFloat(strings.TrimSuffix(text, `"}`), 64)
		if ok && err == nil && !math.IsInf(bound, 0) {
			bounds[bound] = true
		}
	}
	return bounds
}

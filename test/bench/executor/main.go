// Command executor measures the executor against the upstream kubelet and kube-proxy, which are built from the same module
// and run beside it on a containerd of the same kind, under the same API server: memory at 0, 10, 50 and 110 idle pods, idle
// CPU, and how long 110 pods take that are started in one go. The sides take turns; figures are medians over the rounds.
//
// With -churn N it measures instead what N launches and ends of pods leave in the executor.
//
// It needs root, the bundle, and the two upstream programs, which make bench-executor builds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/bench/figure"
	"github.com/mesopod/mesopod/test/cluster"
)

const (
	many = 110 // the most that a kubelet takes
	// settle is how long a node is left alone before it is measured; idle is how long its CPU time is counted.
	settle, idle = 8 * time.Second, 30 * time.Second
	target       = 1.15
	cpuTarget    = 1.25
	feedTarget   = 10
)

// side is a node agent under measurement.
type side interface {
	name() string
	// fresh starts it anew, without pods, and has it run one pod, so that what is lazy is there.
	fresh(ctx context.Context) error
	// processes are those whose cost is counted.
	processes() ([]int, error)
	// profile is what the CPU time of a node with idle pods goes to, in the format of pprof.
	profile(ctx context.Context) ([]byte, error)
	// place makes a pod this side's.
	place(pod *corev1.Pod)
}

func main() {
	var upstream programs
	flag.StringVar(&upstream.kubelet, "kubelet", "bin/tools/kubelet", "the upstream kubelet")
	flag.StringVar(&upstream.proxy, "kube-proxy", "bin/tools/kube-proxy", "the upstream kube-proxy")
	rounds := flag.Int("rounds", 3, "rounds of both sides")
	profile := flag.String("profile", "", "write CPU profiles with 50 idle pods to files of this name with .executor and .kubelet at the end, or with -churn the heap's with .heap-begin and .heap-end")
	churn := flag.Int("churn", 0, "launch and end so many pods instead, and look for what stays")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, upstream, *profile, *rounds, *churn)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-executor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, upstream programs, profile string, rounds, churn int) (retErr error) {
	c := cluster.New(cluster.Options{Name: "bench", AgentResources: "cpus:16;mem:6000;disk:20000;ports:[31000-32000]", Quiet: true})
	if err := c.Start(); err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, c.Stop()) }()
	b := &bench{client: c.Client.CoreV1().Pods(cluster.Namespace), profile: profile}
	us := &ours{cluster: c, bench: b}
	if churn > 0 {
		return b.churn(ctx, us, churn)
	}
	them, err := newPeer(ctx, c, b, upstream)
	if err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, them.close()) }()
	results := map[string]*result{us.name(): {}, them.name(): {}}
	for round := range rounds {
		for _, s := range []side{us, them} {
			fmt.Printf("# round %d of %d: %s\n", round+1, rounds, s.name())
			if err := b.measure(ctx, s, results[s.name()]); err != nil {
				return fmt.Errorf("%s: %w", s.name(), err)
			}
		}
	}
	if !compare(results[us.name()], results[them.name()]) {
		return errors.New("a target does not hold")
	}
	return nil
}

// result is what was measured of one side, a value for each round.
type result struct {
	// rss, pss and anonymous are by number of pods, MB.
	rss, pss, anonymous map[int][]float64
	cpu                 []float64 // at 50 idle pods, thousandths of a core
	burst               []float64 // 110 pods in one go, s
	// Medians from LAUNCH to the kubelet beyond API calls, ms, of launches one after another and of 110 in one go, when all
	// parts of all pods want the CPUs. Of the executor alone.
	feedAlone, feedTogether []float64
}

func compare(us, them *result) bool {
	good := true
	// Rss is what a node agent has on a host of its own. In local mode scheduler and control plane run the same programs,
	// which makes Pss smaller than it would be there.
	for _, pods := range []int{0, 10, 50, many} {
		ours := figure.Spread(fmt.Sprintf("executor-rss-%d-pods", pods), us.rss[pods], "MB")
		theirs := figure.Spread(fmt.Sprintf("kubelet-rss-%d-pods", pods), them.rss[pods], "MB")
		figure.Spread(fmt.Sprintf("executor-pss-%d-pods", pods), us.pss[pods], "MB")
		figure.Spread(fmt.Sprintf("kubelet-pss-%d-pods", pods), them.pss[pods], "MB")
		figure.Spread(fmt.Sprintf("executor-anonymous-%d-pods", pods), us.anonymous[pods], "MB")
		figure.Spread(fmt.Sprintf("kubelet-anonymous-%d-pods", pods), them.anonymous[pods], "MB")
		good = figure.AtMost(fmt.Sprintf("memory-ratio-%d-pods", pods), ours/theirs, "x", target, 1) && good
	}
	ours, theirs := figure.Spread("executor-idle-cpu", us.cpu, "mcores"), figure.Spread("kubelet-idle-cpu", them.cpu, "mcores")
	good = figure.AtMost("idle-cpu-ratio", ours/theirs, "x", cpuTarget, 0) && good
	good = figure.AtMost("launch-to-kubelet-p50", figure.Spread("launch-to-kubelet", us.feedAlone, "ms"), "ms", feedTarget, 0) && good
	figure.Spread("launch-to-kubelet-in-burst", us.feedTogether, "ms")
	ours, theirs = figure.Spread("executor-110-pods-running", us.burst, "s"), figure.Spread("kubelet-110-pods-running", them.burst, "s")
	return figure.AtMost("burst-ratio", ours/theirs, "x", target, 1) && good
}

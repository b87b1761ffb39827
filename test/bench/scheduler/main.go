// Command scheduler measures mesopod's scheduler against the upstream kube-scheduler, which is built from the same module: both
// under an etcd and API server of the same kind, ours with agents that the simulated Mesos acts out, the peer with as many
// Node objects. Pods are created as fast as the API server takes them, and watched until they are bound. The sides take turns, each
// round with a new cluster; figures are medians over the rounds.
//
// It prints, for each workload: pods bound per second, create → bound at p50 and p99, writes to the API server per pod beyond the
// creation; then the share of the CPU that the simulator had in the common run, and how many times faster it is alone.
//
// Other parts (-part) measure our scheduler alone: see parts.go and scale.go, and make bench-scale.
//
// It needs the bundle, and two programs that make bench-scheduler builds. Nothing of it needs root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/mesopod/mesopod/test/bench/figure"
)

// The targets of design section 8 and issue 7.
const (
	rateTarget     = 1.0  // the goal is 1.5
	p99Target      = 1.25 // of the peer's with its default profile
	writesTarget   = 2.05 // 2, and the events of the workload before that come late
	simShareTarget = 25.0 // percent of the CPU of the common run
	simRateTarget  = 2.0
)

// config of a bench.
type config struct {
	bundle, kubeScheduler, benchSim string
	nodes, pods, rounds             int
	workloads                       []string
	// agents and tasks are those of the parts offers and start.
	agents, tasks int
	// sides are those that take part.
	sides []string
	// profile is the folder for CPU profiles of our side, or empty.
	profile string
}

func main() {
	if dir := os.Getenv(planeDir); dir != "" {
		exit(runPlane(dir))
	}
	var c config
	var names, sides, part string
	flag.StringVar(&c.bundle, "bundle-dir", "bin/bundle", "folder of mesopod")
	flag.StringVar(&c.kubeScheduler, "kube-scheduler", "bin/tools/kube-scheduler", "the upstream kube-scheduler")
	flag.StringVar(&c.benchSim, "bench-sim", "", "the bench of the simulator alone; empty leaves its figure out")
	flag.IntVar(&c.nodes, "nodes", 1000, "number of nodes")
	flag.IntVar(&c.pods, "pods", 5000, "number of pods of each workload")
	flag.IntVar(&c.rounds, "rounds", 5, "rounds of all sides")
	flag.StringVar(&c.profile, "profile", "", "folder to write a CPU profile of our scheduler and of the control plane to, of the first seconds of each workload")
	flag.StringVar(&part, "part", "rate", "what is measured: rate, pending, failover, offers or start")
	flag.IntVar(&c.agents, "agents", 10_000, "number of agents of the parts offers and start")
	flag.IntVar(&c.tasks, "tasks", 100_000, "number of tasks of the part start")
	flag.StringVar(&names, "workloads", strings.Join(workloadNames, ","), "which workloads")
	flag.StringVar(&sides, "sides", strings.Join(sideNames, ","), "who is measured; figures that compare with others are left out")
	flag.Parse()
	c.sides = strings.Split(sides, ",")
	for _, name := range c.sides {
		if !slices.Contains(sideNames, name) {
			exit(fmt.Errorf("side %q is none of %s", name, strings.Join(sideNames, ", ")))
		}
	}
	c.workloads = strings.Split(names, ",")
	for _, name := range c.workloads {
		if !slices.Contains(workloadNames, name) {
			exit(fmt.Errorf("workload %q is none of %s", name, strings.Join(workloadNames, ", ")))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runPart(ctx, part, c)
	stop()
	exit(err)
}

func runPart(ctx context.Context, part string, c config) error {
	if part == "rate" {
		return run(ctx, c)
	}
	measure, known := parts[part]
	if !known {
		return fmt.Errorf("part %q is none of rate, pending, failover, offers, start", part)
	}
	good, err := measure(ctx, c)
	if err == nil && !good {
		err = errNotGood
	}
	return err
}

var errNotGood = errors.New("a target does not hold")

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-scheduler:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// outcome is what was measured of one workload, a value for each round.
type outcome struct{ rate, p50, p99, writes []float64 }

func run(ctx context.Context, c config) error {
	results := map[string]map[string]*outcome{}
	var simShare []float64
	for round := range c.rounds {
		for _, s := range []side{ours{c}, peer{c, false}, peer{c, true}} {
			if !slices.Contains(c.sides, s.name()) {
				continue
			}
			if results[s.name()] == nil {
				results[s.name()] = map[string]*outcome{}
			}
			fmt.Printf("# round %d of %d: %s, %d nodes, %d pods\n", round+1, c.rounds, s.name(), c.nodes, c.pods)
			share, err := measure(ctx, c, s, results[s.name()])
			if err != nil {
				return fmt.Errorf("%s: %w", s.name(), err)
			}
			if s.name() == (ours{}).name() {
				simShare = append(simShare, share)
			}
		}
	}
	return show(ctx, c, results, simShare)
}

// show prints all figures, and fails if a target does not hold.
func show(ctx context.Context, c config, results map[string]map[string]*outcome, simShare []float64) error {
	good := true
	fastest := 0.0
	for _, workload := range c.workloads {
		name := func(side, what string) string { return fmt.Sprintf("%s-%d-nodes-%s-%s", side, c.nodes, workload, what) }
		rates, p99s := map[string]float64{}, map[string]float64{}
		for side, of := range results {
			one := of[workload]
			rates[side] = figure.Spread(name(side, "rate"), one.rate, "pods/s")
			figure.Spread(name(side, "bound-p50"), one.p50, "s")
			p99s[side] = figure.Spread(name(side, "bound-p99"), one.p99, "s")
			figure.Spread(name(side, "writes"), one.writes, "1/pod")
		}
		us, measured := rates[(ours{}).name()]
		if !measured {
			continue
		}
		fastest = max(fastest, us)
		if theirs := rates[(peer{ourProfile: true}).name()]; theirs > 0 {
			figure.Show(name((peer{ourProfile: true}).name(), "ratio"), us/theirs, "x")
		}
		if theirs := rates[(peer{}).name()]; theirs > 0 {
			good = figure.AtLeast(name((peer{}).name(), "ratio"), us/theirs, "x", rateTarget) && good
		}
		if theirs := p99s[(peer{}).name()]; theirs > 0 {
			good = figure.AtMost(name((peer{}).name(), "p99-ratio"), p99s[(ours{}).name()]/theirs, "x", p99Target, 0) && good
		}
		good = figure.AtMost(name((ours{}).name(), "writes-per-pod"), figure.Quantile(results[(ours{}).name()][workload].writes, 0.5), "1/pod", writesTarget, 0) && good
	}
	if len(simShare) == 0 {
		return nil
	}
	good = figure.AtMost(fmt.Sprintf("sim-%d-nodes-cpu-share", c.nodes), figure.Quantile(simShare, 0.5), "%", simShareTarget, 0) && good
	if c.benchSim != "" {
		alone, err := simAlone(ctx, c)
		if err != nil {
			return err
		}
		good = figure.AtLeast(fmt.Sprintf("sim-%d-nodes-alone", c.nodes), alone/fastest, "x", simRateTarget) && good
	}
	if !good {
		return errNotGood
	}
	return nil
}

// Command bench measures the simulated Mesos through its HTTP API, alone: offers and status updates per second, and the
// memory of an agent and of a task. Its scheduler does nothing but take and acknowledge, and runs in
// the same process, so the figures hold for both together.
//
// Each figure is one line, "figure NAME VALUE UNIT", with "target <= LIMIT" behind those that must hold; the exit code is 1
// when one does not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/mesossim"
)

// memoryLimit is the target for 10,000 agents with 100,000 tasks, in MB.
const memoryLimit = 2048

func main() {
	agents := flag.Int("agents", 1000, "number of agents")
	tasks := flag.Int("tasks", 10, "tasks for each agent")
	window := flag.Duration("window", 3*time.Second, "how long offers are counted")
	elsewhere := flag.String("fill", "", "host:port of a simulated master: launch tasks on all its agents and leave them running, in place of a measurement")
	flag.Parse()
	if *elsewhere != "" {
		if err := fill(context.Background(), *elsewhere, *agents, *tasks); err != nil {
			fmt.Fprintln(os.Stderr, "bench-sim: fill:", err)
			os.Exit(1)
		}
		return
	}
	if err := measure(context.Background(), *agents, *tasks, *window); err != nil {
		fmt.Fprintln(os.Stderr, "bench-sim:", err)
		os.Exit(1)
	}
	peak := peakMB()
	figure(fmt.Sprintf("sim-%d-agents-memory", *agents), peak, fmt.Sprintf("MB target <= %d", memoryLimit))
	if peak > memoryLimit {
		os.Exit(1)
	}
}

func figure(name string, value float64, unit string) {
	fmt.Printf("figure %s %.1f %s\n", name, value, unit)
}

// peakMB is the most memory that the process has had.
func peakMB() float64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Maxrss) / 1024
}

// heap is what is in use, after a collection.
func heap() float64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// measure runs one simulator with a number of agents.
func measure(ctx context.Context, agents, tasks int, window time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := heap()
	sim, err := mesossim.New(mesossim.Config{Scripted: agents})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- sim.Run(ctx) }()
	idle := heap()
	name := func(what string) string { return fmt.Sprintf("sim-%d-agents-%s", agents, what) }
	figure(name("memory-per-agent"), (idle-before)/float64(agents)/1024, "kB")

	s, err := subscribe(ctx, sim.Master())
	if err != nil {
		return err
	}
	offers, err := s.countOffers(window, agents)
	if err != nil {
		return err
	}
	figure(name("offers"), offers, "1/s")
	began := time.Now()
	if err := s.launch(agents, tasks); err != nil {
		return err
	}
	figure(name("updates"), float64(agents*tasks)/time.Since(began).Seconds(), "1/s")
	figure(name("memory-per-task"), (heap()-idle)/float64(agents*tasks)/1024, "kB")
	cancel()
	return <-done
}

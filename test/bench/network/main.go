// Command network measures the pod network and the rules for Services.
//
// Ways: what pods on two agents have of each other, by routes and by VXLAN, against what the agents' own network namespaces
// have, with the same program at both ends; and what the way through a Service costs. Rules: how long 1,000 Services of five
// endpoints take, and how much memory, in an executor and in upstream's kube-proxy, which is built from the same module and
// runs on the other agent. The sides take turns; figures are medians over the rounds.
//
// It needs root, the bundle, and a kube-proxy: make bench-network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	proxy := flag.String("kube-proxy", "bin/tools/kube-proxy", "upstream's kube-proxy")
	rounds := flag.Int("rounds", 5, "rounds of all sides")
	part := flag.String("part", "all", "ways, rules or all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if flag.NArg() > 0 {
		err = end(flag.Args())
	} else {
		err = run(ctx, *proxy, *rounds, *part)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-network:", err)
		os.Exit(1)
	}
}

// end is this program as one end of a connection, in the network namespace where another of it has started it:
// serve ADDRESS, throughput ADDRESS SECONDS, latency ADDRESS ROUNDS, or connecting ADDRESS ROUNDS.
func end(args []string) error {
	if args[0] == "serve" && len(args) == 2 {
		return serve(args[1])
	}
	if len(args) != 3 {
		return fmt.Errorf("%v: want a measure, an address and a number", args)
	}
	number, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	var value float64
	switch args[0] {
	case "throughput":
		value, err = throughput(args[1], time.Duration(number)*time.Second)
	case "latency":
		value, err = latency(args[1], number)
	case "connecting":
		value, err = connecting(args[1], number)
	default:
		return fmt.Errorf("no measure is called %s", args[0])
	}
	if err == nil {
		fmt.Println(value)
	}
	return err
}

func run(ctx context.Context, proxy string, rounds int, part string) error {
	good := true
	for _, one := range []struct {
		part string
		do   func() (bool, error)
	}{
		{"ways", func() (bool, error) { return ways(ctx, "routes", rounds, 0.8) }},
		{"ways", func() (bool, error) { return ways(ctx, "vxlan", rounds, 0.5) }},
		{"rules", func() (bool, error) { return rules(ctx, proxy, rounds) }},
	} {
		if part != "all" && part != one.part {
			continue
		}
		held, err := one.do()
		if err != nil {
			return err
		}
		good = good && held
	}
	if !good {
		return errors.New("a target does not hold")
	}
	return nil
}

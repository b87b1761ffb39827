//go:build !agent

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/mesopod/mesopod/cmd/internal/cli"
	"github.com/mesopod/mesopod/internal/mesossim"
	"github.com/mesopod/mesopod/internal/mesossim/pods"
)

func newSimCommand() *cobra.Command {
	var cfg mesossim.Config
	var acted pods.Config
	var file string
	c := &cobra.Command{
		Use:   "sim",
		Short: "Run a simulated Mesos: a master and agents that speak the v1 HTTP APIs, with faults on demand",
		Long: `Run a simulated Mesos: a master and agents that speak the v1 HTTP APIs, with faults on demand.

Without a configuration file it has --agents agents whose executors are acted out, for schedulers at scale. A file in YAML
names masters, agents that start real executors, and faults; see docs/simulator.md. Faults are ordered at run time through
http://MASTER/sim/faults. Whoever reaches its ports may start programs here: keep them on the loopback.

With --kubeconfig the agents without processes act mesopod's pods out: they bind them and write their statuses, so that
kubectl shows them Running or Completed though nothing runs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSim(cmd, cfg, acted, file) },
	}
	set := c.Flags()
	set.StringVar(&file, "config", "", "configuration file")
	set.StringSliceVar(&cfg.Masters, "listen", []string{"127.0.0.1:5050"}, "where masters answer; the first leads, the others redirect to it")
	set.IntVar(&cfg.Scripted, "agents", 3, "number of agents whose executors are acted out; with --config none unless it is given")
	set.StringVar(&cfg.ScriptedResources, "resources", "", "what each of them has, in Mesos' notation (default cpus:8;mem:16384;disk:100000;ports:[31000-32000])")
	set.StringVar(&cfg.ScriptedAttributes, "attributes", "", "attributes of each of them, in Mesos' notation; of values separated by | they take one each in turn")
	set.StringVar(&acted.Kubeconfig, "kubeconfig", "", "act mesopod's pods out: kubeconfig file of somebody who may bind pods and write their status, such as an administrator")
	set.BoolVar(&acted.BindOnly, "bind-only", false, "with --kubeconfig: bind pods, but write no status, for benchmarks of the scheduler")
	set.DurationVar(&cfg.Script.ExecutorDelay, "executor-delay", 0, "how long their executors take to start")
	set.DurationVar(&cfg.Script.StartDelay, "start-delay", 0, "how long a task takes to run; label sim.start-delay of a task wins")
	set.DurationVar(&cfg.Script.RunTime, "run-time", 0, "how long a task runs, 0 until it is killed; label sim.run-time wins")
	set.IntVar(&cfg.Script.ExitCode, "exit-code", 0, "how a task ends, 0 is TASK_FINISHED; label sim.exit-code wins")
	set.DurationVar(&cfg.Script.KillDelay, "kill-delay", 0, "how long a task takes to end after a KILL")
	set.DurationVar(&cfg.Timing.Allocation, "allocation-interval", 0, "time between allocations (default 1s)")
	set.DurationVar(&cfg.Timing.OfferTimeout, "offer-timeout", 0, "after which offers are rescinded (default never)")
	set.DurationVar(&cfg.Timing.AgentTimeout, "agent-timeout", 0, "silence after which an agent is unreachable (default 75s)")
	set.DurationVar(&cfg.Timing.ExecutorRegistration, "executor-registration-timeout", 0, "time for an executor to subscribe (default 1m)")
	set.DurationVar(&cfg.Timing.ExecutorReregistration, "executor-reregistration-timeout", 0, "the same after an agent's restart (default 2s)")
	return c
}

func runSim(cmd *cobra.Command, cfg mesossim.Config, acted pods.Config, file string) error {
	if err := cli.StartLogs(nil); err != nil {
		return err
	}
	if file != "" {
		if !cmd.Flags().Changed("agents") {
			cfg.Scripted = 0
		}
		if !cmd.Flags().Changed("listen") {
			cfg.Masters = nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return cli.Usagef("sim: read configuration: %w", err)
		}
		if err := yaml.UnmarshalStrict(data, &cfg); err != nil {
			return cli.Usagef("sim: configuration %s: %w", file, err)
		}
	}
	if acted.BindOnly && acted.Kubeconfig == "" {
		return cli.Usagef("sim: --bind-only goes with --kubeconfig")
	}
	var actor *pods.Actor
	if acted.Kubeconfig != "" {
		acted.Script, cfg.Script.Acts = cfg.Script, true
		actor = pods.New(acted)
		cfg.Actor = actor
	}
	sim, err := mesossim.New(cfg)
	if err != nil {
		return coded(fmt.Errorf("sim: %w", err))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "simulated mesos: master http://%s, %d agents with processes, %d without\n", sim.Master(), len(cfg.Agents), cfg.Scripted)
	group, ctx := errgroup.WithContext(untilSignal(cmd.Context()))
	group.Go(func() error { return sim.Run(ctx) })
	if actor != nil {
		group.Go(func() error { return actor.Run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return coded(fmt.Errorf("sim: %w", err))
	}
	return nil
}

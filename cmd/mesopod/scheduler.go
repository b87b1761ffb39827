//go:build !agent

package main

import (
	"fmt"

	"github.com/golang/glog"
	"github.com/spf13/cobra"

	"github.com/mesopod/mesopod/cmd/internal/cli"
	"github.com/mesopod/mesopod/scheduler"
	"github.com/mesopod/mesopod/scheduler/mesosconn"
)

func newSchedulerCommand() *cobra.Command {
	var l *layers
	c := &cobra.Command{
		Use:   "scheduler {--master=HOST:PORT[,HOST:PORT...] | --master=zk://... | --config=FILE}",
		Short: "Run the framework scheduler: pods of an API server become tasks of a Mesos master",
		Long: `Run the framework scheduler: pods of an API server become tasks of a Mesos master.

Pods with one of the scheduler names are placed on Mesos agents by an embedded kube-scheduler. When the scheduler stops,
pods run on; the next one takes over the framework, whose id is stored in ConfigMap mesopod-system/mesopod-scheduler.

All flags are fields of the document that --config names too; mesopod config default prints one. Flags win over it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runScheduler(cmd, l) },
	}
	l = newLayers(c.Flags(), (*scheduler.Config).Settings)
	return c
}

func runScheduler(cmd *cobra.Command, l *layers) error {
	if err := cli.StartLogs(nil); err != nil {
		return err
	}
	cfg, err := l.read(scheduler.Config.Faults)
	if err != nil {
		return coded(err)
	}
	s, err := scheduler.New(cfg, scheduler.Deps{Version: cli.Version})
	if err != nil {
		return coded(fmt.Errorf("scheduler: %w", err))
	}
	glog.Infof("start scheduler version=%s master=%s", cli.Version, mesosconn.Redacted(cfg.Master))
	if err := s.Run(untilSignal(cmd.Context())); err != nil {
		return coded(fmt.Errorf("scheduler: %w", err))
	}
	glog.Info("stop scheduler reason=\"asked to\"")
	return nil
}

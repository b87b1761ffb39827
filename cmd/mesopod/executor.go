package main

import (
	"errors"
	"fmt"

	"github.com/golang/glog"
	"github.com/spf13/cobra"

	"github.com/mesopod/mesopod/cmd/internal/cli"
	"github.com/mesopod/mesopod/executor"
)

func newExecutorCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "executor --config=FILE",
		Short: "Run the executor on an agent: started by mesopod-keeper, not by people",
		Long: `Run the executor on an agent: tasks of the agent become pods of an embedded kubelet on a private containerd.

The Mesos agent starts it by way of mesopod-keeper, with its variables (MESOS_*) in the environment.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := toAgentProgram(); err != nil {
				return err
			}
			return runExecutor(cmd, file)
		},
	}
	c.Flags().StringVar(&file, "config", "/etc/mesopod/executor.yaml", "configuration file of this agent's executor")
	return c
}

func runExecutor(cmd *cobra.Command, file string) error {
	if err := cli.StartLogs(nil); err != nil {
		return err
	}
	cfg, err := executor.Load(file)
	if err != nil {
		return coded(err)
	}
	env, err := executor.ReadEnv()
	if err != nil {
		return coded(err)
	}
	env.Version = cli.Version
	e, err := executor.New(cfg, env)
	if err != nil {
		return coded(fmt.Errorf("executor: %w", err))
	}
	glog.Infof("start executor version=%s agent=%s config=%s", cli.Version, env.AgentID, file)
	err = e.Run(untilSignal(cmd.Context()))
	if exit, ok := errors.AsType[*executor.ExitError](err); ok {
		return cli.WithCode(err, exit.Code)
	}
	return coded(err)
}

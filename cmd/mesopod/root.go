package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mesopod/mesopod/cmd/internal/cli"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// newRootCommand is mesopod without a verb.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "mesopod",
		Short:         "Run Kubernetes pods on Apache Mesos agents",
		SilenceErrors: true, // main tells them, once
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
	}
	version := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return cli.Build().Print(cmd.OutOrStdout(), "")
		}
		return cmd.Help()
	}
	hideForeignFlags()
	cli.AddLogFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Usage(err) })
	root.AddCommand(newSchedulerCommand(), newConfigCommand(), newExecutorCommand(), newLocalCommand(), newSimCommand(), newDrainCommand(), newUndrainCommand(),
		newTeardownCommand(), newPlanCommand(), newKubectlCommand(), newBundleCommand(), newVersionCommand())
	codeArgs(root)
	return root
}

// codeArgs makes wrong arguments of a command, and of all below it, faults of usage.
func codeArgs(command *cobra.Command) {
	if check := command.Args; check != nil {
		command.Args = func(cmd *cobra.Command, args []string) error { return cli.Usage(check(cmd, args)) }
	}
	for _, below := range command.Commands() {
		codeArgs(below)
	}
}

// hideForeignFlags hides the flags that Kubernetes' packages put onto every program they are linked into.
func hideForeignFlags() {
	pflag.CommandLine.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
}

// untilSignal is a context that ends with SIGINT or SIGTERM. The next such signal ends the process.
func untilSignal(parent context.Context) context.Context {
	ctx, stop := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// coded gives errors of configuration the exit code for that.
func coded(err error) error {
	if _, known := cli.CodeOf(err); !known && errors.Is(err, errdefs.ErrInvalid) {
		return cli.Usage(err)
	}
	return err
}

// executableDir is the folder of the running program: the bundle.
func executableDir() string {
	path, err := os.Executable()
	if err != nil {
		return "."
	}
	return filepath.Dir(path)
}

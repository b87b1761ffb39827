//go:build !agent

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mesopod/mesopod/scheduler"
)

func newConfigCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Print the scheduler's default configuration, or check a file",
	}
	c.AddCommand(newConfigDefaultCommand(), newConfigValidateCommand())
	return c
}

func newConfigDefaultCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "default",
		Short: "Print a configuration file with every setting, what it means, and its default",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), scheduler.DefaultDocument())
			return err
		},
	}
}

func newConfigValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration file: all faults at once, each with its line; exit code 2 if there are any",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, document, faults, err := scheduler.ReadConfig(args[0])
			if err == nil {
				err = document.Error("scheduler configuration", append(faults, cfg.Faults()...))
			}
			if err != nil {
				return coded(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", args[0])
			return err
		},
	}
}

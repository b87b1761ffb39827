package main

import (
	"github.com/spf13/cobra"

	"github.com/mesopod/mesopod/cmd/internal/cli"
)

func newVersionCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Build().Print(cmd.OutOrStdout(), output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "json, or nothing for one line of text")
	return c
}

//go:build agent

package main

import (
	"github.com/spf13/cobra"

	"github.com/mesopod/mesopod/cmd/internal/cli"
)

// toAgentProgram does nothing: this is the program for agents.
func toAgentProgram() error { return nil }

// The verbs that this program lacks. What they need would more than double the pages that each executor maps.

func newSchedulerCommand() *cobra.Command { return elsewhere("scheduler") }
func newConfigCommand() *cobra.Command    { return elsewhere("config") }
func newLocalCommand() *cobra.Command     { return elsewhere("local") }
func newSimCommand() *cobra.Command       { return elsewhere("sim") }
func newDrainCommand() *cobra.Command     { return elsewhere("drain") }
func newPlanCommand() *cobra.Command      { return elsewhere("plan") }
func newUndrainCommand() *cobra.Command   { return elsewhere("undrain") }
func newTeardownCommand() *cobra.Command  { return elsewhere("teardown") }
func newKubectlCommand() *cobra.Command   { return elsewhere("kubectl") }

func elsewhere(verb string) *cobra.Command {
	return &cobra.Command{
		Use: verb, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usagef("this program is for agents, it has no %s: use mesopod", verb)
		},
	}
}

//go:build !agent

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mesopod/mesopod/scheduler"
)

// teardownLimit bounds a teardown; what runs on agents ends by itself after it.
const teardownLimit = 2 * time.Minute

func newTeardownCommand() *cobra.Command {
	var settings *layers
	var confirmed string
	c := &cobra.Command{
		Use:   "teardown --master=HOST:PORT[,HOST:PORT...]",
		Short: "End the framework in Mesos with all its pods, for good",
		Long: `End the framework in Mesos with all its pods, for good.

It tells what will end, asks for the framework's id, tears the framework down, removes its Nodes and forgets its id. The scheduler
ends with an error then; stop it before, or its supervisor starts it as a new framework.

On the agents stay: sandboxes with logs until the agent's gc_delay has passed, and the executors' state folders.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(untilSignal(cmd.Context()), teardownLimit)
			defer cancel()
			return coded(teardown(ctx, cmd.InOrStdin(), cmd.OutOrStdout(), settings, confirmed))
		},
	}
	settings = operatorSettings(c)
	c.Flags().StringVar(&confirmed, "confirm", "", "the framework's id, in place of the question")
	return c
}

func teardown(ctx context.Context, in io.Reader, out io.Writer, settings *layers, confirmed string) error {
	cfg, master, err := operator(settings)
	if err != nil {
		return fmt.Errorf("teardown: %w", err)
	}
	defer master.Close()
	plan, err := scheduler.PlanTeardown(ctx, cfg.Kubeconfig, master)
	if err != nil {
		return fmt.Errorf("teardown: %w", err)
	}
	fmt.Fprintf(out, "framework %s ends with %d pods on %d nodes:\n", plan.FrameworkID, len(plan.Pods), len(plan.Nodes))
	for _, pod := range plan.Pods {
		fmt.Fprintf(out, "  pod %s\n", pod)
	}
	for _, node := range plan.Nodes {
		fmt.Fprintf(out, "  node %s\n", node)
	}
	if confirmed == "" {
		fmt.Fprint(out, "Type the framework's id to go on: ")
		answer, err := bufio.NewReader(in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("teardown: read the answer: %w", err)
		}
		confirmed = strings.TrimSpace(answer)
	}
	if confirmed != plan.FrameworkID {
		return fmt.Errorf("teardown: %q is not the framework's id, so nothing was done", confirmed)
	}
	if err := plan.Do(ctx); err != nil {
		return fmt.Errorf("teardown: %w", err)
	}
	fmt.Fprintln(out, "Done. Sandboxes and executors' state folders stay on the agents until they are cleared there.")
	return nil
}

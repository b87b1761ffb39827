//go:build !agent

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/mesopod/mesopod/cmd/internal/cli"
	"github.com/mesopod/mesopod/cmd/internal/local"
)

func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl ...",
		Short: "Run kubectl, by default on the local cluster",
		Long: `Run kubectl, with all of its commands and flags.

Without --kubeconfig and $KUBECONFIG it talks to the local cluster while one runs in the default folder, else to the
cluster that kubectl would take.`,
		// All flags are kubectl's, --help and -v too.
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := useLocalCluster(args); err != nil {
				return err
			}
			return runKubectl(args)
		},
	}
}

// useLocalCluster points kubectl to the local cluster, unless it was told where to go.
func useLocalCluster(args []string) error {
	told := slices.ContainsFunc(args, func(arg string) bool {
		return arg == "--kubeconfig" || strings.HasPrefix(arg, "--kubeconfig=")
	})
	if told || os.Getenv("KUBECONFIG") != "" {
		return nil
	}
	if _, err := os.Stat(local.DefaultKubeconfig); err == nil {
		return os.Setenv("KUBECONFIG", local.DefaultKubeconfig)
	}
	if _, err := os.Stat(clientcmd.RecommendedHomeFile); err == nil || !needsCluster(args) {
		return nil // kubectl's own default
	}
	// kubectl would try localhost:8080 again and again, and say so each time.
	return fmt.Errorf("kubectl: no local cluster runs (%s is missing): start `mesopod local`, or name another with --kubeconfig", local.DefaultKubeconfig)
}

// needsCluster tells whether kubectl will ask an API server. Whatever is not known to do without is taken to.
func needsCluster(args []string) bool {
	if slices.ContainsFunc(args, func(arg string) bool { return arg == "-h" || arg == "--help" || arg == "--client" }) {
		return false
	}
	command := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	return command >= 0 && !slices.Contains([]string{"help", "completion", "config", "kustomize", "options", "plugin"}, args[command])
}

// kubectlExit is what kubectl's way out of the middle of a command is turned into, so that only main exits.
type kubectlExit struct{ code int }

// runKubectl runs kubectl in this process. It writes its own errors.
func runKubectl(args []string) (retErr error) {
	cmdutil.BehaviorOnFatal(func(message string, code int) {
		if message != "" {
			fmt.Fprintln(os.Stderr, strings.TrimSuffix(message, "\n"))
		}
		panic(kubectlExit{code})
	})
	defer func() {
		switch exit := recover().(type) {
		case nil:
		case kubectlExit:
			if exit.code != 0 {
				retErr = cli.WithCode(fmt.Errorf("kubectl: %w", cli.ErrSilent), exit.code)
			}
		default:
			panic(exit)
		}
	}()
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	kubectl := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		PluginHandler: cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
		Arguments:     append([]string{"kubectl"}, args...),
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().
			WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWarningPrinter(streams),
		IOStreams: streams,
	})
	cli.AddLogFlags(kubectl.PersistentFlags())
	kubectl.SetArgs(args)
	kubectl.SilenceErrors, kubectl.SilenceUsage = true, true
	start := kubectl.PersistentPreRunE
	kubectl.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		if err := cli.StartLogs(nil); err != nil {
			return err
		}
		return start(cmd, args)
	}
	if err := kubectl.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return cli.WithCode(errors.Join(cli.ErrSilent, err), cli.ExitFailed)
	}
	return nil
}

//go:build !agent

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mesopod/mesopod/cmd/internal/cli"
	"github.com/mesopod/mesopod/cmd/internal/local"
)

func newLocalCommand() *cobra.Command {
	var cfg local.Config
	c := &cobra.Command{
		Use:   "local",
		Short: "Run a whole cluster on this machine: control plane, Mesos, scheduler, executor",
		Long: `Run a whole cluster on this machine: control plane, Mesos, scheduler, executor.

It needs root, tells each phase of the start with its time, and is ready when it says so. Ctrl-C or SIGTERM ends the pods
in their grace and removes everything but logs and sandboxes: processes, mounts, network namespaces, links, cgroups,
changed sysctls. A second Ctrl-C does not wait for the pods. Each start is a new cluster.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLocal(cmd, cfg) },
	}
	bundle := executableDir()
	set := c.Flags()
	set.StringVar(&cfg.Mesos, "mesos", "sim", "sim: simulate a Mesos, nothing to install; real: start master and agents of contrib/mesos; or host:port of a master that runs already")
	set.IntVar(&cfg.Agents, "agents", 1, "number of Mesos agents, each a node: 1 to 20, with --mesos=sim to 10000")
	set.IntVar(&cfg.RealAgents, "real-agents", 0, "with --mesos=sim: how many of them run pods, the first ones, 1 to 20; those beyond act pods out (default all, or 20)")
	set.StringVar(&cfg.Launcher, "launcher", "", "the agents' launcher, linux or posix (default linux where cgroup v1 is there)")
	set.StringVar(&cfg.StateDir, "state-dir", local.DefaultStateDir, "folder for everything the cluster keeps")
	set.StringVar(&cfg.BundleDir, "bundle-dir", bundle, "folder of containerd, runc, CNI plugins and images")
	set.StringVar(&cfg.MesosDir, "mesos-dir", filepath.Join(filepath.Dir(bundle), "mesos"), "folder where contrib/mesos was installed")
	set.StringVar(&cfg.Subnet, "subnet", "10.89.0.0/16", "IPv4 range for bridge, agents and pods")
	set.StringVar(&cfg.AgentResources, "agent-resources", "", "what each agent offers, in Mesos' notation (default its share of all cores and 60 % of the memory, at least 2 cores and 1 GiB)")
	set.StringArrayVar(&cfg.AgentFlags, "agent-flag", nil, "a further flag of the agents as NAME=VALUE, such as cgroups_enable_cfs=true; may be given several times")
	set.StringArrayVar(&cfg.SchedulerFlags, "scheduler-flag", nil, "a further flag of the scheduler as NAME=VALUE, such as preemption=true; may be given several times")
	set.StringSliceVar(&cfg.FeatureGates, "feature-gates", nil, "feature gates of Kubernetes for control plane and scheduler, NAME=true or NAME=false each, such as GenericWorkload=true for gangs")
	set.StringSliceVar(&cfg.RuntimeConfig, "runtime-config", nil, "versions of APIs to switch on or off, such as scheduling.k8s.io/v1beta1=true")
	set.StringVar(&cfg.PodNetwork, "pod-network", "routes", "how pods reach those of other agents: routes or vxlan")
	set.BoolVar(&cfg.AllocateNodeCIDRs, "allocate-node-cidrs", false, "have the controller manager give each node its range of pods, from the upper half of --subnet; this machine has no way to such pods but Services")
	set.BoolVar(&cfg.DNS, "dns", true, "run the cluster's DNS server, as a pod, and have pods use it")
	set.IPVar(&cfg.Address, "address", net.IP(nil), "address of the API server with a Mesos that runs elsewhere (default the one that leads to its master)")
	c.AddCommand(newLocalResetCommand(&cfg))
	return c
}

func newLocalResetCommand(cfg *local.Config) *cobra.Command {
	c := &cobra.Command{
		Use:   "reset",
		Short: "Remove what a local cluster that was killed has left, and its state and logs",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := cli.StartLogs(nil); err != nil {
				return err
			}
			return coded(local.Reset(*cfg))
		},
	}
	c.Flags().StringVar(&cfg.StateDir, "state-dir", local.DefaultStateDir, "folder of the cluster")
	c.Flags().StringVar(&cfg.Subnet, "subnet", "10.89.0.0/16", "IPv4 range that the cluster had")
	return c
}

func runLocal(cmd *cobra.Command, cfg local.Config) (retErr error) {
	// The control plane's own log would bury the progress. It gets a file as soon as there is a folder for it.
	logs := &lateFile{path: filepath.Join(cfg.StateDir, "logs", "control-plane.log")}
	defer func() { _ = logs.Close() }() // lines that could not be written are lost either way
	if err := cli.StartLogs(logs); err != nil {
		return err
	}
	cfg.Out = cmd.OutOrStdout()
	cfg.Terminal = term.IsTerminal(int(os.Stdout.Fd()))
	cfg.ChildArgs = cli.LogArgs()
	ctx, again := untilSignals(cmd.Context())
	if err := local.Run(ctx, again, cfg); err != nil {
		return coded(fmt.Errorf("local: %w", err))
	}
	return nil
}

// untilSignals is a context that ends with the first signal to stop, and a channel that is closed at the second: who
// sends it twice means now. A terminal that is closed is such a signal too, and must not end us in the middle.
func untilSignals(parent context.Context) (context.Context, <-chan struct{}) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2) // the second may come before the first is read
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	again := make(chan struct{})
	go func() {
		<-signals
		cancel()
		<-signals
		close(again)
	}()
	return ctx, again
}

// lateFile is a log file that is opened when it is first written to. Lines before its folder is there are dropped.
type lateFile struct {
	path string
	file *os.File
}

var _ io.WriteCloser = (*lateFile)(nil)

// Write never fails: a log that cannot be written must not stop what it tells about. klog calls it under a lock.
func (l *lateFile) Write(line []byte) (int, error) {
	if l.file == nil {
		file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return len(line), nil
		}
		l.file = file
	}
	_, _ = l.file.Write(line)
	return len(line), nil
}

func (l *lateFile) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

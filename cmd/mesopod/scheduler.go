//go:build !agent

package main

import (
	"fmt"

	"github.com/golang/glog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mesopod/mesopod/cmd/internal/cli"
	"github.com/mesopod/mesopod/scheduler"
)

func newSchedulerCommand() *cobra.Command {
	cfg := scheduler.DefaultConfig()
	c := &cobra.Command{
		Use:   "scheduler --master=HOST:PORT[,HOST:PORT...]",
		Short: "Run the framework scheduler: pods of an API server become tasks of a Mesos master",
		Long: `Run the framework scheduler: pods of an API server become tasks of a Mesos master.

Pods with one of the scheduler names are placed on Mesos agents by an embedded kube-scheduler. When the scheduler stops,
pods run on; the next one takes over the framework, whose id is stored in ConfigMap mesopod-system/mesopod-scheduler.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runScheduler(cmd, cfg) },
	}
	set := c.Flags()
	set.StringVar(&cfg.Kubeconfig, "kubeconfig", cfg.Kubeconfig, "kubeconfig file (default the service account of the pod it runs in)")
	set.StringVar(&cfg.Master, "master", cfg.Master, "Mesos masters as host:port or URL, separated by commas")
	set.StringVar(&cfg.Role, "role", cfg.Role, "Mesos role; only * is supported yet")
	set.StringVar(&cfg.FrameworkName, "framework-name", cfg.FrameworkName, "the framework's name in Mesos")
	set.StringVar(&cfg.Principal, "principal", cfg.Principal, "the framework's principal in Mesos")
	set.StringVar(&cfg.SecretFile, "secret-file", "", "file with the secret of --principal, for masters that authenticate frameworks")
	set.StringVar(&cfg.User, "user", cfg.User, "user that executors run as on agents")
	set.DurationVar(&cfg.FailoverTimeout, "failover-timeout", cfg.FailoverTimeout, "how long Mesos keeps the pods while no scheduler is there")
	set.StringVar(&cfg.ForgetFramework, "forget-framework", "", "id of a framework that Mesos has removed: if it is the stored one, start as a new framework")
	set.BoolVar(&cfg.LeaderElect, "leader-elect", false, "work only while holding Lease mesopod-system/mesopod-scheduler, so that several schedulers stand by for each other")
	set.StringVar(&cfg.Hostname, "hostname", cfg.Hostname, "host name that Mesos' pages show for the framework")
	set.StringVar(&cfg.WebUIURL, "webui-url", cfg.WebUIURL, "address that Mesos' pages link to")
	set.StringVar(&cfg.KeeperURI, "keeper-uri", "", "where agents fetch mesopod-keeper: an absolute path there, or an http(s) URL (default mesopod-keeper in --bundle-dir)")
	set.StringVar(&cfg.BundleDir, "bundle-dir", cfg.BundleDir, "folder of mesopod's programs on the agents")
	set.Float64Var(&cfg.ExecutorResources.CPUs, "executor-cpus", cfg.ExecutorResources.CPUs, "the executor's own share of each agent, in cpus")
	set.Float64Var(&cfg.ExecutorResources.MemMB, "executor-mem", cfg.ExecutorResources.MemMB, "the executor's own share of each agent, in MB of memory")
	set.StringSliceVar(&cfg.SchedulerNames, "scheduler-names", cfg.SchedulerNames, "values of a pod's spec.schedulerName that are ours")
	set.BoolVar(&cfg.Preemption, "preemption", cfg.Preemption, "evict pods of ours for pods of higher priority; what they free is offered to every framework")
	set.BoolVar(&cfg.TaintNodes, "taint-nodes", cfg.TaintNodes, "taint nodes k8s.mesosphere.io/mesos:NoSchedule, where another scheduler places pods too")
	addExecutorFlags(set, &cfg.Executors)
	addProgramFlags(set, &cfg.Programs)
	return c
}

// addProgramFlags are the flags for the bundle that agents run.
func addProgramFlags(set *pflag.FlagSet, cfg *scheduler.Programs) {
	set.StringVar(&cfg.Archive, "bundle", "", "archive of `mesopod bundle` that agents run, served at --executor-listen (default: agents have --bundle-dir)")
	set.StringVar(&cfg.SHA256, "bundle-sha256", "", "SHA-256 of that archive, in place of --bundle, where --bundle-sources serve it")
	set.StringSliceVar(&cfg.Sources, "bundle-sources", nil, "where agents get it, the best first: folders there, http(s) URLs of folders, and the word scheduler (default scheduler)")
	set.StringVar(&cfg.CacheDir, "bundle-cache", cfg.CacheDir, "folder on agents for bundles, shared by all executors there")
	set.IntVar(&cfg.Transfers, "bundle-transfers", cfg.Transfers, "how many agents are served the bundle at once; others are told when to come back")
}

// addExecutorFlags are the flags for how executors reach the scheduler.
func addExecutorFlags(set *pflag.FlagSet, cfg *scheduler.ExecutorAccess) {
	set.StringVar(&cfg.Listen, "executor-listen", "", "host:port to serve executors at: certificates, configuration, programs (default: executors have files)")
	set.StringVar(&cfg.URL, "executor-url", "", "https://HOST:PORT at which executors reach --executor-listen (default that itself)")
	set.StringVar(&cfg.APIServer, "executor-apiserver", "", "https://HOST:PORT at which executors reach the API server (default as the scheduler does)")
	set.StringVar(&cfg.ConfigFile, "executor-config", "", "configuration file for all executors, served to them whenever it changes")
	set.DurationVar(&cfg.CertificateLife, "executor-certificate-life", cfg.CertificateLife, "life that is asked for executors' certificates; at least 10m")
	set.DurationVar(&cfg.RenewAfter, "executor-certificate-renewal", 0, "when executors renew them (default two thirds of their life)")
}

func runScheduler(cmd *cobra.Command, cfg scheduler.Config) error {
	if err := cli.StartLogs(nil); err != nil {
		return err
	}
	s, err := scheduler.New(cfg, scheduler.Deps{})
	if err != nil {
		return coded(fmt.Errorf("scheduler: %w", err))
	}
	glog.Infof("start scheduler version=%s master=%s", cli.Version, cfg.Master)
	if err := s.Run(untilSignal(cmd.Context())); err != nil {
		return coded(fmt.Errorf("scheduler: %w", err))
	}
	glog.Info("stop scheduler reason=\"asked to\"")
	return nil
}

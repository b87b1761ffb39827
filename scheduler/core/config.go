package core

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/constraints"
	"github.com/mesopod/mesopod/scheduler/nodes"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// Config is what the core is told at its making. Zero values mean the defaults named.
type Config struct {
	// ExecutorResources is the executor's fixed share of each agent (0.5 cpus and 256 MB).
	ExecutorResources messages.Resources
	// KeeperURI and BundleDir stand in ExecutorInfo; see procure.Config.
	KeeperURI, BundleDir string
	// GPUResource is the extended resource that stands for Mesos' gpus; empty: none does.
	GPUResource corev1.ResourceName
	// Bundle is the archive of programs, in ExecutorInfo and in launches; see procure.Config.
	Bundle procure.Bundle
	// StaticPods are what the executors' document asks each of them to run, to begin with.
	StaticPods []messages.StaticPod
	// User runs the executor; empty leaves it to the framework's user.
	User string
	// Roles are the framework's roles in Mesos ("*"), and which of them pods may use.
	Roles procure.RolePolicy
	// AgentRules are what agents have to meet to be used.
	AgentRules []constraints.Rule
	// SchedulerNames are the values of spec.schedulerName that are ours ("mesos").
	SchedulerNames []string
	// DefaultCPUs (cores, 0.1) and DefaultMemMB (MiB, 64) are for pods without requests.
	DefaultCPUs, DefaultMemMB float64
	// NodeArch is the label kubernetes.io/arch of nodes ("amd64").
	NodeArch string
	// MaxPods is the pod capacity of nodes (110).
	MaxPods int
	// BatchWindow is how long a batch waits for one more pod (5 ms, 50 ms at most); ten times that at most in all.
	BatchWindow time.Duration
	// OfferHold is how long offers are kept unused (30 s).
	OfferHold time.Duration
	// OfferWait is how long a bound reservation waits for offers that an earlier launch carried off (15 s).
	OfferWait time.Duration
	// KillRetry is the time between two KILL calls for one task (10 s).
	KillRetry time.Duration
	// RemovalWait is how long after a subscription an agent that the master does not know is taken for removed, and the time
	// between two surveys (10 min, as Mesos' agent_reregister_timeout).
	RemovalWait time.Duration
	// LaunchTimeout is how long a launched pod may take to be seen bound (6 min).
	LaunchTimeout time.Duration
}

// Times that nobody has to choose.
const (
	reconcileRound = 10 * time.Second
	// reportWait is how long the kubelet's report on a pod, or the binding, may lag behind the task's status.
	reportWait = 30 * time.Second
	retryAfter = 5 * time.Second
	// longRefusal keeps offers away that nothing waits for; shortRefusal those that the waiting pods cannot use.
	longRefusal, shortRefusal = 3600.0, 5.0
	// leastLook and lookPerAgent are the time between surveys that look for new agents while no offer shows them: half a minute
	// for 400 agents, and as long as between others at most.
	leastLook, lookPerAgent = 10 * time.Second, 50 * time.Millisecond
	// reviveGap bounds the rate of REVIVE, which makes the master offer every agent anew. After a launch the rate falls
	// with the number of agents: leastGap and gapPerAgent apart, mostGap at most.
	reviveGap             = time.Second
	leastGap, gapPerAgent = 5 * time.Millisecond, 250 * time.Microsecond
	mostGap               = 250 * time.Millisecond
	maxBatchWindow        = 50 * time.Millisecond
)

func (c Config) withDefaults() Config {
	if c.ExecutorResources == (messages.Resources{}) {
		c.ExecutorResources = messages.Resources{CPUs: 0.5, MemMB: 256}
	}
	if len(c.SchedulerNames) == 0 {
		c.SchedulerNames = []string{messages.DefaultSchedulerName}
	}
	c.DefaultCPUs = cmp.Or(c.DefaultCPUs, 0.1)
	c.DefaultMemMB = cmp.Or(c.DefaultMemMB, 64)
	c.NodeArch = cmp.Or(c.NodeArch, "amd64")
	c.MaxPods = cmp.Or(c.MaxPods, 110)
	c.BatchWindow = min(cmp.Or(c.BatchWindow, 5*time.Millisecond), maxBatchWindow)
	c.OfferHold = cmp.Or(c.OfferHold, 30*time.Second)
	c.OfferWait = cmp.Or(c.OfferWait, 15*time.Second)
	c.KillRetry = cmp.Or(c.KillRetry, 10*time.Second)
	c.RemovalWait = cmp.Or(c.RemovalWait, 10*time.Minute)
	c.LaunchTimeout = cmp.Or(c.LaunchTimeout, 6*time.Minute)
	return c
}

// Procure is the part of the configuration that procurement needs, with defaults filled in.
func (c Config) Procure() procure.Config {
	c = c.withDefaults()
	return procure.Config{
		Executor: c.ExecutorResources, KeeperURI: c.KeeperURI, BundleDir: c.BundleDir, Bundle: c.Bundle, User: c.User,
		DefaultCPUs: c.DefaultCPUs, DefaultMemMB: c.DefaultMemMB, Roles: c.Roles, GPUResource: c.GPUResource,
	}
}

func (c Config) nodes() nodes.Config {
	return nodes.Config{Executor: c.ExecutorResources, Arch: c.NodeArch, MaxPods: c.MaxPods, GPUResource: c.GPUResource}
}

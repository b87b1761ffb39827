package scheduler

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	served "github.com/mesopod/mesopod/scheduler/bundle"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/mesosconn"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// Config is all that an operator decides. DefaultConfig has a value for each field that needs one, but Master.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file. Empty means the service account of the pod the scheduler runs in.
	Kubeconfig string
	// Master is a list of Mesos masters: host:port,host:port, or URLs.
	Master string
	// Role that the framework takes offers of. Only "*" is supported.
	Role string
	// FrameworkName and Principal identify the framework in Mesos. Principal may be empty.
	FrameworkName, Principal string
	// SecretFile holds the secret of Principal, where masters authenticate frameworks. Empty: no credentials are sent.
	SecretFile string
	// User that executors run as on agents.
	User string
	// FailoverTimeout is how long Mesos keeps the framework's tasks while no scheduler is there.
	FailoverTimeout time.Duration
	// ForgetFramework is the id of a framework that has ended in Mesos: if it is the stored one, a new framework is made.
	ForgetFramework string
	// LeaderElect lets several schedulers stand by for each other: one works, as long as it holds a Lease.
	LeaderElect bool
	// Hostname and WebUIURL are what Mesos' pages show and link to. Both may be empty.
	Hostname, WebUIURL string
	// KeeperURI is where agents fetch mesopod-keeper: an absolute path on the agents, or an http(s) URL. Empty means the
	// file mesopod-keeper in BundleDir.
	KeeperURI string
	// BundleDir is the folder of mesopod's programs on the agents.
	BundleDir string
	// ExecutorResources is the executor's own share on each agent that runs pods.
	ExecutorResources messages.Resources
	// SchedulerNames are the values of spec.schedulerName that are ours.
	SchedulerNames []string
	// Preemption evicts pods for more important ones. Off, since what they free is offered to every framework.
	Preemption bool
	// TaintNodes puts the taint messages.TaintMesos on nodes, for clusters where another scheduler places pods too.
	TaintNodes bool
	// Programs is the bundle that agents run, where they have none in BundleDir.
	Programs Programs
	// Executors is how executors reach the scheduler.
	Executors ExecutorAccess
}

// DefaultConfig is what the flags default to.
func DefaultConfig() Config {
	return Config{
		Role:              "*",
		FrameworkName:     "mesopod",
		User:              "root",
		FailoverTimeout:   7 * 24 * time.Hour,
		BundleDir:         "/opt/mesopod",
		ExecutorResources: messages.Resources{CPUs: 0.5, MemMB: 256},
		SchedulerNames:    []string{messages.DefaultSchedulerName},
		Executors:         ExecutorAccess{CertificateLife: defaultCertificateLife},
		Programs:          Programs{CacheDir: defaultCacheDir, Transfers: served.DefaultTransfers},
	}
}

// Check tells all faults together, as errdefs.ErrInvalid.
func (c Config) Check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := mesosconn.CheckMasters(c.Master); err != nil {
		faults = append(faults, err)
	}
	if c.Role != "*" {
		fault("role %q: only role * is supported yet", c.Role)
	}
	if c.FrameworkName == "" {
		fault("framework name is empty")
	}
	if c.User == "" {
		fault("user is empty: Mesos starts executors as some user")
	}
	if c.SecretFile != "" && c.Principal == "" {
		fault("secret file %s without a principal", c.SecretFile)
	}
	if c.FailoverTimeout < time.Minute {
		fault("failover timeout %s is under 1m: Mesos would kill all pods soon after the scheduler stops", c.FailoverTimeout)
	}
	if uri := c.keeperURI(); !strings.HasPrefix(uri, "/") && !strings.HasPrefix(uri, "http://") && !strings.HasPrefix(uri, "https://") {
		fault("keeper URI %q is neither an absolute path on the agents nor an http(s) URL", uri)
	}
	if !strings.HasPrefix(c.BundleDir, "/") {
		fault("bundle folder %q is not an absolute path", c.BundleDir)
	}
	// Asked this way round, for NaN compares with nothing.
	if r := c.ExecutorResources; !(r.CPUs >= 0.01 && r.MemMB >= 32 && r.DiskMB >= 0) || math.IsInf(r.CPUs+r.MemMB+r.DiskMB, 0) {
		fault("executor resources %s: at least 0.01 cpus and 32 MB are needed", r)
	}
	if len(c.SchedulerNames) == 0 {
		fault("no scheduler name")
	}
	for i, name := range c.SchedulerNames {
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
			fault("scheduler name %q: %s", name, strings.Join(wrong, "; "))
		}
		if slices.Contains(c.SchedulerNames[:i], name) {
			fault("scheduler name %q is named twice", name)
		}
	}
	faults = append(faults, c.Executors.check()...)
	faults = append(faults, c.Programs.check(c.Executors)...)
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("scheduler configuration: %w: %w", errdefs.ErrInvalid, errors.Join(faults...))
}

func (c Config) keeperURI() string {
	if c.KeeperURI == "" {
		return path.Join(c.BundleDir, "mesopod-keeper")
	}
	return c.KeeperURI
}

// core is what the core has to know, with the bundle as Programs.open tells it.
func (c Config) core(programs procure.Bundle) core.Config {
	return core.Config{
		Bundle:            programs,
		ExecutorResources: c.ExecutorResources,
		KeeperURI:         c.keeperURI(),
		BundleDir:         c.BundleDir,
		SchedulerNames:    c.SchedulerNames,
		User:              c.User,
	}
}

func (c Config) mesos() mesosconn.Config {
	return mesosconn.Config{
		Master: c.Master, SecretFile: c.SecretFile,
		Framework: mesosconn.Framework{
			User: c.User, Name: c.FrameworkName, Principal: c.Principal,
			Hostname: c.Hostname, WebUIURL: c.WebUIURL, FailoverTimeout: c.FailoverTimeout,
		},
	}
}

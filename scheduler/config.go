package scheduler

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mesopod/mesopod/internal/settings"
	"github.com/mesopod/mesopod/messages"
	served "github.com/mesopod/mesopod/scheduler/bundle"
	"github.com/mesopod/mesopod/scheduler/constraints"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/kube"
	"github.com/mesopod/mesopod/scheduler/mesosconn"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// Config is all that an operator decides. DefaultConfig has a value for each field that needs one, but Master. A field that
// is added gets a line in Settings, which makes its flag and its field in the document.
type Config struct {
	// Kubeconfig is the path of a kubeconfig file. Empty means the service account of the pod the scheduler runs in.
	Kubeconfig string
	// Master says where Mesos masters are: host:port,host:port, URLs, or zk://host:port,host:port/path.
	Master string
	// MasterTLS is how to speak https to them.
	MasterTLS mesosconn.TLS
	// Roles that the framework takes offers in; the first shows new agents. DefaultRoles are those of namespaces that name
	// none themselves, the best first; empty is the first of Roles.
	Roles, DefaultRoles []string
	// AgentRules are what agents have to meet to be used, as constraints.Parse reads them.
	AgentRules []string
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
	// Hostname and WebUIURL are what Mesos' pages show and link to. Both may be empty: the link then leads to StatusAddress,
	// unless that is on the loopback device.
	Hostname, WebUIURL string
	// StatusAddress is host:port where pages, health and metrics are served, to everybody and without authentication, or
	// NoStatus.
	StatusAddress string
	// Profiling serves Go's profiles at StatusAddress below /debug/pprof.
	Profiling bool
	// KeeperURI is where agents fetch mesopod-keeper: an absolute path on the agents, or an http(s) URL. Empty means the
	// file mesopod-keeper in BundleDir.
	KeeperURI string
	// BundleDir is the folder of mesopod's programs on the agents.
	BundleDir string
	// ExecutorResources is the executor's own share on each agent that runs pods.
	ExecutorResources messages.Resources
	// SchedulerNames are the values of spec.schedulerName that are ours.
	SchedulerNames []string
	// KubeScheduler is a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) in JSON for the embedded kube-scheduler, or
	// empty; of its fields kube.CheckConfiguration takes those about scheduling. A name without a profile has the default one.
	KubeScheduler json.RawMessage
	// FeatureGates are Kubernetes' own, NAME=true or NAME=false each, for the embedded kube-scheduler; see kube.CheckFeatureGates.
	FeatureGates []string
	// Preemption evicts pods for more important ones. Off, since what they free is offered to every framework.
	Preemption bool
	// GPUResource is the extended resource by which pods ask for gpus of Mesos, such as nvidia.com/gpu. Empty: agents with gpus are not
	// offered to us, as Mesos keeps them for frameworks that use them.
	GPUResource string
	// TaintNodes puts the taint messages.TaintMesos on nodes, for clusters where another scheduler places pods too.
	TaintNodes bool
	// Programs is the bundle that agents run, where they have none in BundleDir.
	Programs Programs
	// Executors is how executors reach the scheduler.
	Executors ExecutorAccess
}

// DefaultConfig is what holds where neither flags nor a document say anything.
func DefaultConfig() Config {
	return Config{
		Roles:             []string{procure.AnyRole},
		DefaultRoles:      []string{},
		AgentRules:        []string{},
		FeatureGates:      []string{},
		FrameworkName:     "mesopod",
		User:              "root",
		StatusAddress:     defaultStatusAddress,
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
	return new(settings.Document).Error(configuration, c.Faults())
}

// configuration is what faults are of.
const configuration = "scheduler configuration"

// Faults are all that is wrong, by the settings' keys.
func (c Config) Faults() (faults []settings.Fault) {
	fault := func(key, format string, args ...any) { faults = append(faults, settings.Faultf(key, format, args...)) }
	faults = c.MesosFaults()
	faults = append(faults, c.roleFaults()...)
	_, wrong := c.agentRules()
	faults = append(faults, wrong...)
	if c.FrameworkName == "" {
		fault("frameworkName", "it is empty")
	}
	if c.User == "" {
		fault("user", "it is empty: Mesos starts executors as some user")
	}
	if !validStatusAddress(c.StatusAddress) {
		fault("statusAddress", "%q is neither host:port nor %s", c.StatusAddress, NoStatus)
	}
	if c.FailoverTimeout < time.Minute {
		fault("failoverTimeout", "%s is under 1m: Mesos would kill all pods soon after the scheduler stops", c.FailoverTimeout)
	}
	if uri := c.keeperURI(); !strings.HasPrefix(uri, "/") && !strings.HasPrefix(uri, "http://") && !strings.HasPrefix(uri, "https://") {
		fault("keeperURI", "%q is neither an absolute path on the agents nor an http(s) URL", uri)
	}
	if c.GPUResource != "" && (!strings.Contains(c.GPUResource, "/") || len(validation.IsQualifiedName(c.GPUResource)) > 0) {
		fault("gpuResource", "%q is not the name of an extended resource, such as nvidia.com/gpu", c.GPUResource)
	}
	if !strings.HasPrefix(c.BundleDir, "/") {
		fault("bundleDir", "%q is not an absolute path", c.BundleDir)
	}
	// Asked this way round, for NaN compares with nothing.
	if cpus := c.ExecutorResources.CPUs; !(cpus >= 0.01) || math.IsInf(cpus, 0) {
		fault("executorCPUs", "%g: at least 0.01 is needed", cpus)
	}
	if mem := c.ExecutorResources.MemMB; !(mem >= 32) || math.IsInf(mem, 0) {
		fault("executorMem", "%g: at least 32 MB are needed", mem)
	}
	faults = append(faults, c.nameFaults()...)
	faults = append(faults, kube.CheckConfiguration("kubeSchedulerConfiguration", c.KubeScheduler, c.SchedulerNames)...)
	faults = append(faults, kube.CheckFeatureGates("featureGates", c.FeatureGates)...)
	faults = append(faults, c.Executors.check()...)
	return append(faults, c.Programs.check(c.Executors)...)
}

// MesosFaults are all that is wrong with MesosSettings.
func (c Config) MesosFaults() (faults []settings.Fault) {
	if err := c.MasterTLS.Check(); err != nil {
		faults = append(faults, settings.Faultf("masterCertFile", "%w", err))
	}
	if err := mesosconn.CheckMasters(c.Master, c.MasterTLS != mesosconn.TLS{}); err != nil {
		faults = append(faults, settings.Faultf("master", "%w", err))
	}
	if c.SecretFile != "" && c.Principal == "" {
		faults = append(faults, settings.Faultf("secretFile", "%s without a principal", c.SecretFile))
	}
	return faults
}

// Operator makes calls of the operator API for people, as the configured principal.
func (c Config) Operator() (*mesosconn.Operator, error) { return mesosconn.NewOperator(c.mesos()) }

func (c Config) roleFaults() (faults []settings.Fault) {
	if len(c.Roles) == 0 {
		faults = append(faults, settings.Faultf("roles", "it is empty; the role of everybody is *"))
	}
	for key, roles := range map[string][]string{"roles": c.Roles, "defaultRoles": c.DefaultRoles} {
		for i, role := range roles {
			place := fmt.Sprintf("%s[%d]", key, i)
			if wrong := procure.RoleFault(role); wrong != "" {
				faults = append(faults, settings.Faultf(place, "%q: %s", role, wrong))
			}
			if slices.Contains(roles[:i], role) {
				faults = append(faults, settings.Faultf(place, "%q is named twice", role))
			}
		}
	}
	for i, role := range c.DefaultRoles {
		if !slices.Contains(c.Roles, role) {
			faults = append(faults, settings.Faultf(fmt.Sprintf("defaultRoles[%d]", i), "%q is none of roles", role))
		}
	}
	return faults
}

// agentRules are AgentRules that can be read, and what is wrong with the others.
func (c Config) agentRules() (rules []constraints.Rule, faults []settings.Fault) {
	for i, text := range c.AgentRules {
		rule, err := constraints.Parse(text)
		if err != nil {
			faults = append(faults, settings.Faultf(fmt.Sprintf("agentRules[%d]", i), "%w", err))
			continue
		}
		rules = append(rules, rule)
	}
	return rules, faults
}

func (c Config) nameFaults() (faults []settings.Fault) {
	if len(c.SchedulerNames) == 0 {
		faults = append(faults, settings.Faultf("schedulerNames", "it is empty"))
	}
	for i, name := range c.SchedulerNames {
		place := fmt.Sprintf("schedulerNames[%d]", i)
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
			faults = append(faults, settings.Faultf(place, "%q: %s", name, strings.Join(wrong, "; ")))
		}
		if slices.Contains(c.SchedulerNames[:i], name) {
			faults = append(faults, settings.Faultf(place, "%q is named twice", name))
		}
	}
	return faults
}

func (c Config) keeperURI() string {
	if c.KeeperURI == "" {
		return path.Join(c.BundleDir, "mesopod-keeper")
	}
	return c.KeeperURI
}

// core is what the core has to know, with the bundle as Programs.open tells it.
func (c Config) core(programs procure.Bundle) core.Config {
	rules, _ := c.agentRules() // Check has found all of them good
	return core.Config{
		AgentRules:        rules,
		Bundle:            programs,
		ExecutorResources: c.ExecutorResources,
		KeeperURI:         c.keeperURI(),
		BundleDir:         c.BundleDir,
		GPUResource:       corev1.ResourceName(c.GPUResource),
		SchedulerNames:    c.SchedulerNames,
		Roles:             procure.RolePolicy{Framework: c.Roles, Default: c.DefaultRoles},
		User:              c.User,
	}
}

func (c Config) mesos() mesosconn.Config {
	rules, _ := c.agentRules() // as for core
	return mesosconn.Config{
		Master: c.Master, TLS: c.MasterTLS, SecretFile: c.SecretFile,
		Framework: mesosconn.Framework{
			User: c.User, Name: c.FrameworkName, Roles: c.Roles, AgentRules: rules, Principal: c.Principal,
			Hostname: c.Hostname, WebUIURL: c.webUIURL(), FailoverTimeout: c.FailoverTimeout, GPUs: c.GPUResource != "",
		},
	}
}

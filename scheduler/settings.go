package scheduler

import (
	"fmt"
	"os"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/settings"
	"github.com/mesopod/mesopod/messages"
)

// Document is what a configuration file of the scheduler calls itself.
var Document = settings.Identity{APIVersion: messages.ExecutorConfigAPIVersion, Kind: "SchedulerConfig"}

// Settings are all that can be set, each told once: names, help, and the field of c that holds it.
func (c *Config) Settings() []settings.Setting {
	list := append(c.MesosSettings(), []settings.Setting{
		{Key: "roles", Flag: "roles", Value: &c.Roles, Help: "Mesos roles to take offers in; namespaces and pods choose among them by annotation k8s.mesosphere.io/roles"},
		{Key: "defaultRoles", Flag: "default-roles", Value: &c.DefaultRoles, Help: "roles of namespaces that name none themselves, the best first (default the first of roles)"},
		{Key: "agentRules", Flag: "agent-rules", Value: &c.AgentRules, Help: "use only agents that meet all of these: NAME, !NAME, NAME=VALUE, NAME!=VALUE of an attribute, @hostname, @region or @zone"},
		{Key: "frameworkName", Flag: "framework-name", Value: &c.FrameworkName, Help: "the framework's name in Mesos"},
		{Key: "user", Flag: "user", Value: &c.User, Help: "user that executors run as on agents"},
		{Key: "failoverTimeout", Flag: "failover-timeout", Value: &c.FailoverTimeout, Help: "how long Mesos keeps the pods while no scheduler is there; at least 1m"},
		{Key: "forgetFramework", Flag: "forget-framework", Value: &c.ForgetFramework, Help: "id of a framework that Mesos has removed: if it is the stored one, start as a new framework"},
		{Key: "leaderElect", Flag: "leader-elect", Value: &c.LeaderElect, Help: "work only while holding Lease mesopod-system/mesopod-scheduler, so that several schedulers stand by for each other"},
		{Key: "hostname", Flag: "hostname", Value: &c.Hostname, Help: "host name that Mesos' pages show for the framework"},
		{Key: "webUIURL", Flag: "webui-url", Value: &c.WebUIURL, Help: "address that Mesos' pages link to (default the page's at statusAddress, unless that is on the loopback device)"},
		{Key: "statusAddress", Flag: "status-address", Value: &c.StatusAddress, Help: "host:port to serve pages, health and metrics at, read-only and without authentication; none: nowhere"},
		{Key: "keeperURI", Flag: "keeper-uri", Value: &c.KeeperURI, Help: "where agents fetch mesopod-keeper: an absolute path there, or an http(s) URL (default mesopod-keeper in bundleDir)"},
		{Key: "bundleDir", Flag: "bundle-dir", Value: &c.BundleDir, Help: "folder of mesopod's programs on the agents"},
		{Key: "schedulerNames", Flag: "scheduler-names", Value: &c.SchedulerNames, Help: "values of a pod's spec.schedulerName that are ours"},
		{Key: "kubeSchedulerConfiguration", Value: &c.KubeScheduler, Help: "fields of a KubeSchedulerConfiguration for the embedded kube-scheduler: profiles, one per scheduler name, extenders, and numbers"},
		{Key: "featureGates", Flag: "feature-gates", Value: &c.FeatureGates, Help: "feature gates of the embedded kube-scheduler, NAME=true or NAME=false each, such as GenericWorkload=true for gangs"},
		{Key: "preemption", Flag: "preemption", Value: &c.Preemption, Help: "evict pods of ours for pods of higher priority; what they free is offered to every framework"},
		{Key: "gpuResource", Flag: "gpu-resource", Value: &c.GPUResource, Help: "extended resource by which pods ask for Mesos' gpus, such as nvidia.com/gpu; empty: agents with gpus are left to others"},
		{Key: "taintNodes", Flag: "taint-nodes", Value: &c.TaintNodes, Help: "taint nodes k8s.mesosphere.io/mesos:NoSchedule, where another scheduler places pods too"},
		{Key: "profiling", Flag: "profiling", Value: &c.Profiling, Help: "serve Go's profiles below /debug/pprof at statusAddress, to everybody who reaches it"},
	}...)
	list = append(list, c.executorSettings()...)
	return append(list, c.Programs.settings()...)
}

// MesosSettings are those by which API server and Mesos are reached: the verbs for people have them too.
func (c *Config) MesosSettings() []settings.Setting {
	return []settings.Setting{
		{Key: "kubeconfig", Flag: "kubeconfig", Value: &c.Kubeconfig, Help: "kubeconfig file (default the service account of the pod it runs in)"},
		{Key: "master", Flag: "master", Value: &c.Master, Help: "Mesos masters as host:port or URL, separated by commas, or zk://[user:password@]host:port[,host:port...]/path"},
		{Key: "masterCAFile", Flag: "master-ca-file", Value: &c.MasterTLS.CAFile, Help: "file with the authorities of the masters' certificates; masters without a scheme are then reached by https (default the system's)"},
		{Key: "masterCertFile", Flag: "master-cert-file", Value: &c.MasterTLS.CertFile, Help: "file with the client certificate that is shown to masters"},
		{Key: "masterKeyFile", Flag: "master-key-file", Value: &c.MasterTLS.KeyFile, Help: "file with the key of that certificate"},
		{Key: "masterServerName", Flag: "master-server-name", Value: &c.MasterTLS.ServerName, Help: "name in the masters' certificates (default that of their address)"},
		{Key: "principal", Flag: "principal", Value: &c.Principal, Help: "principal in Mesos, of the framework or of the person"},
		{Key: "secretFile", Flag: "secret-file", Value: &c.SecretFile, Help: "file with the secret of the principal, for masters that authenticate"},
	}
}

// executorSettings are those about executors: their share of agents, and how they reach the scheduler.
func (c *Config) executorSettings() []settings.Setting {
	access := &c.Executors
	return []settings.Setting{
		{Key: "executorCPUs", Flag: "executor-cpus", Value: &c.ExecutorResources.CPUs, Help: "the executor's own share of each agent, in cpus"},
		{Key: "executorMem", Flag: "executor-mem", Value: &c.ExecutorResources.MemMB, Help: "the executor's own share of each agent, in MB of memory"},
		{Key: "executorListen", Flag: "executor-listen", Value: &access.Listen, Help: "host:port to serve executors at: certificates, configuration, programs (default: executors have files)"},
		{Key: "executorURL", Flag: "executor-url", Value: &access.URL, Help: "https://HOST:PORT at which executors reach executorListen (default that itself)"},
		{Key: "executorAPIServer", Flag: "executor-apiserver", Value: &access.APIServer, Help: "https://HOST:PORT at which executors reach the API server (default as the scheduler does)"},
		{Key: "executorConfig", Flag: "executor-config", Value: &access.ConfigFile, Help: "configuration file for all executors, served to them whenever it changes"},
		{Key: "executorCertificateLife", Flag: "executor-certificate-life", Value: &access.CertificateLife, Help: "life that is asked for executors' certificates; at least 10m"},
		{Key: "executorCertificateRenewal", Flag: "executor-certificate-renewal", Value: &access.RenewAfter, Help: "when executors renew them (default two thirds of their life)"},
	}
}

// settings are those about the bundle that agents run.
func (p *Programs) settings() []settings.Setting {
	return []settings.Setting{
		{Key: "bundle", Flag: "bundle", Value: &p.Archive, Help: "archive of `mesopod bundle` that agents run, served at executorListen (default: agents have bundleDir)"},
		{Key: "bundleSHA256", Flag: "bundle-sha256", Value: &p.SHA256, Help: "SHA-256 of that archive, in place of bundle, where bundleSources serve it"},
		{Key: "bundleSources", Flag: "bundle-sources", Value: &p.Sources, Help: "where agents get it, the best first: folders there, http(s) URLs of folders, and the word scheduler (default scheduler)"},
		{Key: "bundleCache", Flag: "bundle-cache", Value: &p.CacheDir, Help: "folder on agents for bundles, shared by all executors there"},
		{Key: "bundleTransfers", Flag: "bundle-transfers", Value: &p.Transfers, Help: "how many agents are served the bundle at once; others are told when to come back"},
	}
}

// ReadConfig lays a file over the defaults. It returns all that was wrong with it, and where each setting comes from; the
// values are not checked yet.
func ReadConfig(file string) (Config, *settings.Document, []settings.Fault, error) {
	c := DefaultConfig()
	text, err := os.ReadFile(file)
	if err != nil {
		return c, nil, nil, fmt.Errorf("%s: %w: %w", configuration, errdefs.ErrInvalid, err)
	}
	document, faults := settings.Read(file, text, Document, c.Settings())
	return c, document, faults, nil
}

// DefaultDocument is a configuration file with every setting, its help and its default. The master is missing in it.
func DefaultDocument() string {
	c := DefaultConfig()
	return settings.Write("Configuration of mesopod scheduler --config FILE. All fields but master are optional; these are the defaults.", Document, c.Settings())
}

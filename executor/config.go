package executor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// The identity of the configuration file's format.
const (
	APIVersion = "mesopod.io/v1alpha1"
	Kind       = "ExecutorConfig"
)

// Config is the operator's configuration of the executor on one agent. It is a YAML file; a field that is not known is
// an error. Times are written as "5m" or "20s".
type Config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Kubeconfig is the identity mesopod:executor:NODE: binds, patches, deletes and watches the node's pods. It goes
	// together with KubeletKubeconfig and ClientCAFile; without them the scheduler gives certificates.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// KubeletKubeconfig is the identity system:node:NODE.
	KubeletKubeconfig string `json:"kubeletKubeconfig,omitempty"`
	// ClientCAFile is the CA of those who may call the kubelet; what they may do the API server is asked.
	ClientCAFile string `json:"clientCAFile,omitempty"`
	// TLSCertFile and TLSPrivateKeyFile are what the kubelet answers with. Without them the scheduler gives a certificate,
	// or, where the kubeconfigs are files, the kubelet signs one for itself.
	TLSCertFile       string `json:"tlsCertFile,omitempty"`
	TLSPrivateKeyFile string `json:"tlsPrivateKeyFile,omitempty"`
	// BundleDir is where the programs and images lie.
	BundleDir string `json:"bundleDir"`
	// StateDir is a short path on the host, kept between executors of this agent.
	StateDir string `json:"stateDir"`
	// PodCIDR is the address range of this node's pods, Bridge the network device that they hang on.
	PodCIDR string `json:"podCIDR"`
	Bridge  string `json:"bridge"`
	// NodeIP is the node's address; empty means the agent's.
	NodeIP string `json:"nodeIP,omitempty"`
	// ExecutorResources is the executor's own share, the same as the scheduler asks for it.
	ExecutorResources Share `json:"executorResources"`
	// KubeletPort defaults to 10250.
	KubeletPort int `json:"kubeletPort,omitempty"`
	// LaunchGracePeriod bounds a launch, 5m by default, "0s" for no bound (EX-54, EX-56).
	LaunchGracePeriod metav1.Duration `json:"launchGracePeriod,omitempty"`
	// SuicideTimeout is the life of an idle executor, 20m by default, "0s" for ever (EX-91).
	SuicideTimeout metav1.Duration `json:"suicideTimeout,omitempty"`
	// ClusterDNS and ClusterDomain are for pods' name resolution.
	ClusterDNS    []string `json:"clusterDNS,omitempty"`
	ClusterDomain string   `json:"clusterDomain,omitempty"`
}

// Share is an amount of Mesos resources in the configuration file.
type Share struct {
	// CPUs in cores.
	CPUs float64 `json:"cpus"`
	// Mem in MiB.
	Mem float64 `json:"mem"`
}

// The defaults.
const (
	DefaultKubeletPort       = 10250
	DefaultLaunchGracePeriod = 5 * time.Minute
	DefaultSuicideTimeout    = 20 * time.Minute
	DefaultClusterDomain     = "cluster.local"
)

// Load reads the file and checks it. The error names all faults at once; each is errdefs.ErrInvalid, a file that cannot
// be read included.
func Load(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("executor configuration: %w: %w", errdefs.ErrInvalid, err)
	}
	config, err := parse(text)
	if err != nil {
		return Config{}, fmt.Errorf("executor configuration %s: %w", path, err)
	}
	return config, nil
}

func parse(text []byte) (Config, error) {
	config := Config{
		KubeletPort:       DefaultKubeletPort,
		LaunchGracePeriod: metav1.Duration{Duration: DefaultLaunchGracePeriod},
		SuicideTimeout:    metav1.Duration{Duration: DefaultSuicideTimeout},
		ClusterDomain:     DefaultClusterDomain,
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return Config{}, fmt.Errorf("%w: %w", errdefs.ErrInvalid, err)
	}
	if err := config.validate(); err != nil {
		return Config{}, err
	}
	return config, nil
}

func (c Config) validate() error {
	var faults []error
	fault := func(format string, arguments ...any) { faults = append(faults, fmt.Errorf(format, arguments...)) }
	if c.APIVersion != APIVersion || c.Kind != Kind {
		fault("apiVersion and kind must be %s and %s", APIVersion, Kind)
	}
	for _, path := range []struct {
		name, value string
		optional    bool
	}{
		{"kubeconfig", c.Kubeconfig, true}, {"kubeletKubeconfig", c.KubeletKubeconfig, true}, {"clientCAFile", c.ClientCAFile, true},
		{"tlsCertFile", c.TLSCertFile, true}, {"tlsPrivateKeyFile", c.TLSPrivateKeyFile, true},
		{"bundleDir", c.BundleDir, false}, {"stateDir", c.StateDir, false},
	} {
		if !filepath.IsAbs(path.value) && !(path.optional && path.value == "") {
			fault("%s must be an absolute path, not %q", path.name, path.value)
		}
	}
	if (c.Kubeconfig == "") != (c.KubeletKubeconfig == "") || c.Kubeconfig != "" && c.ClientCAFile == "" {
		fault("kubeconfig, kubeletKubeconfig and clientCAFile go together: name all of them, or none to have certificates from the scheduler")
	}
	if (c.TLSCertFile == "") != (c.TLSPrivateKeyFile == "") {
		fault("tlsCertFile and tlsPrivateKeyFile go together")
	}
	if _, _, err := net.ParseCIDR(c.PodCIDR); err != nil {
		fault("podCIDR: %w", err)
	}
	if c.Bridge == "" {
		fault("bridge is empty")
	}
	if c.NodeIP != "" && net.ParseIP(c.NodeIP) == nil {
		fault("nodeIP %q is not an address", c.NodeIP)
	}
	if c.ExecutorResources.CPUs <= 0 || c.ExecutorResources.Mem <= 0 {
		fault("executorResources must name cpus and mem as the scheduler's configuration does")
	}
	if c.KubeletPort < 1 || c.KubeletPort > 65535 {
		fault("kubeletPort %d is out of range", c.KubeletPort)
	}
	if c.LaunchGracePeriod.Duration < 0 || c.SuicideTimeout.Duration < 0 {
		fault("launchGracePeriod and suicideTimeout must not be negative")
	}
	for _, server := range c.ClusterDNS {
		if net.ParseIP(server) == nil {
			fault("clusterDNS %q is not an address", server)
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", errdefs.ErrInvalid, errors.Join(faults...))
	}
	return nil
}

func (s Share) resources() messages.Resources { return messages.Resources{CPUs: s.CPUs, MemMB: s.Mem} }

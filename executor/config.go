package executor

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// DefaultConfigFile is the agent's file unless the agent's environment names another. It may be missing.
const DefaultConfigFile = "/etc/mesopod/executor.yaml"

// Config is the configuration of the executor on one agent. It has three layers, each of which wins over those before:
// the defaults; the operator's document for all executors, which the scheduler serves; and what the agent says, by its
// environment and by a YAML file, in which a field that is not known is an error.
type Config struct {
	messages.ExecutorConfig `json:",inline"`

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
	// BundleDir is where the programs and images lie; empty means the folder of this program.
	BundleDir string `json:"bundleDir,omitempty"`
	// StateDir is a path on the host of 40 bytes at most, kept between executors of this agent; empty means one named after
	// the framework below DefaultStateParent.
	StateDir string `json:"stateDir,omitempty"`
	// PodCIDR is the address range of this node's pods; empty means that of the Node. Bridge is the network device that they
	// hang on; empty means one named after the framework, with DefaultBridge before it. Of two frameworks on one agent the second
	// has a folder and a device of its own, and the range of its Node, whatever the agent says.
	PodCIDR string `json:"podCIDR,omitempty"`
	Bridge  string `json:"bridge,omitempty"`
	// NodeIP is the node's address; empty means the agent's.
	NodeIP string `json:"nodeIP,omitempty"`
	// ExecutorResources is the executor's own share where the agent does not tell it.
	ExecutorResources Share `json:"executorResources,omitzero"`

	// file is the text of the agent's file, to put over another document.
	file []byte
}

// What an agent need not say.
const (
	DefaultStateParent = "/var/lib/mesopod"
	DefaultBridge      = "mpod"
)

// Share is an amount of Mesos resources in the configuration file.
type Share struct {
	// CPUs in cores.
	CPUs float64 `json:"cpus"`
	// Mem in MiB.
	Mem float64 `json:"mem"`
}

// Load reads the agent's file over the defaults. The error names all faults at once; each is errdefs.ErrInvalid, a file
// that cannot be read included, unless it is DefaultConfigFile and missing.
func Load(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil && !(path == DefaultConfigFile && os.IsNotExist(err)) {
		return Config{}, fmt.Errorf("executor configuration: %w: %w", errdefs.ErrInvalid, err)
	}
	config, err := layer(nil, text)
	if err != nil {
		return Config{}, fmt.Errorf("executor configuration %s: %w", path, err)
	}
	return config, nil
}

// over is the configuration with a document of the scheduler's below what the agent says, and what of the document is not
// known to this build: a scheduler that is newer may say more. The error is errdefs.ErrInvalid.
func (c Config) over(document []byte, env Env) (Config, []error, error) {
	base := messages.DefaultExecutorConfig()
	unknown, err := messages.UnmarshalConfig(document, &base)
	if err == nil {
		err = errors.Join(base.Check()...)
	}
	if err != nil {
		return Config{}, nil, fmt.Errorf("executor configuration of the scheduler: %w: %w", errdefs.ErrInvalid, err)
	}
	next, err := layer(&base, c.file)
	if err == nil {
		next, err = next.complete(env)
	}
	return next, unknown, err
}

// layer puts the agent's file over a document, or over the defaults.
func layer(document *messages.ExecutorConfig, file []byte) (Config, error) {
	config := Config{ExecutorConfig: messages.DefaultExecutorConfig(), file: file}
	if document != nil {
		config.ExecutorConfig = *document
	}
	if len(bytes.TrimSpace(file)) == 0 {
		config.APIVersion, config.Kind = messages.ExecutorConfigAPIVersion, messages.ExecutorConfigKind
		return config, nil
	}
	config.APIVersion, config.Kind = "", ""
	static := config.StaticPods
	config.StaticPods = nil
	unknown, err := messages.UnmarshalConfig(file, &config)
	faults := append([]error{err}, unknown...)
	if config.StaticPods != nil {
		faults = append(faults, errors.New("staticPods belong into the scheduler's document, by which Mesos hears what they take"))
	}
	config.StaticPods = static
	if err == nil {
		faults = append(faults, config.Check()...)
	}
	if err := errors.Join(faults...); err != nil {
		return Config{}, fmt.Errorf("%w: %w", errdefs.ErrInvalid, err)
	}
	return config, nil
}

// complete takes from the environment what the file leaves open, fills in the rest, and checks the whole.
func (c Config) complete(env Env) (Config, error) {
	executable, err := os.Executable()
	if err != nil {
		return Config{}, fmt.Errorf("find the bundle: %w", err)
	}
	// Two frameworks of one agent have two executors there.
	own := nickname(env.FrameworkID)
	c.BundleDir = cmp.Or(c.BundleDir, filepath.Dir(executable))
	c.StateDir = cmp.Or(c.StateDir, env.Agent.StateDir, filepath.Join(DefaultStateParent, own))
	c.PodCIDR = cmp.Or(c.PodCIDR, env.Agent.PodCIDR)
	c.Bridge = cmp.Or(c.Bridge, env.Agent.Bridge, DefaultBridge+"-"+own)
	if env.Second { // what the agent names is the first one's
		c.StateDir, c.Bridge, c.PodCIDR = beside(c.StateDir, env.FrameworkID), DefaultBridge+"-"+own, ""
	}
	c.NodeIP = cmp.Or(c.NodeIP, env.Agent.NodeIP, env.AgentAddress)
	return c, c.validate()
}

func (c Config) validate() error {
	var faults []error
	fault := func(format string, arguments ...any) { faults = append(faults, fmt.Errorf(format, arguments...)) }
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
	if _, _, err := net.ParseCIDR(c.PodCIDR); c.PodCIDR != "" && err != nil {
		fault("podCIDR: %w", err)
	}
	if net.ParseIP(c.NodeIP) == nil {
		fault("nodeIP %q is not an address", c.NodeIP)
	}
	if c.ExecutorResources.CPUs < 0 || c.ExecutorResources.Mem < 0 {
		fault("executorResources must not be negative")
	}
	if len(faults) > 0 {
		return fmt.Errorf("executor configuration: %w: %w", errdefs.ErrInvalid, errors.Join(faults...))
	}
	return nil
}

// share is the executor's own part of the agent: what the agent says that it started us with.
func (c Config) share(agent messages.Resources) messages.Resources {
	switch own := c.ExecutorResources.resources(); {
	case agent.MemMB > 0:
		return agent
	case own.MemMB > 0:
		return own
	}
	return messages.Resources{CPUs: 0.5, MemMB: 256}
}

func (s Share) resources() messages.Resources { return messages.Resources{CPUs: s.CPUs, MemMB: s.Mem} }

package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sys/unix"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/resolvconf"
	"github.com/mesopod/mesopod/messages"
)

// Config is what the kubelet needs to know. All fields without a remark must be set.
type Config struct {
	// Node is the name of the node: the agent's host name.
	Node string
	// NodeIP is the address the API server reaches this kubelet at; it also binds to it.
	NodeIP string
	// Port of the kubelet's HTTPS server.
	Port int
	// Kubeconfig is the file with the identity system:node:NODE.
	Kubeconfig string
	// ClientCAFile, TLSCertFile and TLSPrivateKeyFile are PEM files: who may call, and as whom we answer. Without the last
	// two the kubelet signs a certificate for itself.
	ClientCAFile, TLSCertFile, TLSPrivateKeyFile string
	// RootDir is the kubelet's state. It must be short: RootDir/pods-api/pods-api.sock has to fit into a socket address.
	RootDir string
	// PodLogsDir takes the containers' log files.
	PodLogsDir string
	// RuntimeSocket is the path of containerd's socket.
	RuntimeSocket string
	// CgroupRoot is the cgroup, as a path in each hierarchy, below which pods get theirs. It must exist in all of them.
	CgroupRoot string
	// CPUQuota lets pods have CPU quotas. It must be false where Mesos changes a quota of its own above them.
	CPUQuota bool
	// Capacity is the size of the node.
	Capacity messages.Capacity
	// ClusterDNS are the addresses of the cluster's name servers; may be empty.
	ClusterDNS []string
	// ClusterDomain is the cluster's DNS domain; may be empty.
	ClusterDomain string
	// Section are fields of a KubeletConfiguration, as JSON, that win over ours; may be empty.
	Section json.RawMessage
}

// maxSocketPath is the longest path that fits into a Unix socket address, with its ending zero byte.
const maxSocketPath = 107

func (c Config) validate() error {
	var faults []error
	need := func(name, value string) {
		if value == "" {
			faults = append(faults, fmt.Errorf("%s is empty", name))
		}
	}
	need("Node", c.Node)
	need("Kubeconfig", c.Kubeconfig)
	need("ClientCAFile", c.ClientCAFile)
	need("RootDir", c.RootDir)
	need("PodLogsDir", c.PodLogsDir)
	need("RuntimeSocket", c.RuntimeSocket)
	need("CgroupRoot", c.CgroupRoot)
	if ip := net.ParseIP(c.NodeIP); ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
		faults = append(faults, fmt.Errorf("node address %q must be an address that the API server can reach, and no loopback address", c.NodeIP))
	}
	if c.Port < 1 || c.Port > 65535 {
		faults = append(faults, fmt.Errorf("port %d is out of range", c.Port))
	}
	if socket := PodsSocket(c.RootDir); len(socket) > maxSocketPath {
		faults = append(faults, fmt.Errorf("socket path %s has %d bytes, %d at most: choose a shorter state folder", socket, len(socket), maxSocketPath))
	}
	if c.Capacity.Cores < 1 || c.Capacity.MilliCPU < 1 || c.Capacity.MemoryBytes < 1 {
		faults = append(faults, fmt.Errorf("node size of %d cores and %d bytes is too small", c.Capacity.Cores, c.Capacity.MemoryBytes))
	}
	if len(faults) > 0 {
		return fmt.Errorf("kubelet configuration: %w: %w", errdefs.ErrInvalid, errors.Join(faults...))
	}
	return nil
}

// PodsSocket is the path of the kubelet's PodsAPI socket below its root folder.
func PodsSocket(rootDir string) string {
	return filepath.Join(rootDir, "pods-api", "pods-api.sock")
}

func (c Config) flags() *options.KubeletFlags {
	flags := options.NewKubeletFlags()
	flags.RootDirectory = c.RootDir
	flags.CertDirectory = filepath.Join(c.RootDir, "pki")
	flags.HostnameOverride = c.Node
	flags.NodeIP = c.NodeIP
	flags.KubeConfig = c.Kubeconfig
	return flags
}

// configuration is the KubeletConfiguration, built here and not read from a file. What an operator may change of it comes
// in Section.
func (c Config) configuration() (*kubeletconfig.KubeletConfiguration, error) {
	k, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, fmt.Errorf("kubelet defaults: %w", err)
	}
	c.serving(k)
	c.cgroups(k)

	k.ContainerRuntimeEndpoint = "unix://" + c.RuntimeSocket
	k.PodLogsDir = c.PodLogsDir
	k.VolumePluginDir = filepath.Join(c.RootDir, "volume-plugins")
	k.ClusterDNS, k.ClusterDomain = c.ClusterDNS, c.ClusterDomain
	k.ResolverConfig = resolvconf.File()
	k.MaxPods = 110
	k.NodeStatusUpdateFrequency = metav1.Duration{Duration: 5 * time.Second}

	// Images come out of the bundle; there may be no registry to pull a collected one from again. 100 means off.
	k.ImageGCHighThresholdPercent, k.ImageGCLowThresholdPercent = 100, 99
	// No threshold for memory: the kubelet would apply it to the limit of all pods too, which is as low as what Mesos gave
	// them, and evict pods for being small. What is short of memory is the kernel's business.
	k.EvictionHard = map[string]string{
		"nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%",
	}
	k.EvictionPressureTransitionPeriod = metav1.Duration{Duration: 30 * time.Second}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Max < uint64(k.MaxOpenFiles) {
		k.MaxOpenFiles = int64(files.Max)
	}
	return overlay(k, c.Section)
}

func (c Config) serving(k *kubeletconfig.KubeletConfiguration) {
	k.Address, k.Port = c.NodeIP, int32(c.Port)
	k.ReadOnlyPort, k.HealthzPort = 0, 0
	k.Authentication.Anonymous.Enabled = false
	k.Authentication.X509.ClientCAFile = c.ClientCAFile
	k.Authentication.Webhook.Enabled = true
	k.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeWebhook
	k.TLSCertFile, k.TLSPrivateKeyFile = c.TLSCertFile, c.TLSPrivateKeyFile
	k.RegisterNode = true
}

func (c Config) cgroups(k *kubeletconfig.KubeletConfiguration) {
	k.FailCgroupV1 = false
	k.CgroupDriver = "cgroupfs"
	k.CgroupRoot = c.CgroupRoot
	k.CgroupsPerQOS = true
	k.EnforceNodeAllocatable = []string{"pods"}
	// The kubelet knows whole cores only; what is not ours of the last one it leaves alone.
	if spare := int64(c.Capacity.Cores)*1000 - c.Capacity.MilliCPU; spare > 0 {
		k.SystemReserved = map[string]string{"cpu": fmt.Sprintf("%dm", spare)}
	}
	// Swap of the machine is not ours to judge; pods do not get any.
	k.FailSwapOn = false
	k.CPUCFSQuota = c.CPUQuota
	k.MakeIPTablesUtilChains = false
	k.ProtectKernelDefaults = false
}

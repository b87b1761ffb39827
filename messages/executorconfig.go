package messages

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// ExecutorConfigPath is where the scheduler serves the ExecutorConfig, by GET and as it was written: YAML or JSON.
//
// An executor says with If-None-Match what it has, and with "Prefer: wait=SECONDS" (RFC 7240) how long it would wait for
// something else.
const ExecutorConfigPath = "/v1/executor-config"

// MaxExecutorConfigBytes bounds the document.
const MaxExecutorConfigBytes = 1 << 20

// The identity of the document's format.
const (
	ExecutorConfigAPIVersion = "mesopod.io/v1alpha1"
	ExecutorConfigKind       = "ExecutorConfig"
)

// ExecutorConfig is what an operator decides for all executors of a cluster. Times are written as "5m" or "20s".
//
// The scheduler, which serves it, refuses a field that it does not know. An executor of an earlier build passes over one,
// and goes on with the rest.
type ExecutorConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// KubeletPort defaults to 10250.
	KubeletPort int `json:"kubeletPort,omitempty"`
	// LaunchGracePeriod bounds a launch, 5m by default, "0s" for no bound (EX-54, EX-56).
	LaunchGracePeriod metav1.Duration `json:"launchGracePeriod,omitzero"`
	// SuicideTimeout is the life of an idle executor, 20m by default, "0s" for ever (EX-91).
	SuicideTimeout metav1.Duration `json:"suicideTimeout,omitzero"`
	// ClusterDNS and ClusterDomain are for pods' name resolution.
	ClusterDNS    []string `json:"clusterDNS,omitempty"`
	ClusterDomain string   `json:"clusterDomain,omitempty"`
	// ProxyMode is how Services are made to work: nftables, iptables, or none where somebody else does it. Empty takes
	// nftables where the program nft is, else iptables.
	ProxyMode string `json:"proxyMode,omitempty"`
	// StatusAddress is where the executor serves its page, health and metrics without authentication: address and port, by
	// default on the loopback device; "none" for nowhere.
	StatusAddress string `json:"statusAddress,omitempty"`
	// PodNetwork is how pods reach those of other nodes: routes, by default, where all nodes are on one network (layer 2);
	// vxlan, a tunnel, where they are not; none where the network knows the ranges of pods by itself.
	PodNetwork string `json:"podNetwork,omitempty"`
	// NonMasqueradeCIDRs are ranges beside those of pods to which pods go under their own addresses, not the node's.
	NonMasqueradeCIDRs []string `json:"nonMasqueradeCIDRs,omitempty"`
	// CNIConfDir is the folder of a network configuration of the operator's on each agent, in place of ours with all that
	// belongs to it. Its plugins are looked for in the bundle and in /opt/cni/bin.
	CNIConfDir string `json:"cniConfDir,omitempty"`
	// KubeletConfiguration are fields of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that are passed on to the
	// kubelet, but those in kubeletFields.
	KubeletConfiguration json.RawMessage `json:"kubeletConfiguration,omitempty"`
	// StaticPods are manifests of pods that the kubelet of every executor runs by itself; see Static. A manifest that is wrong
	// makes no fault of the document.
	StaticPods []json.RawMessage `json:"staticPods,omitempty"`
}

// DefaultExecutorConfig has what holds where a document is silent. It lacks apiVersion and kind, which each must name.
func DefaultExecutorConfig() ExecutorConfig {
	return ExecutorConfig{
		KubeletPort:       10250,
		LaunchGracePeriod: metav1.Duration{Duration: 5 * time.Minute},
		SuicideTimeout:    metav1.Duration{Duration: 20 * time.Minute},
		ClusterDomain:     "cluster.local",
		StatusAddress:     "127.0.0.1:10247",
		PodNetwork:        "routes",
	}
}

// kubeletFields are the fields of a KubeletConfiguration that mesopod sets itself, and why, or where to set them.
var kubeletFields = byField(map[string]string{
	"set kubeletPort, clusterDNS or clusterDomain of the document itself": "port clusterDNS clusterDomain",
	"the agent's address and the scheduler's certificates decide on it": "address enableServer readOnlyPort tlsCertFile tlsPrivateKeyFile rotateCertificates serverTLSBootstrap " +
		"authentication authorization healthzPort healthzBindAddress",
	"it belongs to the executor's own containerd, folders and log":    "containerRuntimeEndpoint imageServiceEndpoint podLogsDir volumePluginDir podCIDR logging",
	"pods come from Mesos and from staticPods of the document itself": "staticPodPath staticPodURL staticPodURLHeader runOnce",
	"the scheduler makes the Node and counts what is free on it": "registerNode registerWithTaints providerID maxPods podsPerCore systemReserved kubeReserved " +
		"systemReservedCgroup kubeReservedCgroup reservedSystemCPUs reservedMemory qosReserved enforceNodeAllocatable",
	"the container that Mesos made decides on it": "cgroupRoot cgroupsPerQOS cgroupDriver kubeletCgroups systemCgroups cpuCFSQuota failCgroupV1 failSwapOn memorySwap",
	"CPUs and memory are Mesos' to divide": "cpuManagerPolicy cpuManagerPolicyOptions cpuManagerReconcilePeriod memoryManagerPolicy topologyManagerPolicy " +
		"topologyManagerScope topologyManagerPolicyOptions",
	"it changes the machine, which is not ours": "makeIPTablesUtilChains protectKernelDefaults shutdownGracePeriod shutdownGracePeriodCriticalPods shutdownGracePeriodByPodPriority",
})

// byField turns reasons for lists of fields around.
func byField(reasons map[string]string) map[string]string {
	fields := map[string]string{}
	for why, list := range reasons {
		for field := range strings.FieldsSeq(list) {
			fields[field] = why
		}
	}
	return fields
}

// ParseExecutorConfig reads a document strictly. The error names all faults with the places where they are; it is
// errdefs.ErrInvalid.
func ParseExecutorConfig(text []byte) (ExecutorConfig, error) {
	c := DefaultExecutorConfig()
	unknown, err := UnmarshalConfig(text, &c)
	faults := append([]error{err}, unknown...)
	if err == nil {
		faults = append(faults, c.Check()...)
	}
	if err := errors.Join(faults...); err != nil {
		return ExecutorConfig{}, fmt.Errorf("executor configuration: %w: %w", errdefs.ErrInvalid, err)
	}
	return c, nil
}

// UnmarshalConfig reads YAML or JSON over what is in into. unknown are the fields that into does not have, and those that
// are named twice, each with its place; whether they are faults the caller decides.
func UnmarshalConfig(text []byte, into any) (unknown []error, err error) {
	if len(text) > MaxExecutorConfigBytes {
		return nil, fmt.Errorf("it has %d bytes, %d at most", len(text), MaxExecutorConfigBytes)
	}
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	return strictjson.UnmarshalStrict(data, into)
}

// Check tells all faults.
func (c ExecutorConfig) Check() (faults []error) {
	fault := func(format string, arguments ...any) { faults = append(faults, fmt.Errorf(format, arguments...)) }
	if c.APIVersion != ExecutorConfigAPIVersion || c.Kind != ExecutorConfigKind {
		fault("apiVersion and kind must be %s and %s, not %q and %q", ExecutorConfigAPIVersion, ExecutorConfigKind, c.APIVersion, c.Kind)
	}
	if c.KubeletPort < 1 || c.KubeletPort > 65535 {
		fault("kubeletPort %d is out of range", c.KubeletPort)
	}
	if c.LaunchGracePeriod.Duration < 0 || c.SuicideTimeout.Duration < 0 {
		fault("launchGracePeriod and suicideTimeout must not be negative")
	}
	for i, server := range c.ClusterDNS {
		if _, err := netip.ParseAddr(server); err != nil {
			fault("clusterDNS[%d] %q is not an address", i, server)
		}
	}
	if !slices.Contains([]string{"", "nftables", "iptables", "none"}, c.ProxyMode) {
		fault("proxyMode %q: want nftables, iptables or none", c.ProxyMode)
	}
	if c.StatusAddress != "none" {
		if address, err := netip.ParseAddrPort(c.StatusAddress); err != nil || address.Port() == 0 {
			fault("statusAddress %q: want an address and a port, such as 127.0.0.1:10247, or none", c.StatusAddress)
		}
	}
	if !slices.Contains([]string{"routes", "vxlan", "none"}, c.PodNetwork) {
		fault("podNetwork %q: want routes, vxlan or none", c.PodNetwork)
	}
	for i, one := range c.NonMasqueradeCIDRs {
		if _, err := netip.ParsePrefix(one); err != nil {
			fault("nonMasqueradeCIDRs[%d] %q is no range of addresses", i, one)
		}
	}
	if c.CNIConfDir != "" && !path.IsAbs(c.CNIConfDir) {
		fault("cniConfDir %q is not absolute", c.CNIConfDir)
	}
	return append(faults, checkKubeletFields(c.KubeletConfiguration)...)
}

// checkKubeletFields makes sure that the section leaves alone what is ours. The types of its fields are not looked at.
func checkKubeletFields(section json.RawMessage) (faults []error) {
	if len(section) == 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(section, &fields); err != nil {
		return []error{errors.New("kubeletConfiguration is no object")}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if why := kubeletFields[name]; why != "" {
			faults = append(faults, fmt.Errorf("kubeletConfiguration.%s is not to be set: %s", name, why))
		}
	}
	const memory = "memory.available"
	for _, name := range []string{"evictionHard", "evictionSoft"} {
		var thresholds map[string]json.RawMessage
		if json.Unmarshal(fields[name], &thresholds) == nil && thresholds[memory] != nil {
			faults = append(faults, fmt.Errorf("kubeletConfiguration.%s.%s is not to be set: the kubelet would take the limit of all pods, which follows what Mesos gave them, for the machine's", name, memory))
		}
	}
	return faults
}

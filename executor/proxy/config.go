package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeproxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	"k8s.io/utils/ptr"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Mode is how Services are made to work.
type Mode string

// The modes.
const (
	// ModeAuto takes nftables where the program nft is, else iptables.
	ModeAuto     Mode = ""
	ModeNFTables Mode = "nftables"
	ModeIPTables Mode = "iptables"
	// ModeNone leaves Services to somebody else, such as a kube-proxy of the operator's.
	ModeNone Mode = "none"
)

// HealthPort is where HTTP GET /healthz on the node's address tells whether the rules are up to date, as load balancers
// ask any kube-proxy.
const HealthPort = 10256

const (
	// masqueradeBit is the bit of packets' marks that asks for the node's address as sender; every kube-proxy uses it.
	masqueradeBit = 14
	// retrySync is the pause after a failed write of the rules; lateSync is how old a change may be before we are unhealthy.
	retrySync = 30 * time.Second
	lateSync  = 2 * retrySync
	// spaceSync is the least time between two writes of the rules. The first change after a pause does not wait.
	spaceSync = time.Second
)

// Config says for which node the rules are.
type Config struct {
	// Mode is how; ModeNone is an error here, since then there is nothing to run.
	Mode Mode
	// Node is the node's name.
	Node string
	// NodeIP is the address at which node ports answer; its family is that of the Services served.
	NodeIP string
	// PodCIDR is the range of this node's pods: to Services they go under their own addresses, all others as the node. If it
	// is empty, all keep theirs.
	PodCIDR string
	// HealthPort is the port of /healthz on NodeIP, most often HealthPort.
	HealthPort int
	// Mark is a file that is there while rules of ours may be, for an executor after us that is to keep none.
	Mark string
}

// lookPath finds a program; tests replace it.
type lookPath func(string) (string, error)

// Choose is the mode that the machine can do. Its error names the package that is missing.
func Choose(mode Mode) (Mode, error) { return choose(mode, exec.LookPath) }

func choose(mode Mode, look lookPath) (Mode, error) {
	has := func(program string) bool { _, err := look(program); return err == nil }
	switch mode {
	case ModeNone:
		return ModeNone, nil
	case ModeAuto:
		switch {
		case has("nft"):
			return ModeNFTables, nil
		case has("iptables"):
			return ModeIPTables, nil
		}
		return "", fmt.Errorf("Services need the program nft (package nftables, 1.0.1 or newer) or iptables: install one, or set proxyMode: none: %w", errdefs.ErrNotFound)
	case ModeNFTables:
		if !has("nft") {
			return "", fmt.Errorf("proxyMode nftables needs the program nft (package nftables, 1.0.1 or newer): %w", errdefs.ErrNotFound)
		}
		return mode, nil
	case ModeIPTables:
		if !has("iptables") {
			return "", fmt.Errorf("proxyMode iptables needs the program iptables (package iptables): %w", errdefs.ErrNotFound)
		}
		return mode, nil
	}
	return "", fmt.Errorf("proxyMode %q: want nftables, iptables or none: %w", mode, errdefs.ErrInvalid)
}

func (c Config) validate() error {
	var faults []error
	if c.Mode != ModeNFTables && c.Mode != ModeIPTables {
		faults = append(faults, fmt.Errorf("mode %q: want nftables or iptables", c.Mode))
	}
	if c.Node == "" {
		faults = append(faults, errors.New("name of the node is not set"))
	}
	if _, err := netip.ParseAddr(c.NodeIP); err != nil {
		faults = append(faults, fmt.Errorf("node address: %w", err))
	}
	if _, err := netip.ParsePrefix(c.PodCIDR); c.PodCIDR != "" && err != nil {
		faults = append(faults, fmt.Errorf("pod range: %w", err))
	}
	if !filepath.IsAbs(c.Mark) {
		faults = append(faults, fmt.Errorf("mark %q is no absolute path", c.Mark))
	}
	if c.HealthPort < 1 || c.HealthPort > 65535 {
		faults = append(faults, fmt.Errorf("health port %d is out of range", c.HealthPort))
	}
	if len(faults) > 0 {
		return fmt.Errorf("service proxy: %w: %w", errdefs.ErrInvalid, errors.Join(faults...))
	}
	return nil
}

// upstream is kube-proxy's configuration, as far as the parts that we use read it.
func (c Config) upstream() *kubeproxyconfig.KubeProxyConfiguration {
	host := netip.MustParseAddr(c.NodeIP)
	k := &kubeproxyconfig.KubeProxyConfiguration{
		Mode:              kubeproxyconfig.ProxyMode(c.Mode),
		HostnameOverride:  c.Node,
		NodePortAddresses: []string{netip.PrefixFrom(host, host.BitLen()).String()},
		SyncPeriod:        metav1.Duration{Duration: retrySync},
		MinSyncPeriod:     metav1.Duration{Duration: spaceSync},
	}
	k.NFTables.MasqueradeBit = ptr.To[int32](masqueradeBit)
	k.IPTables.MasqueradeBit = ptr.To[int32](masqueradeBit)
	// Node ports on 127.0.0.1 would need a sysctl that weakens the whole machine.
	k.IPTables.LocalhostNodePorts = ptr.To(false)
	return k
}

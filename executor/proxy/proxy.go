package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/golang/glog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	utilsysctl "k8s.io/component-helpers/node/util/sysctl"
	upstream "k8s.io/kubernetes/pkg/proxy"
	kubeproxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	"k8s.io/kubernetes/pkg/proxy/iptables"
	proxymetrics "k8s.io/kubernetes/pkg/proxy/metrics"
	"k8s.io/kubernetes/pkg/proxy/nftables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	utiliptables "k8s.io/kubernetes/pkg/util/iptables"

	"github.com/mesopod/mesopod/executor/network"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// Proxy keeps the rules of one node.
type Proxy struct {
	config Config
	client kubernetes.Interface
	node   nodeCache
}

const (
	// lockName is what the one executor that keeps the rules of a network namespace holds.
	lockName = "mesopod-proxy"
	// retryStart is the pause after a failed start.
	retryStart = 15 * time.Second
	// cleanLimit bounds the removal of the rules.
	cleanLimit = 5 * time.Second
)

// started guards against a second one: its metrics belong to the process.
var started atomic.Bool

// New checks the configuration. Nothing starts. The client must be allowed to watch services, endpointslices,
// servicecidrs and the node.
func New(config Config, client kubernetes.Interface) (*Proxy, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Proxy{config: config, client: client}, nil
}

// Run keeps the rules until ctx ends, then removes them. What keeps it from starting is logged and tried again: a node
// without Services is worth more than none, and it heals without a restart.
func (p *Proxy) Run(ctx context.Context) error {
	if !started.CompareAndSwap(false, true) {
		return fmt.Errorf("a service proxy was started in this process before: %w", errdefs.ErrConflict)
	}
	lock, err := network.Lock(ctx, lockName, func() {})
	if err != nil || lock == nil {
		return err // nil when ctx ended
	}
	defer func() { _ = lock.Close() }() // it goes with the process at the latest
	for ctx.Err() == nil {
		if err := p.live(ctx); err != nil {
			glog.Errorf("retry service proxy pause=%v err=%v", retryStart, err)
		}
		timer := time.NewTimer(retryStart)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	p.clean(ctx)
	return nil
}

// live runs kube-proxy's parts until ctx ends. An error means that they did not start.
func (p *Proxy) live(ctx context.Context) error {
	if err := p.checkPort(); err != nil {
		return err
	}
	if err := os.WriteFile(p.config.Mark, nil, 0o600); err != nil {
		return fmt.Errorf("service proxy: %w", err)
	}
	health := healthcheck.NewProxyHealthServer(p.healthAddress(), lateSync, &p.node)
	recording := events.NewBroadcaster(&events.EventSinkImpl{Interface: p.client.EventsV1()})
	defer recording.Shutdown()
	provider, err := p.provider(ctx, recording.NewRecorder(scheme.Scheme, "mesopod-executor"), health)
	if err != nil {
		return fmt.Errorf("service proxy in mode %s: %w", p.config.Mode, err)
	}
	glog.Infof("start service proxy mode=%s node=%s address=%s", p.config.Mode, p.config.Node, p.config.NodeIP)
	proxymetrics.RegisterMetrics(kubeproxyconfig.ProxyMode(p.config.Mode))
	go func() {
		if err := health.Run(ctx); err != nil && ctx.Err() == nil {
			glog.Warningf("end health of service proxy err=%v", err)
		}
	}()
	go provider.SyncLoop() // ends with the process: see the package comment
	p.watch(ctx, provider)
	return nil
}

// checkPort finds a kube-proxy of somebody else: every one serves its health at this port.
func (p *Proxy) checkPort() error {
	listener, err := net.Listen("tcp", p.healthAddress())
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %s is taken: where a kube-proxy runs already set proxyMode: none: %w", p.healthAddress(), errdefs.ErrConflict)
	}
	if err != nil {
		return fmt.Errorf("health of service proxy: %w", err)
	}
	return listener.Close()
}

func (p *Proxy) healthAddress() string {
	return net.JoinHostPort(p.config.NodeIP, strconv.Itoa(p.config.HealthPort))
}

// provider makes what writes the rules.
func (p *Proxy) provider(ctx context.Context, recorder events.EventRecorder, health *healthcheck.ProxyHealthServer) (upstream.Provider, error) {
	family := corev1.IPv4Protocol
	address := netip.MustParseAddr(p.config.NodeIP)
	if address.Is6() {
		family = corev1.IPv6Protocol
	}
	local := proxyutil.NewNoOpLocalDetector()
	if p.config.PodCIDR != "" {
		local = proxyutil.NewDetectLocalByCIDR(p.config.PodCIDR)
	}
	// Rules of an executor that had another mode would hide ours.
	if p.config.Mode == ModeIPTables {
		nftables.CleanupLeftovers(ctx)
		return iptables.NewProxier(ctx, p.config.upstream(), family, utiliptables.NewBestEffort()[family], utilsysctl.New(), local,
			p.config.Node, net.IP(address.AsSlice()), recorder, health, false)
	}
	iptables.CleanupLeftovers(ctx)
	return nftables.NewProxier(ctx, p.config.upstream(), family, local, p.config.Node, net.IP(address.AsSlice()), recorder, health, false)
}

// clean removes all rules.
func (p *Proxy) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	failed := nftables.CleanupLeftovers
	if p.config.Mode == ModeIPTables {
		failed = iptables.CleanupLeftovers
	}
	if failed(ctx) {
		glog.Warningf("leave service rules reason=%q", "they could not all be removed, see above")
		return
	}
	if err := os.Remove(p.config.Mark); err != nil && !errors.Is(err, os.ErrNotExist) {
		glog.Warningf("leave mark of service rules err=%v", err)
	}
	glog.Infof("removed service rules mode=%s", p.config.Mode)
}

// RemoveLeftovers removes the rules that an executor before us has left, as Config.Mark tells, where nobody keeps them now:
// neither another executor nor a kube-proxy of the operator's, whose rules have the same names. It is for mode none; other modes
// take them over.
func RemoveLeftovers(ctx context.Context, config Config) error {
	if _, err := os.Stat(config.Mark); err != nil {
		return nil // nothing of ours
	}
	lock, err := network.TryLock(ctx, lockName)
	if err != nil || lock == nil {
		return err
	}
	defer func() { _ = lock.Close() }() // it goes with the process at the latest
	p := &Proxy{config: config}
	if err := p.checkPort(); err != nil {
		if errors.Is(err, errdefs.ErrConflict) {
			return os.Remove(config.Mark)
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cleanLimit)
	defer cancel()
	failedNFT, failedIPTables := nftables.CleanupLeftovers(ctx), iptables.CleanupLeftovers(ctx)
	if failedNFT || failedIPTables {
		return errors.New("rules for Services could not all be removed, see above")
	}
	glog.Infof("removed service rules reason=%q", "proxyMode is none")
	return os.Remove(config.Mark)
}

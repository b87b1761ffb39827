package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang/glog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mesopod/mesopod/executor/network/plan"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// Config says where the node is.
type Config struct {
	Mode plan.Mode
	// Node is the node's name, NodeIP its address, PodCIDR the range of its pods.
	Node, NodeIP, PodCIDR string
	// Masquerade gives packets of pods that leave the ranges of pods the node's address. It needs the program nft.
	Masquerade bool
	// KeepAddress are further ranges to which pods go under their own addresses.
	KeepAddress []string
}

// Network keeps the ways of one node.
type Network struct {
	config plan.Config
	nat    *nat // nil without masquerading
	device *device
	client kubernetes.Interface

	readyOnce sync.Once
	ready     chan struct{}
}

const (
	// lockName is what the one executor that keeps the ways in a network namespace holds.
	lockName = "mesopod-network"
	// settle is how long changes of nodes are gathered; again is the pace at which what others may have changed is mended.
	settle = 100 * time.Millisecond
	again  = 30 * time.Second
)

// New checks the configuration and looks for the link that has the node's address. Nothing is changed. The client must be
// allowed to watch nodes.
func New(config Config, client kubernetes.Interface) (*Network, error) {
	own := plan.Node{Name: config.Node}
	var errs []error
	var err error
	if own.Address, err = netip.ParseAddr(config.NodeIP); err != nil {
		errs = append(errs, fmt.Errorf("node address: %w", err))
	}
	if own.Pods, err = netip.ParsePrefix(config.PodCIDR); err != nil {
		errs = append(errs, fmt.Errorf("pod range: %w", err))
	}
	if !slices.Contains([]plan.Mode{plan.Routes, plan.VXLAN, plan.None}, config.Mode) {
		errs = append(errs, fmt.Errorf("podNetwork %q: want routes, vxlan or none", config.Mode))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("pod network: %w: %w", errdefs.ErrInvalid, err)
	}
	link, err := findLink(own.Address)
	if err != nil {
		return nil, fmt.Errorf("pod network: %w", err)
	}
	n := &Network{config: plan.Config{Mode: config.Mode, Own: own, Link: link.network}, client: client, ready: make(chan struct{})}
	n.device = &device{link: link, own: own, tunnel: config.Mode == plan.VXLAN}
	if config.Masquerade {
		n.nat = &nat{table: natTable, own: own.Pods.Masked(), keep: config.KeepAddress}
	}
	return n, nil
}

// MTU is the largest packet that pods may send.
func (n *Network) MTU() int { return n.device.mtu() }

// Ready is closed when pods may start: what does not depend on other nodes is in place, or another executor of this network
// namespace keeps it.
func (n *Network) Ready() <-chan struct{} { return n.ready }

func (n *Network) start() { n.readyOnce.Do(func() { close(n.ready) }) }

// Run keeps the ways until ctx ends, then removes them.
func (n *Network) Run(ctx context.Context) error {
	alone := n.alone()
	lock, err := Lock(ctx, lockName, func() {
		alone.stand(ctx)
		n.start()
	})
	if err != nil || lock == nil {
		alone.giveUp(ctx)
		return err
	}
	defer func() { _ = lock.Close() }() // it goes with the process at the latest
	informer, factory := n.nodes()
	changed := make(chan struct{}, 1)
	registration, err := informer.AddEventHandler(onChange(changed))
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	// Ways that a killed executor has left stay until all nodes are known.
	if err := n.prepare(ctx); err != nil {
		return fmt.Errorf("pod network: %w", err)
	}
	alone.giveUp(ctx) // or those of one that was killed
	n.start()
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		n.follow(ctx, informer, changed)
	}
	n.remove(ctx)
	return nil
}

// alone is what does for our pods, while another executor has the ways, as that does for its own: they leave their range under
// the node's address. It is nil without masquerading.
func (n *Network) alone() *nat {
	if n.nat == nil {
		return nil
	}
	name := strings.NewReplacer(".", "_", ":", "_", "/", "_").Replace(n.nat.own.String())
	return &nat{table: natTable + "_" + name, own: n.nat.own, keep: n.nat.keep}
}

// stand makes the rules for our range alone.
func (n *nat) stand(ctx context.Context) {
	if n == nil {
		return
	}
	if err := n.apply(ctx, []netip.Prefix{n.own}); err != nil {
		glog.Warningf("pods reach no address outside table=%s err=%v", n.table, err)
	}
}

// giveUp removes the rules, if there are any.
func (n *nat) giveUp(ctx context.Context) {
	if n == nil {
		return
	}
	if err := n.remove(context.WithoutCancel(ctx)); err != nil {
		glog.Warningf("leave masquerading table=%s err=%v", n.table, err)
	}
}

// follow makes the kernel agree with the nodes until ctx ends.
func (n *Network) follow(ctx context.Context, informer cache.SharedIndexInformer, changed <-chan struct{}) {
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	told := ""
	for ctx.Err() == nil {
		now := plan.Decide(n.config, nodesOf(informer.GetStore().List()))
		if err := n.apply(ctx, now); err != nil && ctx.Err() == nil {
			now.Faults = append(now.Faults, err.Error())
		}
		// Said once: the next look most often finds the same.
		if text := fmt.Sprint(now.Faults); text != told && len(now.Faults) > 0 {
			glog.Warningf("leave pods unreachable reason=%q", now.Faults)
			told = text
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-changed:
			select { // several nodes often change together
			case <-time.After(settle):
			case <-ctx.Done():
				return
			}
		}
	}
}

// nodes are all of the cluster's, without what nobody reads here.
func (n *Network) nodes() (cache.SharedIndexInformer, informers.SharedInformerFactory) {
	factory := informers.NewSharedInformerFactoryWithOptions(n.client, 0, informers.WithTransform(func(object any) (any, error) {
		node, ok := object.(*corev1.Node)
		if !ok {
			return object, nil
		}
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
			Spec:       corev1.NodeSpec{PodCIDR: node.Spec.PodCIDR}, Status: corev1.NodeStatus{Addresses: node.Status.Addresses},
		}, nil
	}))
	return factory.Core().V1().Nodes().Informer(), factory
}

// onChange wakes who listens. Nodes change every few seconds, as their status does; what counts changes seldom.
func onChange(changed chan<- struct{}) cache.ResourceEventHandler {
	wake := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake() },
		DeleteFunc: func(any) { wake() },
		UpdateFunc: func(before, after any) {
			if !slices.Equal(nodesOf([]any{before}), nodesOf([]any{after})) {
				wake()
			}
		},
	}
}

// nodesOf is what the plan needs of Node objects.
func nodesOf(objects []any) []plan.Node {
	var nodes []plan.Node
	for _, object := range objects {
		node, ok := object.(*corev1.Node)
		if !ok {
			continue
		}
		one := plan.Node{Name: node.Name}
		// What cannot be read stays the zero value, which the plan passes over.
		one.Pods, _ = netip.ParsePrefix(node.Spec.PodCIDR)
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP && !one.Address.IsValid() {
				one.Address, _ = netip.ParseAddr(address.Address)
			}
		}
		nodes = append(nodes, one)
	}
	return nodes
}

// prepare puts in place what pods of this node need for themselves.
func (n *Network) prepare(ctx context.Context) error {
	if err := n.device.prepare(); err != nil {
		return err
	}
	if n.nat != nil {
		return n.nat.prepare(ctx)
	}
	return nil
}

func (n *Network) apply(ctx context.Context, p plan.Plan) error {
	err := n.device.apply(p)
	if n.nat != nil {
		err = errors.Join(err, n.nat.apply(ctx, p.Pods))
	}
	return err
}

// remove ends it all. It only logs what it cannot do.
func (n *Network) remove(ctx context.Context) {
	err := n.device.remove()
	if n.nat != nil {
		err = errors.Join(err, n.nat.remove(context.WithoutCancel(ctx)))
	}
	if err != nil {
		glog.Warningf("leave pod network err=%v", err)
		return
	}
	glog.Infof("removed pod network mode=%s", n.config.Mode)
}

// RemoveLeftovers removes what an executor with another configuration has left in this network namespace, unless an
// executor keeps it: routes, tunnel, masquerading. Pods that still use it lose their way.
func RemoveLeftovers(ctx context.Context) error {
	lock, err := TryLock(ctx, lockName)
	if err != nil || lock == nil {
		return err
	}
	defer func() { _ = lock.Close() }() // it goes with the process at the latest
	err = (&device{}).remove()
	if CanMasquerade() {
		for _, family := range []string{"ip", "ip6"} {
			err = errors.Join(err, removeNAT(ctx, family, natTable))
		}
	}
	return err
}

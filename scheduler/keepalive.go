package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/golang/glog"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// The kubelet's own figures.
const (
	leasePeriod     = 10 * time.Second
	leaseDuration   = 40 * time.Second
	conditionPeriod = 5 * time.Minute
)

// Many nodes without executor are renewed less often, or one scheduler would write as much as all their kubelets together: the period
// grows from leasePeriod to mostPeriod with leasesPerSecond writes a second. The node controller takes a node for dead 40 s or more after its
// last lease (--node-monitor-grace-period), so that a write may fail even then.
const (
	mostPeriod      = 18 * time.Second
	leasesPerSecond = 20
	// nodesPerWorker is how many nodes one worker renews: a new scheduler has to come by at all of them in time.
	nodesPerWorker = 2500
)

// periodOf is how often the leases of so many nodes are renewed.
func periodOf(nodes int) time.Duration {
	return min(max(leasePeriod, time.Duration(nodes)*time.Second/leasesPerSecond), mostPeriod)
}

// keeper renews Lease and conditions of the nodes whose executor does not run, in place of their kubelet.
type keeper struct {
	client kubernetes.Interface
	// seen returns a node as last seen, or nil.
	seen   func(name string) *corev1.Node
	signal chan struct{} // buffer 1: a node was added
	// perWorker is how many nodes a round has a worker for.
	perWorker int

	mu    sync.Mutex
	nodes map[string]*beat
}

// beat is what is known of one node that is kept alive. Its fields belong to the worker of a round that has it.
type beat struct {
	lease *coordinationv1.Lease // as last written; nil: not known
	// leaseAt and conditionAt are the times of the last good writes.
	leaseAt, conditionAt time.Time
}

func newKeeper(client kubernetes.Interface, seen func(string) *corev1.Node) *keeper {
	return &keeper{client: client, seen: seen, signal: make(chan struct{}, 1), perWorker: nodesPerWorker, nodes: map[string]*beat{}}
}

// set turns the beats of a node on or off. A node that is off is left as it is: its kubelet takes over.
func (k *keeper) set(node string, on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !on {
		delete(k.nodes, node)
		return
	}
	if k.nodes[node] == nil {
		k.nodes[node] = &beat{}
	}
	select {
	case k.signal <- struct{}{}:
	default: // one is pending
	}
}

// is tells whether a node has still the same beats.
func (k *keeper) is(node string, b *beat) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nodes[node] == b
}

// run beats every 10 s, or somewhat later for many nodes, and at once for new ones.
func (k *keeper) run(ctx context.Context) error {
	ticker := time.NewTicker(leasePeriod)
	defer ticker.Stop()
	for period := leasePeriod; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-k.signal:
		}
		if now := k.round(ctx); now != period {
			period = now
			ticker.Reset(period)
		}
	}
}

// round does what is due for all nodes, and returns the time to the next one.
func (k *keeper) round(ctx context.Context) (period time.Duration) {
	k.mu.Lock()
	nodes := maps.Clone(k.nodes)
	k.mu.Unlock()
	period = periodOf(len(nodes))
	var workers errgroup.Group
	workers.SetLimit(1 + len(nodes)/k.perWorker)
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		b := nodes[name]
		workers.Go(func() error {
			if ctx.Err() != nil || !k.is(name, b) {
				return nil
			}
			if err := k.keep(ctx, name, b, period); err != nil && ctx.Err() == nil {
				// The next round tries again; the node controller waits for more than one.
				glog.Warningf("fail keep-alive node=%s reason=%q", name, err)
			}
			return nil
		})
	}
	_ = workers.Wait() // they give no errors
	return period
}

// keep does what is due for one node.
func (k *keeper) keep(ctx context.Context, name string, b *beat, period time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, leasePeriod/2)
	defer cancel()
	now := time.Now()
	// A round that a new node asked for does not hurry the others.
	if now.Sub(b.leaseAt) > period*3/4 {
		if err := k.renew(ctx, name, b, now); err != nil {
			b.lease = nil
			return withKind(err, "renew lease of node "+name)
		}
		b.leaseAt = now
	}
	node := k.seen(name)
	differs := node != nil && !keptByUs(node) && now.Sub(b.conditionAt) > leasePeriod/2
	if now.Sub(b.conditionAt) < conditionPeriod && !differs {
		return nil
	}
	if err := k.tell(ctx, name, now); err != nil {
		return err
	}
	b.conditionAt = now
	return nil
}

func keptByUs(node *corev1.Node) bool {
	ready := condition(node, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue && ready.Reason == reasonExecutorNotRunning
}

// renew writes the lease as the node's kubelet would.
func (k *keeper) renew(ctx context.Context, name string, b *beat, now time.Time) error {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease := b.lease
	if lease == nil {
		have, err := leases.Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil {
			lease = have
		}
	}
	seconds, renewed := int32(leaseDuration.Seconds()), metav1.NewMicroTime(now)
	isNew := lease == nil
	if isNew {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease}}
	} else {
		lease = lease.DeepCopy()
	}
	// The lease goes with its node, which may have been made anew.
	if node := k.seen(name); node != nil {
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &name, &seconds, &renewed
	var err error
	if isNew {
		lease, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	b.lease = lease
	return nil
}

// pressures are the conditions that a kubelet writes beside Ready, in its words for their absence: the next one keeps the
// reason of a condition whose status it does not change.
var pressures = []struct {
	kind            corev1.NodeConditionType
	reason, message string
}{
	{corev1.NodeMemoryPressure, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
	{corev1.NodeDiskPressure, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
	{corev1.NodePIDPressure, "KubeletHasSufficientPID", "kubelet has sufficient PID available"},
}

// tell writes the conditions. The pressures are told absent with it: one that the last kubelet left behind would keep
// every pod away, and with them the executor that could tell otherwise.
func (k *keeper) tell(ctx context.Context, name string, now time.Time) error {
	node, err := k.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return withKind(err, "get node "+name)
	}
	at := metav1.NewTime(now)
	next := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		c := corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: at, LastTransitionTime: at}
		if old := condition(node, kind); old != nil && old.Status == status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		return c
	}
	conditions := []corev1.NodeCondition{
		next(corev1.NodeReady, corev1.ConditionTrue, reasonExecutorNotRunning, "no executor runs on this agent; the first pod starts one"),
	}
	for _, p := range pressures {
		conditions = append(conditions, next(p.kind, corev1.ConditionFalse, p.reason, p.message))
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return fmt.Errorf("conditions of node %s: %w: %w", name, errdefs.ErrInvalid, err)
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return withKind(err, "tell conditions of node "+name)
}

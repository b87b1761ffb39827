package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/golang/glog"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leasePeriod and leaseDuration are the kubelet's.
const (
	leasePeriod   = 10 * time.Second
	leaseDuration = 40 * time.Second
)

// adopt takes a node over from the scheduler, which keeps those without executor alive, as an executor's kubelet does.
func (a *Actor) adopt(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := a.renew(ctx, name); err != nil {
		return err
	}
	now := metav1.Now()
	body, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			Message: "simulated: pods are acted out", LastHeartbeatTime: now, LastTransitionTime: now}},
		"nodeInfo": map[string]string{"kubeletVersion": "simulated", "osImage": "simulated", "operatingSystem": "linux"},
	}})
	if err != nil {
		return err
	}
	_, err = a.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil // somebody deleted it; the scheduler makes it anew
	}
	return err
}

// renew writes a lease without reading it first.
func (a *Actor) renew(ctx context.Context, name string) error {
	now, seconds := metav1.NewMicroTime(time.Now()), int32(leaseDuration.Seconds())
	spec := coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	body, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	leases := a.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err = leases.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew lease of node %s: %w", name, err)
	}
	return nil
}

// keepNodes renews the leases of all nodes with executors.
func (a *Actor) keepNodes(ctx context.Context) error {
	ticker := time.NewTicker(leasePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		a.mu.Lock()
		names := slices.Sorted(maps.Keys(a.nodes))
		a.mu.Unlock()
		for _, name := range names {
			if ctx.Err() != nil {
				return nil
			}
			call, cancel := context.WithTimeout(ctx, callTimeout)
			if err := a.renew(call, name); err != nil && ctx.Err() == nil {
				glog.Warningf("fail keep-alive node=%s reason=%q", name, err) // the next round tries again
			}
			cancel()
		}
	}
}

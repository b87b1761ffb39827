package executor

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/golang/glog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/network"
	"github.com/mesopod/mesopod/executor/network/plan"
	"github.com/mesopod/mesopod/executor/proxy"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// publishPause is the time between two tries to tell the cluster our range.
const publishPause = 2 * time.Second

// podRange is the address range of the node's pods: the agent's own word, or what the control plane gave the node. With
// an operator's own network there may be none.
func (e *Executor) podRange(ctx context.Context, node string, config Config) (string, error) {
	if e.config.PodCIDR != "" {
		return e.config.PodCIDR, nil
	}
	api, err := e.identity.first(ctx)
	if err != nil {
		return "", err
	}
	object, err := api.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("address range for pods: %w", err)
	}
	if object.Spec.PodCIDR == "" && config.CNIConfDir == "" {
		return "", fmt.Errorf("node %s has no address range for pods: name one in MESOPOD_POD_CIDR (the agent's --executor_environment_variables), "+
			"or have the controller manager allocate them: %w", node, errdefs.ErrInvalid)
	}
	return object.Spec.PodCIDR, nil
}

// podNetwork is the way to other nodes' pods; nil where a network of the operator's has it.
func (e *Executor) podNetwork(ctx context.Context, node, podCIDR string, config Config) (*network.Network, error) {
	if config.CNIConfDir != "" {
		glog.Infof("keep no ways to other pods reason=%q", "cniConfDir names a network of the operator's")
		if err := network.RemoveLeftovers(ctx); err != nil {
			glog.Warningf("leave ways of an executor before us err=%v", err)
		}
		return nil, nil
	}
	claim, err := network.Claim(ctx, config.Bridge, podCIDR)
	if err != nil {
		return nil, fmt.Errorf("pod network: %w", err)
	}
	e.claim = claim
	api, err := e.identity.first(ctx)
	if err != nil {
		return nil, err
	}
	return network.New(network.Config{
		Mode: plan.Mode(config.PodNetwork), Node: node, NodeIP: config.NodeIP, PodCIDR: podCIDR,
		Masquerade: network.CanMasquerade(), KeepAddress: config.NonMasqueradeCIDRs,
	}, api)
}

// publishRange tells the cluster a range that the agent has said, so that other nodes find the way to it. It is the
// kubelet's Node, so its identity writes. A control plane that gives ranges has been here before.
func (e *Executor) publishRange(ctx context.Context, node string) error {
	if e.config.PodCIDR == "" {
		return nil
	}
	for told := false; ; {
		err := e.tryPublish(ctx, node)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !told {
			told = true
			glog.Warningf("retry to tell our pod range node=%s range=%s err=%v", node, e.config.PodCIDR, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(publishPause):
		}
	}
}

func (e *Executor) tryPublish(ctx context.Context, node string) error {
	api, err := e.identity.first(ctx)
	if err != nil {
		return err
	}
	object, err := api.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch object.Spec.PodCIDR {
	case e.config.PodCIDR:
		return nil
	case "":
		kubelet, err := newClient("kubelet", e.identity.files.kubeletKubeconfig)
		if err != nil {
			return err
		}
		patch := fmt.Sprintf(`{"spec":{"podCIDR":%q,"podCIDRs":[%q]}}`, e.config.PodCIDR, e.config.PodCIDR)
		_, err = kubelet.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	glog.Errorf("leave pod range node=%s ours=%s theirs=%s reason=%q", node, e.config.PodCIDR, object.Spec.PodCIDR,
		"other nodes send to the range that the Node names: make MESOPOD_POD_CIDR the same, or leave it out")
	return nil
}

// runProxy keeps the rules for Services until the context ends.
func (e *Executor) runProxy(ctx context.Context, node, podCIDR string, config Config) error {
	mode, err := proxy.Choose(proxy.Mode(config.ProxyMode))
	if err != nil {
		return err
	}
	settings := proxy.Config{
		Mode: mode, Node: node, NodeIP: config.NodeIP, PodCIDR: podCIDR, HealthPort: proxy.HealthPort,
		Mark: filepath.Join(config.StateDir, "service-rules"),
	}
	if mode == proxy.ModeNone {
		glog.Infof("start no service proxy reason=%q", "proxyMode is none")
		if err := proxy.RemoveLeftovers(ctx, settings); err != nil {
			glog.Warningf("leave service rules of an executor before us err=%v", err)
		}
		return nil
	}
	api, err := e.identity.first(ctx)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	services, err := proxy.New(settings, api)
	if err != nil {
		return err
	}
	return services.Run(ctx)
}

// ignoreEnd is nil for what failed because the context ended.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

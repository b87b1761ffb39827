package executor

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/golang/glog"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/mesopod/mesopod/executor/agentconn"
	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/kubelet"
	"github.com/mesopod/mesopod/executor/poller"
	"github.com/mesopod/mesopod/executor/proxy"
	"github.com/mesopod/mesopod/executor/runtime"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// runNode starts what runs pods, and returns when the context ends or a part gave up.
func (e *Executor) runNode(life context.Context, agent agentconn.Agent) error {
	share := e.config.share(agent.Executor)
	capacity, err := messages.NodeCapacity(agent.Resources, share)
	if err != nil {
		return err
	}
	podCIDR, err := e.podRange(life, agent.Hostname)
	if err != nil {
		return err
	}
	containers, err := runtime.New(runtime.Config{
		BundleDir: e.config.BundleDir, StateDir: e.config.StateDir, LogFile: filepath.Join(e.env.Sandbox, "containerd.log"),
		Bridge: e.config.Bridge, PodCIDR: podCIDR, Container: e.env.Container,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(life)
	group.Go(func() error { return containers.Run(ctx) })
	group.Go(func() error { return e.runProxy(ctx, agent.Hostname, podCIDR) })
	group.Go(func() error {
		guardMemory(ctx, e.env.Cgroup, capacity.MemoryBytes, int64(share.MemMB)<<20)
		return nil
	})
	group.Go(func() error {
		select {
		case <-containers.Ready():
		case <-ctx.Done():
			return nil
		}
		return e.runKubelet(ctx, agent.Hostname, capacity, containers)
	})
	return group.Wait()
}

// podRange is the address range of the node's pods: the agent's own word, or what the control plane gave the node.
func (e *Executor) podRange(ctx context.Context, node string) (string, error) {
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
	if object.Spec.PodCIDR == "" {
		return "", fmt.Errorf("node %s has no address range for pods: name one in MESOPOD_POD_CIDR (the agent's --executor_environment_variables), "+
			"or have the controller manager allocate them: %w", node, errdefs.ErrInvalid)
	}
	return object.Spec.PodCIDR, nil
}

// runKubelet starts the kubelet while the images are brought in, then polls it. It returns when the kubelet ended.
func (e *Executor) runKubelet(ctx context.Context, node string, capacity messages.Capacity, containers *runtime.Runtime) error {
	rootDir := filepath.Join(e.config.StateDir, "kubelet")
	var started *kubelet.Kubelet
	both, bothCtx := errgroup.WithContext(ctx)
	both.Go(func() error { return containers.Import(bothCtx) })
	both.Go(func() error {
		if _, err := e.identity.first(bothCtx); err != nil {
			return err
		}
		config, err := e.follower.now(bothCtx)
		if err != nil {
			return err
		}
		identity := e.identity.files
		started, err = kubelet.Start(ctx, kubelet.Config{
			Node: node, NodeIP: config.NodeIP, Port: config.KubeletPort, Kubeconfig: identity.kubeletKubeconfig,
			ClientCAFile: identity.clientCA, TLSCertFile: identity.servingCert, TLSPrivateKeyFile: identity.servingKey,
			RootDir: rootDir, PodLogsDir: filepath.Join(e.env.Sandbox, "pods"), RuntimeSocket: containers.Socket(),
			CgroupRoot: e.env.Cgroup, CPUQuota: mayLimitCPU(e.env.Cgroup, e.about), Capacity: capacity,
			ClusterDNS: config.ClusterDNS, ClusterDomain: config.ClusterDomain, Section: config.KubeletConfiguration,
		})
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	e.put(ctx, message{kubelet: started})
	poll := poller.New(poller.Config{Socket: kubelet.PodsSocket(rootDir)}, poller.Deps{Live: containers.Live, Post: func(ctx context.Context, event core.Event) {
		if _, ready := event.(core.KubeletReady); ready {
			e.follower.lives()
		}
		e.post(ctx, event)
	}})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return poll.Run(ctx) })
	group.Go(func() error {
		select {
		case err := <-started.Ended():
			return err
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// runProxy keeps the rules for Services until the context ends.
func (e *Executor) runProxy(ctx context.Context, node, podCIDR string) error {
	api, err := e.identity.first(ctx)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	config, err := e.follower.now(ctx)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	mode, err := proxy.Choose(proxy.Mode(config.ProxyMode))
	if err != nil {
		return err
	}
	if mode == proxy.ModeNone {
		glog.Infof("start no service proxy reason=%q", "proxyMode is none")
		return nil
	}
	services, err := proxy.New(proxy.Config{
		Mode: mode, Node: node, NodeIP: config.NodeIP, PodCIDR: podCIDR, HealthPort: proxy.HealthPort,
	}, api)
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

// watchPods posts what the API server says about this node's pods until the context ends.
func (e *Executor) watchPods(ctx context.Context, node string) error {
	api, err := e.identity.first(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	}))
	informer := factory.Core().V1().Pods().Informer()
	changed := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			e.post(ctx, core.PodChanged{Pod: pod})
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, object any) { changed(object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				e.post(ctx, core.PodGone{UID: pod.UID})
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch pods of node %s: %w", node, err)
	}
	factory.Start(ctx.Done())
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		var listed core.PodsListed
		for _, object := range informer.GetStore().List() {
			if pod, ok := object.(*corev1.Pod); ok {
				listed.UIDs = append(listed.UIDs, pod.UID)
			}
		}
		e.post(ctx, listed)
	}
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

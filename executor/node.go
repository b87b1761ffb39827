package executor

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/mesopod/mesopod/executor/agentconn"
	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/kubelet"
	"github.com/mesopod/mesopod/executor/network"
	"github.com/mesopod/mesopod/executor/poller"
	"github.com/mesopod/mesopod/executor/runtime"
	"github.com/mesopod/mesopod/messages"
)

// closed is what nobody has to wait for.
var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// runNode starts what runs pods, and returns when the context ends or a part gave up.
func (e *Executor) runNode(life context.Context, agent agentconn.Agent) error {
	share := e.config.share(agent.Executor)
	capacity, err := messages.NodeCapacity(agent.Resources, share)
	if err != nil {
		return err
	}
	config, err := e.follower.now(life)
	if err != nil {
		return err
	}
	podCIDR, err := e.podRange(life, agent.Hostname, config)
	if err != nil {
		return err
	}
	ways, err := e.podNetwork(life, agent.Hostname, podCIDR, config)
	if err != nil {
		return err
	}
	settings := runtime.Config{
		BundleDir: e.config.BundleDir, StateDir: e.config.StateDir, LogFile: filepath.Join(e.env.Sandbox, "containerd.log"),
		Bridge: e.config.Bridge, PodCIDR: podCIDR, CNIConfDir: config.CNIConfDir, Masquerade: !network.CanMasquerade(), Container: e.env.Container,
	}
	waysReady := closed
	if ways != nil {
		settings.MTU, waysReady = ways.MTU(), ways.Ready()
	}
	containers, err := runtime.New(settings)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(life)
	group.Go(func() error { return containers.Run(ctx) })
	group.Go(func() error { return e.runProxy(ctx, agent.Hostname, podCIDR, config) })
	if ways != nil {
		group.Go(func() error { return ways.Run(ctx) })
		group.Go(func() error { return e.publishRange(ctx, agent.Hostname) })
	}
	group.Go(func() error {
		guardMemory(ctx, e.env.Cgroup, capacity.MemoryBytes, int64(share.MemMB)<<20)
		return nil
	})
	group.Go(func() error {
		for _, ready := range []<-chan struct{}{containers.Ready(), waysReady} {
			select {
			case <-ready:
			case <-ctx.Done():
				return nil
			}
		}
		return e.runKubelet(ctx, agent.Hostname, capacity, containers)
	})
	return group.Wait()
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
		port, err := freePort(config.NodeIP, config.KubeletPort)
		if err != nil {
			return err
		}
		started, err = kubelet.Start(ctx, kubelet.Config{
			Node: node, NodeIP: config.NodeIP, Port: port, Kubeconfig: identity.kubeletKubeconfig,
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
	for _, fault := range e.follower.faults {
		started.Warn("InvalidStaticPod", strings.ReplaceAll(fault.Error(), "\n", "; ")+"; the others run")
	}
	e.put(ctx, message{kubelet: started, containers: containers})
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

// withoutManagedFields drops the lists of who wrote which field: they often are longer than the pods.
func withoutManagedFields(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
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
	ours := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	}
	factory := informers.NewSharedInformerFactoryWithOptions(api, 0, informers.WithTweakListOptions(ours),
		informers.WithTransform(withoutManagedFields))
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

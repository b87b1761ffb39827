package proxy

import (
	"context"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	upstream "k8s.io/kubernetes/pkg/proxy"
	"k8s.io/kubernetes/pkg/proxy/apis"
	"k8s.io/kubernetes/pkg/proxy/config"
)

// watch tells provider about the cluster until ctx ends.
func (p *Proxy) watch(ctx context.Context, provider upstream.Provider) {
	// Services without a cluster IP, and their endpoints, are DNS's business; a label gives one to another proxy.
	services := p.informers(func(o *metav1.ListOptions) {
		o.LabelSelector = "!" + apis.LabelServiceProxyName
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.clusterIP", corev1.ClusterIPNone).String()
	})
	endpoints := p.informers(func(o *metav1.ListOptions) { o.LabelSelector = "!" + corev1.IsHeadlessService })
	node := p.informers(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", p.config.Node).String()
	})
	ranges := p.informers(func(*metav1.ListOptions) {})

	// Handlers come before informers: the first list is told to them alone.
	var waiting sync.WaitGroup
	serviceConfig := config.NewServiceConfig(ctx, services.Core().V1().Services(), 0)
	serviceConfig.RegisterEventHandler(provider)
	waiting.Go(func() { serviceConfig.Run(ctx.Done()) })
	sliceConfig := config.NewEndpointSliceConfig(ctx, endpoints.Discovery().V1().EndpointSlices(), 0)
	sliceConfig.RegisterEventHandler(provider)
	waiting.Go(func() { sliceConfig.Run(ctx.Done()) })
	rangeConfig := config.NewServiceCIDRConfig(ctx, ranges.Networking().V1().ServiceCIDRs(), 0)
	rangeConfig.RegisterEventHandler(provider)
	waiting.Go(func() { rangeConfig.Run(ctx.Done()) })
	topology := config.NewNodeTopologyConfig(ctx, node.Core().V1().Nodes(), 0)
	topology.RegisterEventHandler(provider)
	p.node.follow(node.Core().V1().Nodes().Informer())

	factories := []informers.SharedInformerFactory{services, endpoints, node, ranges}
	for _, factory := range factories {
		factory.Start(ctx.Done())
	}
	<-ctx.Done()
	for _, factory := range factories {
		factory.Shutdown()
	}
	waiting.Wait()
}

// informers are without what nobody reads here, to save memory.
func (p *Proxy) informers(tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(p.client, 0, informers.WithTweakListOptions(tweak),
		informers.WithTransform(func(object any) (any, error) {
			if one, err := meta.Accessor(object); err == nil {
				one.SetManagedFields(nil)
			}
			return object, nil
		}))
}

// nodeCache is the node as it was last seen.
type nodeCache struct{ last atomic.Pointer[corev1.Node] }

// Node is nil until the node was seen.
func (n *nodeCache) Node() *corev1.Node { return n.last.Load() }

func (n *nodeCache) follow(informer cache.SharedIndexInformer) {
	keep := func(object any) {
		if node, ok := object.(*corev1.Node); ok {
			n.last.Store(node)
		}
	}
	// It fails for informers that were stopped only; this one has not been started.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: keep, UpdateFunc: func(_, object any) { keep(object) }, DeleteFunc: func(any) { n.last.Store(nil) },
	})
}

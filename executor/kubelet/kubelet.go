package kubelet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	upstream "k8s.io/kubernetes/pkg/kubelet"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Kubelet is the kubelet of this process.
type Kubelet struct {
	config Config
	// feeder has the pods of Mesos' tasks, static those of the configuration.
	feeder, static *feeder
	recorder       record.EventRecorder
	ended          chan error
}

// started guards against a second kubelet, which would panic deep inside.
var started atomic.Bool

// errEnded is the end of a kubelet that gave no reason.
var errEnded = errors.New("the kubelet returned")

// Start starts the kubelet. It returns when everything that can be checked was, not when the kubelet is ready: wait for
// its PodsAPI socket. It may be called once per process. The context stops the feeding; the kubelet itself stops with
// the process.
func Start(ctx context.Context, config Config) (*Kubelet, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	if !started.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("a kubelet was started in this process before: %w", errdefs.ErrConflict)
	}
	for _, folder := range []string{config.RootDir, config.PodLogsDir} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return nil, fmt.Errorf("kubelet folder: %w", err)
		}
	}
	configuration, err := config.configuration()
	if err != nil {
		return nil, err
	}
	if err := openGates(utilfeature.DefaultMutableFeatureGate, configuration); err != nil {
		return nil, err
	}
	server := &options.KubeletServer{KubeletFlags: *config.flags(), KubeletConfiguration: *configuration}
	if err := setUpLogging(&server.Logging); err != nil {
		return nil, err
	}
	// cadvisor looks for containerd at its usual place, or where this flag of the flag package says. Without it the
	// statistics lack container names and network.
	if err := flag.CommandLine.Set("containerd", config.RuntimeSocket); err != nil {
		return nil, fmt.Errorf("tell cadvisor where containerd is: %w", err)
	}
	k := &Kubelet{config: config, feeder: newFeeder(), static: newFeeder(), ended: make(chan error, 1)}
	deps, err := k.dependencies(ctx, server)
	if err != nil {
		return nil, err
	}
	go func() {
		err := kubeletapp.Run(ctx, server, deps, utilfeature.DefaultFeatureGate)
		if err == nil {
			err = errEnded
		}
		k.ended <- err
	}()
	return k, nil
}

// dependencies fills in what the kubelet would else make for itself; it leaves alone what it finds set.
func (k *Kubelet) dependencies(ctx context.Context, server *options.KubeletServer) (*upstream.Dependencies, error) {
	deps, err := kubeletapp.UnsecuredDependencies(ctx, server, utilfeature.DefaultFeatureGate)
	if err != nil {
		return nil, fmt.Errorf("kubelet dependencies: %w", err)
	}
	rest, err := clientcmd.BuildConfigFromFlags("", k.config.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubelet kubeconfig %s: %w", k.config.Kubeconfig, err)
	}
	client, err := clientset.NewForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("kubelet client: %w", err)
	}
	if deps.CAdvisorInterface, err = newCadvisor(ctx, server, k.config.Capacity); err != nil {
		return nil, err
	}
	events := record.NewBroadcaster(record.WithContext(ctx))
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	deps.Recorder = events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: k.config.Node})
	deps.PodStartupLatencyTracker = kubeletutil.NewPodStartupLatencyTracker()

	pods := kubeletconfig.NewPodConfig(deps.Recorder, deps.PodStartupLatencyTracker)
	// Pods of any source with another name than "api" are static ones.
	k.connect(ctx, pods, kubetypes.ApiserverSource, k.feeder)
	k.connect(ctx, pods, kubetypes.FileSource, k.static)
	deps.PodConfig = pods
	k.recorder = deps.Recorder
	return deps, nil
}

// connect makes a feeder a source of the kubelet's. The channel's element type has no name outside of its package, so the
// channel stays inside this closure.
func (k *Kubelet) connect(ctx context.Context, pods *kubeletconfig.PodConfig, source string, from *feeder) {
	channel := pods.Channel(ctx, source)
	go from.run(ctx, func(ctx context.Context, snapshot []*corev1.Pod) {
		select {
		case channel <- struct{ Pods []*corev1.Pod }{Pods: snapshot}:
		case <-ctx.Done():
		}
	})
}

// Feed gives the kubelet the whole set of pods that it is to run. It copies them and never waits. The first call must
// name every pod that runs already: the kubelet ends the others.
func (k *Kubelet) Feed(pods []*corev1.Pod) { k.feeder.put(pods) }

// FeedStatic is Feed for static pods (see StaticPod). The kubelet takes nothing for an orphan before both were called.
func (k *Kubelet) FeedStatic(pods []*corev1.Pod) { k.static.put(pods) }

// Warn records an event on the Node.
func (k *Kubelet) Warn(reason, note string) {
	// The UID is the name, as in the kubelet's own events: kubectl describe node looks for it.
	node := &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: k.config.Node, UID: types.UID(k.config.Node)}
	k.recorder.Event(node, corev1.EventTypeWarning, reason, note)
}

// Ended delivers once, when the kubelet ended: its error, never nil.
func (k *Kubelet) Ended() <-chan error { return k.ended }

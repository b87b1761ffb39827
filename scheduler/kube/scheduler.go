package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// Config is what the embedded kube-scheduler is built from.
type Config struct {
	// Client of the API server, for kube-scheduler's own reads and writes.
	Client kubernetes.Interface
	// SchedulerNames are the values of spec.schedulerName that are ours; each is a profile.
	SchedulerNames []string
	// Configuration is a KubeSchedulerConfiguration in JSON, or empty: see CheckConfiguration. A scheduler name without a
	// profile in it has the default one.
	Configuration json.RawMessage
	// FeatureGates are set for the whole process, by the first New: see CheckFeatureGates.
	FeatureGates []string
	// Procure tells what a pod needs; it must be the core's.
	Procure procure.Config
	// Preemption evicts pods of ours for more important ones. What they free is offered to every framework of the role.
	Preemption bool
	// Window is the least time between two events that wake pods. Zero is 50 ms.
	Window time.Duration
	// RefusedPause is how long a pod waits that was refused a reservation. Zero is 1 s.
	RefusedPause time.Duration
}

// Deps are what the package calls.
type Deps struct {
	// Post hands an event to the core. It may block for a short time.
	Post func(core.Event)
}

// Scheduler is the embedded kube-scheduler.
type Scheduler struct {
	cfg      Config
	post     func(core.Event)
	profiles []schedulerapi.KubeSchedulerProfile
	config   *schedulerapi.KubeSchedulerConfiguration
	factory  informers.SharedInformerFactory
	pods     cache.SharedIndexInformer
	warm     bool // the informers run already

	// views is what Filter reads: node name to *offers.View. A node without offers has no entry.
	views sync.Map
	wake  *waker
	gate  *gate
	// limits are quotas of roles in Mesos, to explain with.
	limits atomic.Pointer[[]procure.RoleLimit]
	// planners answer Plan, by scheduler name; nil before they are built.
	planners atomic.Pointer[map[string]*planner]
	// refused holds the UIDs of pods whose reservation was refused, until kube-scheduler has handled it: it makes the same
	// failure of it as of a pod that fits nowhere, but no offer is missing then.
	refused sync.Map

	requests atomic.Uint64
	mu       sync.Mutex
	waiting  map[uint64]chan answer
}

// answer is what the core says to one request.
type answer struct {
	refusal string
	err     error
}

// New checks the configuration and builds the profiles and informers. It starts nothing. The error is errdefs.ErrInvalid.
func New(cfg Config, deps Deps) (*Scheduler, error) {
	if cfg.Client == nil || deps.Post == nil || len(cfg.SchedulerNames) == 0 {
		return nil, fmt.Errorf("kube-scheduler without client, core or scheduler name: %w", errdefs.ErrInvalid)
	}
	if cfg.Window == 0 {
		cfg.Window = 50 * time.Millisecond
	}
	if cfg.RefusedPause == 0 {
		cfg.RefusedPause = time.Second
	}
	s := &Scheduler{
		cfg: cfg, post: deps.Post,
		wake:    newWaker(cfg.Window, cfg.RefusedPause),
		gate:    newGate(),
		waiting: map[uint64]chan answer{},
	}
	if err := setFeatureGates(cfg.FeatureGates); err != nil { // before anything asks for one, such as the defaults of profiles
		return nil, err
	}
	config, faults := parseConfiguration(cfg.Configuration, cfg.SchedulerNames)
	if len(faults) > 0 {
		return nil, fmt.Errorf("kube-scheduler's configuration: %w: %w", errdefs.ErrInvalid, errors.Join(faults...))
	}
	var err error
	if s.profiles, err = profiles(config, cfg.Configuration, cfg); err != nil {
		return nil, fmt.Errorf("kube-scheduler's configuration: %w: %w", errdefs.ErrInvalid, err)
	}
	s.config = config
	s.factory = scheduler.NewInformerFactory(cfg.Client, 0, nil)
	if err := s.factory.Core().V1().Nodes().Informer().SetTransform(dropNotReady); err != nil {
		return nil, fmt.Errorf("node informer: %w", err)
	}
	// kube-scheduler's own pod informer leaves out pods that ended, which looks like a deletion; the core must know the
	// difference.
	s.pods = coreinformers.NewPodInformer(cfg.Client, metav1.NamespaceAll, 0, cache.Indexers{})
	same := newShared()
	for _, informer := range []cache.SharedIndexInformer{s.pods, s.factory.Core().V1().Pods().Informer()} {
		if err := informer.SetTransform(same.transform); err != nil {
			return nil, fmt.Errorf("pod informer: %w", err)
		}
	}
	return s, nil
}

// Pods is the informer of all pods of the cluster, in every phase. Handlers are added before Run.
func (s *Scheduler) Pods() cache.SharedIndexInformer { return s.pods }

// Nodes is kube-scheduler's informer of nodes. Handlers are added before Run.
func (s *Scheduler) Nodes() cache.SharedIndexInformer {
	return s.factory.Core().V1().Nodes().Informer()
}

// WatchRoles tells of the annotation messages.AnnotationRoles of namespaces, empty when they have none or are gone: those
// of the first list, and each change. It is called before Run; synced tells that the first list is through.
func (s *Scheduler) WatchRoles(told func(namespace, roles string)) (synced func() bool, err error) {
	tell := func(object any) {
		if namespace, ok := object.(*corev1.Namespace); ok && namespace.Annotations[messages.AnnotationRoles] != "" {
			told(namespace.Name, namespace.Annotations[messages.AnnotationRoles])
		}
	}
	registration, err := s.factory.Core().V1().Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell,
		UpdateFunc: func(before, after any) {
			old, now := before.(*corev1.Namespace), after.(*corev1.Namespace)
			if roles := now.Annotations[messages.AnnotationRoles]; roles != old.Annotations[messages.AnnotationRoles] {
				told(now.Name, roles)
				s.wake.roles(now.Name)
			}
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if namespace, ok := object.(*corev1.Namespace); ok {
				told(namespace.Name, "")
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch namespaces: %w", err)
	}
	return registration.HasSynced, nil
}

// Node returns the node as last seen, or nil. The object is shared: it must not be written to.
func (s *Scheduler) Node(name string) *corev1.Node {
	node, err := s.factory.Core().V1().Nodes().Lister().Get(name)
	if err != nil {
		return nil // a lister knows one error: not found
	}
	return node
}

// Warm lists and watches pods and nodes until ctx ends, so that a Run that begins later finds them there: it is for who
// stands by. It returns at once; wait returns when all that it started has ended. At most one call, before Run, and ctx
// outlives Run's.
func (s *Scheduler) Warm(ctx context.Context) (wait func()) {
	s.warm = true
	var running sync.WaitGroup
	running.Go(func() { s.pods.RunWithContext(ctx) })
	s.factory.StartWithContext(ctx)
	return func() {
		s.factory.Shutdown()
		running.Wait()
	}
}

// Run schedules until ctx ends, and then returns nil. It returns an error if kube-scheduler cannot be built.
func (s *Scheduler) Run(ctx context.Context) error {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: s.cfg.Client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("events of kube-scheduler: %w", err)
	}
	defer broadcaster.Shutdown()

	sched, err := s.build(ctx, profile.NewRecorderFactory(broadcaster))
	if err != nil {
		return err
	}
	if s.warm {
		s.factory.StartWithContext(ctx) // what kube-scheduler wants beside pods and nodes
	} else {
		defer s.Warm(ctx)()
	}
	s.factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return nil // only the end of ctx ends the wait
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.wake.run(ctx, sched.SchedulingQueue) })
	sched.Run(ctx)
	return nil
}

// build makes the scheduler. Its metrics are registered once per process by itself.
func (s *Scheduler) build(ctx context.Context, recorders profile.RecorderFactory) (*scheduler.Scheduler, error) {
	registry := runtime.Registry{
		GateName:   func(context.Context, kruntime.Object, fwk.Handle) (fwk.Plugin, error) { return gatePlugin{s.gate}, nil },
		OffersName: s.offersFactory(nil),
		LaunchName: func(context.Context, kruntime.Object, fwk.Handle) (fwk.Plugin, error) { return launchPlugin{s}, nil },
	}
	if s.cfg.Preemption {
		registry[PreemptionName] = func(ctx context.Context, _ kruntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			return s.newPreemption(ctx, handle)
		}
	}
	sched, err := scheduler.New(ctx, s.cfg.Client, s.factory, nil, recorders,
		scheduler.WithProfiles(s.profiles...), scheduler.WithFrameworkOutOfTreeRegistry(registry), scheduler.WithExtenders(s.config.Extenders...),
		scheduler.WithParallelism(s.config.Parallelism), scheduler.WithPercentageOfNodesToScore(s.config.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(s.config.PodInitialBackoffSeconds), scheduler.WithPodMaxBackoffSeconds(s.config.PodMaxBackoffSeconds))
	if err != nil {
		return nil, fmt.Errorf("build kube-scheduler: %w", err)
	}
	planners, err := s.newPlanners(ctx, sched, registry)
	if err != nil {
		return nil, fmt.Errorf("build planners: %w", err)
	}
	s.planners.Store(&planners)
	failed := sched.FailureHandler
	sched.FailureHandler = func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status,
		nominating *fwk.NominatingInfo, start time.Time,
	) {
		s.explain(pod.Pod, status)
		if _, refused := s.refused.LoadAndDelete(pod.Pod.UID); !refused && ctx.Err() == nil && status.IsRejected() {
			s.post(core.Waiting{Pod: pod.Pod, Why: status.Message()})
		}
		failed(ctx, f, pod, status, nominating, start)
	}
	return sched, nil
}

// Deliver takes the core's answers: ReserveDone, BindDone, PoolChanged, GateChanged. Others are not for this package.
func (s *Scheduler) Deliver(effect core.Effect) {
	switch e := effect.(type) {
	case core.ReserveDone:
		s.answer(e.Request, answer{refusal: e.Refusal})
	case core.BindDone:
		s.answer(e.Request, answer{err: e.Err})
	case core.PoolChanged:
		s.publish(e.Views)
	case core.LimitsChanged:
		s.limits.Store(&e.Limits)
		s.wake.limits()
	case core.GateChanged:
		s.wake.release(s.gate.change(e.Open, e.Held))
	}
}

func (s *Scheduler) publish(views map[string]*offers.View) {
	for node, view := range views {
		if view == nil {
			s.views.Delete(node)
			continue
		}
		s.views.Store(node, view)
	}
	s.wake.changed(views)
}

func (s *Scheduler) answer(request uint64, a answer) {
	s.mu.Lock()
	c := s.waiting[request]
	delete(s.waiting, request)
	s.mu.Unlock()
	if c != nil { // nil: the one who asked has gone
		c <- a
	}
}

var errStopping = errors.New("the scheduler is stopping")

// ask posts an event with a request number and waits for the answer, as long as ctx lives.
func (s *Scheduler) ask(ctx context.Context, event func(request uint64) core.Event) (answer, error) {
	if ctx.Err() != nil {
		return answer{}, errStopping
	}
	request := s.requests.Add(1)
	c := make(chan answer, 1) // the answer never waits for the one who asked
	s.mu.Lock()
	s.waiting[request] = c
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, request)
		s.mu.Unlock()
	}()
	s.post(event(request))
	select {
	case a := <-c:
		return a, nil
	case <-ctx.Done():
		return answer{}, errStopping
	}
}

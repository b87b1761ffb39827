package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/golang/glog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"

	"github.com/mesopod/mesopod/internal/errdefs"
	served "github.com/mesopod/mesopod/scheduler/bundle"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/kube"
	"github.com/mesopod/mesopod/scheduler/mesosconn"
	"github.com/mesopod/mesopod/scheduler/procure"
	"github.com/mesopod/mesopod/scheduler/web"
)

// Deps are what a scheduler may be given instead of making it itself.
type Deps struct {
	// Client of the API server. Nil: one is made from Config.Kubeconfig.
	Client kubernetes.Interface
	// REST says how Client reaches the API server. It is asked for when executors are served, and needed with Client only.
	REST *rest.Config
	// Version of the program, for pages and metrics.
	Version string
}

// Scheduler is the framework scheduler. See the package comment.
type Scheduler struct {
	client   kubernetes.Interface
	loop     *loop
	kube     *kube.Scheduler
	conn     *mesosconn.Conn
	caller   *caller
	writer   *writer
	surveyor *surveyor
	forget   string    // Config.ForgetFramework
	election *election // nil: nobody else is there
	keeper   *keeper
	pods     *podFeed
	synced   func() bool // the pod feed has seen the first list
	// executors is nil when they are not served.
	executors *gatekeeper
	// archive is the bundle that is served, or nil.
	archive  *served.Archive
	status   *status
	procure  procure.Config
	events   events.EventBroadcaster
	recorder events.EventRecorder
}

// New checks the configuration and builds a scheduler that is not yet running. Faults are told together, as
// errdefs.ErrInvalid.
func New(cfg Config, deps Deps) (*Scheduler, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	version := deps.Version
	if deps.Client == nil {
		var err error
		if deps, err = connect(cfg.Kubeconfig); err != nil {
			return nil, err
		}
	}
	client := deps.Client
	programs, archive, err := cfg.Programs.open(cfg.Executors)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{client: client, archive: archive, forget: cfg.ForgetFramework, status: newStatus(cfg, version)}
	if cfg.LeaderElect {
		s.election = newElection(client, func(leader string) { s.status.leader.Store(leader) })
	}
	cores := cfg.core(programs)
	config, err := newDocument(cfg.Executors.ConfigFile, func(pods core.StaticPods) { s.loop.post(pods) })
	if err != nil {
		return nil, err
	}
	cores.StaticPods = config.static.Pods
	s.procure = cores.Procure()
	s.loop = newLoop(core.New(cores), s.dispatch)
	s.kube, err = kube.New(
		kube.Config{Client: client, SchedulerNames: cfg.SchedulerNames, Configuration: cfg.KubeScheduler, FeatureGates: cfg.FeatureGates, Procure: cores.Procure(), Preemption: cfg.Preemption},
		kube.Deps{Post: s.loop.post})
	if err != nil {
		return nil, err
	}
	if s.conn, err = mesosconn.New(cfg.mesos(), s.loop.post); err != nil {
		return nil, err
	}
	s.caller = &caller{
		calls: newQueue[core.Effect](), acks: newQueue[core.Effect](), lookUps: newQueue[core.LookUpAgent](), limits: newQueue[core.LookUpLimits](), post: s.loop.post,
		do:   s.callMesos,
		find: s.conn.LookUpAgents,

		findLimits: s.conn.Limits,
	}
	if cfg.Executors.Listen != "" {
		api, err := apiServerOf(deps.REST, cfg.Executors)
		if err != nil {
			return nil, err
		}
		s.executors = &gatekeeper{access: cfg.Executors, client: client, api: api, config: config, server: newServer(cfg.Executors.Listen), runs: s.runsHere}
	}
	if s.executors != nil && archive != nil {
		s.executors.server.handle(served.Pattern, archive)
	}
	s.writer = newWriter(client, s.loop.post)
	s.surveyor = &surveyor{client: client, asked: newQueue[core.Survey](), post: s.loop.post, mesos: s.conn.Survey}
	s.writer.taintNodes = cfg.TaintNodes
	s.keeper = newKeeper(client, s.kube.Node)
	s.pods = newPodFeed(cfg.SchedulerNames, s.loop.post)
	return s, nil
}

// follow has the core told of pods and nodes, from the first list on. Before, nobody takes what it would be told.
func (s *Scheduler) follow() error {
	registration, err := s.kube.Pods().AddEventHandler(s.pods.handler())
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	namespaces, err := s.kube.WatchRoles(func(namespace, roles string) {
		s.loop.post(core.NamespaceRoles{Namespace: namespace, Roles: roles})
	})
	if err != nil {
		return err
	}
	s.synced = func() bool { return registration.HasSynced() && namespaces() }
	if _, err := s.kube.Nodes().AddEventHandler(nodeFeed(s.loop.post)); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	return nil
}

// connect makes a client without a rate limit of its own: the API server has priority and fairness.
func connect(kubeconfig string) (Deps, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return Deps{}, fmt.Errorf("kubeconfig %q: %w: %w", kubeconfig, errdefs.ErrInvalid, err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "mesopod-scheduler"))
	if err != nil {
		return Deps{}, fmt.Errorf("kubeconfig %q: %w: %w", kubeconfig, errdefs.ErrInvalid, err)
	}
	return Deps{Client: client, REST: config}, nil
}

// Ready is closed when the framework is subscribed, its id is stored and the pods are listed.
func (s *Scheduler) Ready() <-chan struct{} { return s.loop.ready }

// Run schedules until ctx ends, and then returns nil once all its parts have ended; pods live on. Any other error is one
// that only a person can mend, or names the parts that did not end in time. With Config.LeaderElect it waits for its turn
// first, and an errdefs.ErrConflict may be the loss of the lease: then it is to be started again.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.archive != nil {
		defer s.archive.Close() // it was only read
	}
	defer s.serveStatus(ctx)()
	if s.election != nil {
		s.status.standing.Store(web.StandingBy)
		watching, stop := context.WithCancel(ctx)
		defer s.kube.Warm(watching)()
		defer stop()
		return s.election.lead(ctx, s.work)
	}
	return s.work(ctx)
}

func (s *Scheduler) work(ctx context.Context) error {
	s.status.standing.Store(web.Starting)
	var frameworkID string
	err := patiently(ctx, func(ctx context.Context) (err error) {
		if err := checkServer(s.client); err != nil {
			return err
		}
		if s.executors != nil {
			if err := s.executors.prepare(ctx); err != nil {
				return err
			}
		}
		if s.forget != "" {
			if err := forgetFrameworkID(ctx, s.client, s.forget); err != nil {
				return err
			}
		}
		frameworkID, err = loadFrameworkID(ctx, s.client)
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	glog.Infof("start scheduler framework=%s", frameworkID)

	s.events = events.NewBroadcaster(&events.EventSinkImpl{Interface: s.client.EventsV1()})
	defer s.events.Shutdown()
	s.recorder = s.events.NewRecorder(scheme.Scheme, "mesopod-scheduler")

	if err := s.follow(); err != nil {
		return err
	}
	g := newGroup(ctx, stopDeadline)
	if err := s.events.StartRecordingToSinkWithContext(g.ctx); err != nil {
		return fmt.Errorf("record events: %w", err)
	}
	g.run("core loop", s.loop.run)
	s.status.standing.Store(web.Working)
	for i := range writers {
		g.run(fmt.Sprintf("API writer %d", i), func(ctx context.Context) error { return s.writer.run(ctx, i) })
	}
	g.run("mesos calls", s.caller.runCalls)
	g.run("acknowledgements", s.caller.runAcks)
	g.run("agent look-ups", s.caller.runLookUps)
	g.run("quotas", s.caller.runLimits)
	g.run("surveys", s.surveyor.run)
	g.run("node keep-alive", s.keeper.run)
	g.run("kube-scheduler", s.kube.Run)
	g.run("pod feed", func(ctx context.Context) error { return s.pods.run(ctx, s.synced) })
	if s.executors != nil {
		g.run("executor server", s.executors.server.run)
		g.run("executor configuration", s.executors.config.run)
	}
	g.run("mesos connection", func(ctx context.Context) error { return s.conn.Run(ctx, frameworkID) })
	err = g.wait()
	if err == nil || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		glog.Info("stop scheduler; the framework and its pods stay")
		return nil
	}
	return err
}

// dispatch hands an effect to the part that carries it out. It runs in the loop and never blocks.
func (s *Scheduler) dispatch(effect core.Effect) {
	switch e := effect.(type) {
	case core.Accept, core.Decline, core.AcceptInverse, core.Revive, core.Suppress, core.Kill, core.Message, core.Reconcile:
		s.caller.calls.push(effect)
	case core.Acknowledge:
		s.caller.acks.push(effect)
	case core.LookUpAgent:
		s.caller.lookUps.push(e)
	case core.LookUpLimits:
		s.caller.limits.push(e)
	case core.StoreFrameworkID:
		s.writer.push("framework", effect)
	case core.StoreNode:
		s.writer.push(e.Node.Name, effect)
	case core.DeleteNode:
		s.writer.push(e.Node, effect)
	case core.FailPod:
		s.writer.push(string(e.Pod.UID), effect)
	case core.TaintNode:
		s.writer.push(e.Node, effect)
	case core.Survey:
		s.surveyor.asked.push(e)
	case core.DeletePod:
		s.writer.push(string(e.Pod.UID), effect)
	case core.KeepAlive:
		s.keeper.set(e.Node, e.On)
	case core.PodEvent:
		s.record(e.Pod, e.Type, e.Reason, e.Note)
	case core.NodeEvent:
		// The UID is the name, as in the kubelet's own events: kubectl describe node looks for it.
		s.record(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.Node, UID: types.UID(e.Node)}, e.Type, e.Reason, e.Note)
	case core.ReserveDone, core.BindDone, core.PoolChanged, core.LimitsChanged, core.GateChanged:
		s.kube.Deliver(effect)
	case core.Note: // for the log alone, where it is by now
	default:
		glog.Errorf("drop unknown effect=%T", effect)
	}
}

// record queues a Kubernetes event; the recorder sends it.
func (s *Scheduler) record(about runtime.Object, kind, reason, note string) {
	const most = 1024 // bytes, by the API
	if len(note) > most {
		note = note[:most]
	}
	if kind != corev1.EventTypeWarning {
		kind = corev1.EventTypeNormal
	}
	s.recorder.Eventf(about, nil, kind, reason, "Launching", "%s", note)
}

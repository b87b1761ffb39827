package executor

import (
	"context"
	"time"

	"github.com/golang/glog"
	"github.com/pborman/uuid"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/executor/agentconn"
	"github.com/mesopod/mesopod/executor/binder"
	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/kubelet"
	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/executor/runtime"
	"github.com/mesopod/mesopod/executor/web"
	"github.com/mesopod/mesopod/internal/zpages"
)

// message is what the loop takes: exactly one field is set, beside at.
type message struct {
	event core.Event
	// at is when the event came in, zero for now.
	at    time.Time
	agent *agentconn.Agent
	// kubelet and the runtime that it uses.
	kubelet    *kubelet.Kubelet
	containers *runtime.Runtime
	// open asks for what is unacknowledged.
	open chan<- unacknowledged
	// view asks for what the status page shows.
	view chan<- web.View
	// exit ends the executor without a word of the core's.
	exit *core.Exit
}

type unacknowledged struct {
	tasks   []string
	updates []ledger.Update
}

func (e *Executor) put(ctx context.Context, m message) {
	select {
	case e.inbox <- m:
	case <-ctx.Done():
	}
}

func (e *Executor) post(ctx context.Context, event core.Event) {
	e.put(ctx, message{event: event, at: time.Now()})
}

func (e *Executor) identified(ctx context.Context, agent agentconn.Agent) {
	e.put(ctx, message{agent: &agent})
}

// unacknowledged asks the loop, which alone may ask the core.
func (e *Executor) unacknowledged(ctx context.Context) ([]string, []ledger.Update) {
	answer := make(chan unacknowledged, 1)
	e.put(ctx, message{open: answer})
	select {
	case a := <-answer:
		return a.tasks, a.updates
	case <-ctx.Done():
		return nil, nil
	}
}

// state is what the loop alone touches.
type state struct {
	core *core.Core // nil until the first SUBSCRIBED
	// known is what the core will begin with.
	known *ledger.Ledger
	// Both are nil until the kubelet runs.
	kubelet    *kubelet.Kubelet
	containers *runtime.Runtime
	timer      *time.Timer
	group      *errgroup.Group
	// pending is what the core has said and nobody has done.
	pending []core.Effect

	// What people are shown. node is empty until the agent has named it.
	node     string
	started  time.Time
	journal  *zpages.Journal[web.Entry]
	launches launches
}

// batch is how many events may be taken before their effects are carried out: they share one write to the disk.
const batch = 64

// loop owns the core. It returns the effect that ends the executor.
func (e *Executor) loop(life context.Context, group *errgroup.Group, known *ledger.Ledger) core.Exit {
	s := &state{
		timer: time.NewTimer(time.Hour), group: group, known: known,
		started: time.Now(), journal: zpages.NewJournal[web.Entry](journalSize), launches: launches{},
	}
	defer s.timer.Stop()
	for {
		var exit *core.Exit
		select {
		case m := <-e.inbox:
			exit = e.take(life, s, m)
		case <-s.timer.C:
			exit = e.step(s, core.Tick{}, time.Time{})
		case <-life.Done():
			return core.Exit{Code: 1, Why: "a part of the executor failed"}
		}
		for n := 1; n < batch && exit == nil && len(e.inbox) > 0; n++ {
			exit = e.take(life, s, <-e.inbox)
		}
		if exit == nil {
			exit = e.act(life, s)
		}
		if exit != nil {
			return *exit
		}
	}
}

// take handles one message.
func (e *Executor) take(life context.Context, s *state, m message) *core.Exit {
	switch {
	case m.agent != nil:
		if err := e.begin(life, s, *m.agent); err != nil {
			return &core.Exit{Code: 1, Why: err.Error()}
		}
	case m.kubelet != nil:
		s.kubelet, s.containers = m.kubelet, m.containers
	case m.open != nil:
		// What goes along with SUBSCRIBE is said as much as what is sent.
		if exit := e.act(life, s); exit != nil {
			return exit
		}
		var answer unacknowledged
		if s.core != nil {
			answer.tasks, answer.updates = s.core.Unacknowledged()
		} else {
			answer.tasks, answer.updates = s.known.Unacknowledged()
		}
		answer.updates = e.guard.Unsaid(answer.updates)
		m.open <- answer
	case m.view != nil:
		m.view <- e.look(s)
	case m.exit != nil:
		return m.exit
	case m.event != nil:
		return e.step(s, m.event, m.at)
	}
	return nil
}

// step gives one event, which came in at that time, to the core and keeps what it says for act.
func (e *Executor) step(s *state, event core.Event, at time.Time) *core.Exit {
	glog.V(2).Infof("take event kind=%T", event)
	if s.core == nil {
		// The agent never named our node: there is nothing that could end a pod.
		if shutdown, ok := event.(core.Shutdown); ok {
			return &core.Exit{Why: shutdown.Why}
		}
		return nil
	}
	if launch, ok := event.(core.Launch); ok {
		e.identity.offer(launch.Data)
		e.orderer.offer(launch.Data)
	}
	now := time.Now()
	if at.IsZero() {
		at = now
	}
	s.launches.countEvent(at, event)
	if entry, ok := eventEntry(now, event); ok {
		s.journal.Add(entry)
	}
	effects := s.core.Step(now, event)
	for _, effect := range effects {
		if entry, ok := effectEntry(now, effect); ok {
			s.journal.Add(entry)
		}
	}
	s.pending = append(s.pending, effects...)
	return nil
}

// act saves what is to be saved, then carries out what rests on it; an Exit is returned.
func (e *Executor) act(life context.Context, s *state) *core.Exit {
	if s.core == nil {
		return nil
	}
	effects := s.pending
	s.pending = nil
	if err := e.save(s, effects); err != nil {
		glog.Errorf("end without acting effects=%d err=%v", len(effects), err)
		return &core.Exit{Code: 1, Why: err.Error()}
	}
	for _, effect := range effects {
		if exit, ok := effect.(core.Exit); ok {
			return &exit
		}
		e.perform(life, s, effect)
		s.launches.countEffect(time.Now(), effect)
	}
	s.launches.gauge(s.core.Snapshot())
	wait := time.Hour
	if deadline, ok := s.core.NextDeadline(); ok {
		wait = max(time.Until(deadline), 0)
	}
	s.timer.Reset(wait)
	return nil
}

func (e *Executor) save(s *state, effects []core.Effect) error {
	var changes [][]ledger.Record
	for _, effect := range effects {
		if save, ok := effect.(core.Save); ok {
			changes = append(changes, save.Records)
		}
	}
	if err := e.store.Append(changes...); err != nil {
		return err
	}
	if e.store.Full() {
		return e.store.Rewrite(s.core.Records())
	}
	return nil
}

// begin makes the core, now that the node has a name, and starts what runs pods.
func (e *Executor) begin(life context.Context, s *state, agent agentconn.Agent) (err error) {
	s.node = agent.Hostname
	glog.Infof("subscribe node=%s agent=%s resources=%q", agent.Hostname, agent.ID, agent.Resources)
	if e.identity, err = newIdentity(e.config, e.env, agent.Hostname); err != nil {
		return err
	}
	// Pods of before must not wait for the scheduler.
	settled := len(s.known.Tasks())+len(s.known.Pods()) > 0
	e.follower = &follower{e: e, node: agent.Hostname, settled: make(chan struct{})}
	onTrial, err := e.documents().start()
	if err != nil {
		return err
	}
	e.follower.trial.Store(onTrial)
	if kept, ok := e.known(); ok {
		e.config, settled = kept, true
	}
	s.group.Go(func() error { return e.identity.run(life) })
	s.group.Go(func() error {
		if settled {
			e.follower.settle(life, e.config, "as before")
		}
		return e.follower.run(life)
	})
	s.core = core.New(core.Config{
		Node:           agent.Hostname,
		NewUUID:        func() []byte { return uuid.NewRandom() },
		LaunchGrace:    e.config.LaunchGracePeriod.Duration,
		SuicideTimeout: e.config.SuicideTimeout.Duration,
		Ledger:         s.known,
	})
	s.group.Go(func() error {
		config, err := e.follower.now(life)
		if err != nil {
			return ignoreEnd(life, err)
		}
		return e.serveStatus(life, config.StatusAddress)
	})
	s.group.Go(func() error { return e.guard.Run(life, e.config.share(agent.Executor).CPUs, e.about) })
	s.group.Go(func() error { return e.watchPods(life, agent.Hostname) })
	s.group.Go(func() error {
		if err := e.runNode(life, agent); err != nil && life.Err() == nil {
			glog.Errorf("end node node=%s err=%v", agent.Hostname, err)
			e.put(life, e.follower.ended(err))
		}
		return nil
	})
	return nil
}

// perform carries out one effect. Nothing here waits: calls to the API server run by themselves and answer with events.
func (e *Executor) perform(life context.Context, s *state, effect core.Effect) {
	switch f := effect.(type) {
	case core.Bind:
		glog.Infof("bind pod task=%s pod=%s/%s node=%s reason=%q", f.TaskID, f.Namespace, f.Name, f.Node, f.Why)
		target := binder.Target{Namespace: f.Namespace, Name: f.Name, UID: f.UID, Node: f.Node, Annotations: f.Annotations}
		e.bind(life, s, f.TaskID, target, (*binder.Binder).Bind)
	case core.Patch:
		glog.Infof("patch pod task=%s pod=%s/%s reason=%q", f.TaskID, f.Namespace, f.Name, f.Why)
		target := binder.Target{Namespace: f.Namespace, Name: f.Name, UID: f.UID, Node: f.Node, Annotations: f.Annotations}
		e.bind(life, s, f.TaskID, target, (*binder.Binder).Patch)
	case core.DeletePod:
		glog.Infof("delete pod task=%s pod=%s/%s grace=%v reason=%q", f.TaskID, f.Namespace, f.Name, f.Grace, f.Why)
		e.call(life, s, func(ctx context.Context) core.Event {
			api, err := e.identity.now(ctx)
			if err == nil {
				err = api.binder.Delete(ctx, f.Namespace, f.Name, f.UID, f.Grace)
			}
			if err != nil {
				return core.DeleteFailed{TaskID: f.TaskID, Err: err}
			}
			return nil
		})
	case core.EvictPod:
		glog.Infof("evict pod task=%s pod=%s/%s grace=%v reason=%q", f.TaskID, f.Namespace, f.Name, f.Grace, f.Why)
		e.call(life, s, func(ctx context.Context) core.Event {
			api, err := e.identity.now(ctx)
			if err == nil {
				err = api.evictor.Evict(ctx, f.Namespace, f.Name, f.UID, f.Grace)
			}
			if err != nil {
				return core.DeleteFailed{TaskID: f.TaskID, Err: err}
			}
			return nil
		})
	case core.StopContainers:
		glog.Infof("stop containers task=%s grace=%v reason=%q", f.TaskID, f.Grace, f.Why)
		if containers := s.containers; containers != nil {
			// It waits for the grace period: no place for it among the calls to the API server.
			s.group.Go(func() error {
				if err := containers.Stop(life, f.UID, f.Grace); err != nil && life.Err() == nil {
					glog.Warningf("stop containers task=%s err=%v", f.TaskID, err)
				}
				return nil
			})
		}
	case core.SendUpdate:
		glog.Infof("send status task=%s state=%v message=%q reason=%q", f.Update.TaskID, f.Update.State, f.Update.Message, f.Why)
		e.guard.Send(f.Update)
	case core.Save:
		glog.V(1).Infof("saved records=%d reason=%q", len(f.Records), f.Why)
	case core.Feed:
		glog.Infof("feed kubelet pods=%d reason=%q", len(f.Pods), f.Why)
		if s.kubelet != nil {
			s.kubelet.Feed(f.Pods)
		}
	case core.FeedStatic:
		glog.Infof("feed kubelet static=%d reason=%q", len(f.Pods), f.Why)
		if s.kubelet != nil {
			s.kubelet.FeedStatic(f.Pods)
		}
	case core.Note:
		glog.Infof("note task=%s reason=%q", f.TaskID, f.Why)
	default:
		glog.Errorf("skip effect kind=%T reason=%q", effect, "not known to the loop")
	}
}

// bind brings the scheduler's choice to the API server, in one of the two ways.
func (e *Executor) bind(life context.Context, s *state, taskID string, target binder.Target, how func(*binder.Binder, context.Context, binder.Target) (*corev1.Pod, error)) {
	e.call(life, s, func(ctx context.Context) core.Event {
		api, err := e.identity.now(ctx)
		if err != nil {
			return core.BindFailed{TaskID: taskID, Err: err}
		}
		pod, err := how(api.binder, ctx, target)
		if err != nil {
			return core.BindFailed{TaskID: taskID, Err: err}
		}
		return core.Bound{TaskID: taskID, Pod: pod}
	})
}

// call runs a call to the API server beside the loop, a few at once, and posts what it answers.
func (e *Executor) call(life context.Context, s *state, do func(context.Context) core.Event) {
	s.group.Go(func() error {
		select {
		case e.slots <- struct{}{}:
		case <-life.Done():
			return nil
		}
		defer func() { <-e.slots }()
		event := do(life)
		if failed, ok := event.(core.BindFailed); ok {
			glog.Warningf("bind failed task=%s err=%v", failed.TaskID, failed.Err)
		}
		if event != nil {
			e.post(life, event)
		}
		return nil
	})
}

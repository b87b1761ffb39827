// Package poller is the pod-status goroutine: it asks the kubelet what its pods do, and posts the answers.
//
// It speaks to the kubelet's PodsAPI socket. WatchPods gives speed: each change is a core.KubeletPod. ListPods, once a
// second, gives truth: all pods that are there as one core.KubeletPods, and a pod that is not in it is not there. Both
// answer FailedPrecondition until the kubelet got its first snapshot, which means "not yet" and is no error.
//
// ListPods alone does not tell that a pod's containers are gone. It lists the kubelet's pod manager, and that forgets a
// pod as soon as it leaves the snapshot that we feed: upstream's HandlePodRemoves takes the pod out of the manager
// first and lets the pod worker end the containers afterwards, with the pod's grace period. A pod that is deleted in the
// ordinary way stays listed until its containers ended, since its API object stays; one deleted by force, or dropped
// from the snapshot, vanishes from the list while its containers run. So the list is joined with what the runtime says:
// a pod with a ready sandbox or a running container is there, whatever the kubelet says (EX-64, EX-76). When the runtime
// cannot be asked nothing is posted: a failed call is no proof of absence.
//
// An idle node pays for none of this: while the watch tells of no change and the list lacks nobody, the runtime is not
// asked, and pods whose encoding is the same are not decoded again.
//
// Run owns its two goroutines and ends them before it returns.
package poller

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/golang/glog"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/mesopod/mesopod/executor/core"
)

// Config says where to ask and how often.
type Config struct {
	// Socket is the path of the kubelet's PodsAPI socket.
	Socket string
	// Interval between two lists, and the pause before a broken watch is made anew; 0 means 1 s (EX-49).
	Interval time.Duration
}

// Deps are what the poller asks of others.
type Deps struct {
	// Live asks the runtime for the pods that have a ready sandbox or a running container. Each has namespace, name and
	// UID and nothing else.
	Live func(context.Context) ([]*corev1.Pod, error)
	// Post hands over core.KubeletReady, core.KubeletPod and core.KubeletPods. It may block until the context ends.
	Post func(context.Context, core.Event)
}

// Poller asks the kubelet.
type Poller struct {
	config Config
	deps   Deps

	mu sync.Mutex
	// last is each pod as the kubelet showed it last, for as long as it is there: the answer for a pod that the kubelet
	// forgot and the runtime still has.
	last map[types.UID]*corev1.Pod
	// ready tells that the socket answered once.
	ready bool
	// changed tells that the watch showed something, or was not there, since the last list that was joined with the
	// runtime's answer: until then a pod may have come and been forgotten unseen.
	changed bool
	// decoded is the last list by encoding. Only the lists' goroutine uses it.
	decoded map[string]*corev1.Pod
}

// callTimeout bounds one list; the kubelet answers from memory.
const callTimeout = 5 * time.Second

// New makes a Poller. Nothing starts.
func New(config Config, deps Deps) *Poller {
	if config.Interval <= 0 {
		config.Interval = time.Second
	}
	return &Poller{config: config, deps: deps, last: map[types.UID]*corev1.Pod{}, changed: true}
}

// Run asks until the context ends. It posts core.KubeletReady once, when the kubelet's socket answers for the first
// time, be the answer a list or "not yet".
func (p *Poller) Run(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+p.config.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		// By default a first attempt that fails, as it does while the kubelet starts, costs a whole second.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second, Backoff: backoff.Config{
			BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return fmt.Errorf("connect to the kubelet at %s: %w", p.config.Socket, err)
	}
	defer conn.Close()
	client := podsapi.NewPodsClient(conn)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { p.every(ctx, func() { p.list(ctx, client) }); return nil })
	group.Go(func() error { p.every(ctx, func() { p.watch(ctx, client) }); return nil })
	return group.Wait()
}

// every calls do, then again one interval after it returned, until the context ends.
func (p *Poller) every(ctx context.Context, do func()) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		do()
		interval := p.config.Interval
		if !p.isReady() {
			// The first answer opens the door for waiting launches.
			interval /= 20
		}
		timer.Reset(interval)
	}
}

func (p *Poller) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// answered tells from a call's error whether the kubelet is there and has pods to tell of.
func (p *Poller) answered(ctx context.Context, err error) bool {
	code := status.Code(err)
	if err != nil && code != codes.FailedPrecondition {
		return false
	}
	p.mu.Lock()
	first := !p.ready
	p.ready = true
	p.mu.Unlock()
	if first {
		p.deps.Post(ctx, core.KubeletReady{})
	}
	return err == nil
}

// list posts what is there, by the kubelet and the runtime together.
func (p *Poller) list(ctx context.Context, client podsapi.PodsClient) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if p.calm() {
		listed, ok := p.listed(ctx, call, client)
		if !ok || p.hasAll(listed) {
			if ok {
				p.deps.Post(ctx, core.KubeletPods{Pods: p.join(listed, nil)})
			}
			return
		}
	}
	p.setChanged(false)
	// The runtime is asked first: a pod that starts in between shows in the kubelet's list, which is asked later.
	live, err := p.deps.Live(call)
	if err != nil {
		p.setChanged(true)
		glog.Warningf("skip pod list reason=%q err=%v", "the runtime does not answer", err)
		return
	}
	listed, ok := p.listed(ctx, call, client)
	if !ok {
		p.setChanged(true)
		return
	}
	p.deps.Post(ctx, core.KubeletPods{Pods: p.join(listed, live)})
}

func (p *Poller) calm() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.changed
}

func (p *Poller) setChanged(changed bool) {
	p.mu.Lock()
	p.changed = changed
	p.mu.Unlock()
}

// hasAll tells whether each pod that was there at the last list is in this one.
func (p *Poller) hasAll(listed []*corev1.Pod) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := 0
	for _, pod := range listed {
		if p.last[pod.UID] != nil {
			found++
		}
	}
	return found == len(p.last)
}

// listed asks the kubelet. It is false for no answer, after telling why if somebody should know.
func (p *Poller) listed(ctx, call context.Context, client podsapi.PodsClient) ([]*corev1.Pod, bool) {
	answer, err := client.ListPods(call, &podsapi.ListPodsRequest{})
	if !p.answered(ctx, err) {
		if err != nil && p.isReady() && status.Code(err) != codes.FailedPrecondition {
			glog.Warningf("skip pod list reason=%q err=%v", "the kubelet does not answer", err)
		}
		return nil, false
	}
	pods := make([]*corev1.Pod, 0, len(answer.Pods))
	decoded := make(map[string]*corev1.Pod, len(answer.Pods))
	for _, encoded := range answer.Pods {
		pod := p.decoded[string(encoded)]
		if pod == nil {
			pod = &corev1.Pod{}
			if err := pod.Unmarshal(encoded); err != nil {
				// Half a list would tell of absences that are none.
				glog.Errorf("skip pod list reason=%q err=%v", "a pod does not decode", err)
				return nil, false
			}
		}
		decoded[string(encoded)] = pod
		pods = append(pods, pod)
	}
	p.decoded = decoded
	return pods, true
}

// join adds the pods that the runtime has and the kubelet forgot, as the kubelet showed them last.
func (p *Poller) join(listed, live []*corev1.Pod) []*corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	present := map[types.UID]*corev1.Pod{}
	for _, pod := range listed {
		present[pod.UID] = pod
	}
	for _, pod := range live {
		if present[pod.UID] != nil {
			continue
		}
		if known := p.last[pod.UID]; known != nil {
			pod = known
		}
		present[pod.UID] = pod
	}
	p.last = present
	return slices.SortedFunc(maps.Values(present), func(a, b *corev1.Pod) int {
		switch {
		case a.UID < b.UID:
			return -1
		case a.UID > b.UID:
			return 1
		}
		return 0
	})
}

// watch posts changes until the stream breaks. The kubelet drops a watcher that is slow; it is simply made anew, and
// the list covers what was missed.
func (p *Poller) watch(ctx context.Context, client podsapi.PodsClient) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer p.setChanged(true)
	p.setChanged(true)
	stream, err := client.WatchPods(ctx, &podsapi.WatchPodsRequest{})
	if err != nil {
		return
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			if ctx.Err() == nil && err != io.EOF && p.isReady() && status.Code(err) != codes.FailedPrecondition {
				glog.Warningf("restart pod watch err=%v", err)
			}
			return
		}
		p.setChanged(true)
		if event.Type != podsapi.EventType_ADDED && event.Type != podsapi.EventType_MODIFIED {
			// DELETED tells of the kubelet's memory, not of containers; absence shows in the list alone.
			continue
		}
		pod := &corev1.Pod{}
		if err := pod.Unmarshal(event.Pod); err != nil {
			glog.Errorf("skip pod event reason=%q err=%v", "the pod does not decode", err)
			continue
		}
		p.deps.Post(ctx, core.KubeletPod{Pod: pod})
	}
}

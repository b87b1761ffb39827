package poller

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/mesopod/mesopod/executor/core"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) {
	// glog flushes in a goroutine that it starts when it is imported.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// kubelet is a stand-in for the kubelet's PodsAPI, and for the runtime beside it.
type kubelet struct {
	podsapi.UnimplementedPodsServer
	mu      sync.Mutex
	ready   bool
	pods    []*corev1.Pod
	live    []*corev1.Pod
	liveErr error
	listErr error
	// slow, when set, holds Live up until it is closed; asked tells of each call.
	slow, asked chan struct{}
	changes     chan *podsapi.WatchPodsEvent
	// lives counts the calls of Live.
	lives int
}

func (k *kubelet) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *kubelet) check() error {
	if !k.ready {
		return status.Error(codes.FailedPrecondition, "Kubelet is initializing")
	}
	return nil
}

func (k *kubelet) ListPods(context.Context, *podsapi.ListPodsRequest) (*podsapi.ListPodsResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.check(); err != nil {
		return nil, err
	}
	if k.listErr != nil {
		return nil, k.listErr
	}
	answer := &podsapi.ListPodsResponse{}
	for _, pod := range k.pods {
		answer.Pods = append(answer.Pods, encode(pod))
	}
	return answer, nil
}

func (k *kubelet) WatchPods(_ *podsapi.WatchPodsRequest, stream podsapi.Pods_WatchPodsServer) error {
	k.mu.Lock()
	err := k.check()
	k.mu.Unlock()
	if err != nil {
		return err
	}
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case event := <-k.changes:
			if event == nil {
				return status.Error(codes.ResourceExhausted, "watch client channel closed")
			}
			if err := stream.Send(event); err != nil {
				return err
			}
		}
	}
}

func encode(pod *corev1.Pod) []byte {
	data, err := pod.Marshal()
	if err != nil {
		panic(err)
	}
	return data
}

func (k *kubelet) Live(ctx context.Context) ([]*corev1.Pod, error) {
	k.mu.Lock()
	slow := k.slow
	k.mu.Unlock()
	if slow != nil {
		k.asked <- struct{}{}
		select {
		case <-slow:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lives++
	return k.live, k.liveErr
}

func pod(uid string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p-" + uid, UID: types.UID(uid)}, Status: corev1.PodStatus{Phase: phase}}
}

func start(t *testing.T, k *kubelet) <-chan core.Event {
	socket := filepath.Join(t.TempDir(), "p.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podsapi.RegisterPodsServer(server, k)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	events := make(chan core.Event)
	p := New(Config{Socket: socket, Interval: 5 * time.Millisecond}, Deps{Live: k.Live, Post: func(ctx context.Context, e core.Event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		server.Stop()
		<-served
	})
	return events
}

// until takes events until one is what the test waits for; the pace of lists is not the test's.
func until[E core.Event](t *testing.T, events <-chan core.Event, want func(E) bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case event := <-events:
			if e, ok := event.(E); ok && want(e) {
				return
			}
		case <-deadline:
			t.Fatalf("no such event within %v", patience)
		}
	}
}

func phases(pods []*corev1.Pod) map[types.UID]corev1.PodPhase {
	all := map[types.UID]corev1.PodPhase{}
	for _, pod := range pods {
		all[pod.UID] = pod.Status.Phase
	}
	return all
}

// A kubelet that waits for its first snapshot is ready to take one: FailedPrecondition is an answer, and no list.
func TestReadyBeforeFirstSnapshot(t *testing.T) {
	k := &kubelet{}
	events := start(t, k)
	select {
	case event := <-events:
		if _, ok := event.(core.KubeletReady); !ok {
			t.Fatalf("first event %T", event)
		}
	case <-time.After(patience):
		t.Fatal("not ready")
	}
	k.set(func() { k.ready = true; k.pods = []*corev1.Pod{pod("a", corev1.PodPending)} })
	until(t, events, func(e core.KubeletPods) bool { return phases(e.Pods)["a"] == corev1.PodPending })
}

// EX-64, EX-76: a pod that the kubelet forgot stays, as it was shown last, as long as the runtime has its processes.
func TestAbsenceNeedsTheRuntime(t *testing.T) {
	bare := pod("a", "")
	k := &kubelet{ready: true, pods: []*corev1.Pod{pod("a", corev1.PodRunning)}, live: []*corev1.Pod{bare}}
	events := start(t, k)
	until(t, events, func(e core.KubeletPods) bool { return phases(e.Pods)["a"] == corev1.PodRunning })
	k.set(func() { k.pods = []*corev1.Pod{pod("b", corev1.PodPending)} }) // forced deletion: a is forgotten
	until(t, events, func(e core.KubeletPods) bool {
		got := phases(e.Pods)
		if _, there := got["b"]; there && got["a"] != corev1.PodRunning {
			t.Errorf("pods %v", got)
		}
		return got["b"] == corev1.PodPending
	})
	k.set(func() { k.live = nil })
	until(t, events, func(e core.KubeletPods) bool {
		got := phases(e.Pods)
		_, there := got["a"]
		return !there && len(got) == 1
	})
}

// EX-64: a runtime that cannot be asked is no proof of absence, so there is no list at all.
func TestRuntimeAway(t *testing.T) {
	k := &kubelet{ready: true, pods: []*corev1.Pod{pod("a", corev1.PodRunning)}, changes: make(chan *podsapi.WatchPodsEvent, 10)}
	events := start(t, k)
	until(t, events, func(e core.KubeletPods) bool { return len(e.Pods) == 1 })
	k.set(func() { k.liveErr = errors.New("away"); k.pods = nil })
	// The watch goes on meanwhile; lists asked before the change may still come, but none is empty.
	k.changes <- &podsapi.WatchPodsEvent{Type: podsapi.EventType_DELETED, Pod: encode(pod("a", ""))}
	k.changes <- &podsapi.WatchPodsEvent{Type: podsapi.EventType_INITIAL_SYNC_COMPLETE}
	k.changes <- &podsapi.WatchPodsEvent{Type: podsapi.EventType_MODIFIED, Pod: []byte("garbage")}
	k.changes <- nil // the kubelet drops a slow watcher
	k.changes <- &podsapi.WatchPodsEvent{Type: podsapi.EventType_MODIFIED, Pod: encode(pod("a", corev1.PodFailed))}
	deadline := time.After(patience)
	for {
		select {
		case event := <-events:
			switch e := event.(type) {
			case core.KubeletPods:
				if len(e.Pods) == 0 {
					t.Fatal("an absence without proof")
				}
			case core.KubeletPod:
				if e.Pod.Status.Phase != corev1.PodFailed {
					t.Fatalf("event for %v", e.Pod)
				}
				return
			}
		case <-deadline:
			t.Fatal("no change came")
		}
	}
}

// EX-43, EX-49: a list that fails is no status, and is asked for again.
func TestAsksAgain(t *testing.T) {
	k := &kubelet{ready: true, listErr: status.Error(codes.Internal, "no"), changes: make(chan *podsapi.WatchPodsEvent, 10)}
	events := start(t, k)
	// The watch works meanwhile, so the lists fail and do not merely come late.
	k.changes <- &podsapi.WatchPodsEvent{Type: podsapi.EventType_ADDED, Pod: encode(pod("a", corev1.PodPending))}
	until(t, events, func(core.KubeletPod) bool { return true })
	k.set(func() { k.listErr = nil; k.pods = []*corev1.Pod{pod("a", corev1.PodRunning)} })
	until(t, events, func(e core.KubeletPods) bool {
		if phases(e.Pods)["a"] != corev1.PodRunning {
			t.Errorf("a list from before: %v", e.Pods)
		}
		return true
	})
}

// EX-67: a status call that hangs holds nothing up: changes come on.
func TestSlowList(t *testing.T) {
	k := &kubelet{ready: true, slow: make(chan struct{}), asked: make(chan struct{}, 100), changes: make(chan *podsapi.WatchPodsEvent, 10)}
	events := start(t, k)
	<-k.asked
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded} {
		k.changes <- &podsapi.WatchPodsEvent{Type: podsapi.EventType_MODIFIED, Pod: encode(pod("a", phase))}
		until(t, events, func(e core.KubeletPod) bool { return e.Pod.Status.Phase == phase })
	}
	slow := k.slow
	k.set(func() { k.slow = nil })
	close(slow)
	until(t, events, func(core.KubeletPods) bool { return true })
}

// EX-60, EX-64: while nothing happens the runtime is left alone; one event, or one absence, and it is asked again.
func TestIdleAsksNoRuntime(t *testing.T) {
	k := &kubelet{ready: true, pods: []*corev1.Pod{pod("a", corev1.PodRunning)}, live: []*corev1.Pod{pod("a", "")},
		changes: make(chan *podsapi.WatchPodsEvent)}
	events := start(t, k)
	asked := func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.lives
	}
	quiet := func() {
		t.Helper()
		lists, before := 0, -1
		until(t, events, func(core.KubeletPods) bool {
			if now := asked(); now != before {
				lists, before = 0, now
			}
			lists++
			return lists == 20
		})
	}
	quiet()
	before := asked()
	k.changes <- &podsapi.WatchPodsEvent{Type: podsapi.EventType_DELETED, Pod: encode(pod("b", ""))}
	until(t, events, func(core.KubeletPods) bool { return asked() > before })
	quiet()
	before = asked()
	k.set(func() { k.pods = nil })
	until(t, events, func(e core.KubeletPods) bool {
		if len(e.Pods) == 0 {
			t.Fatal("an absence that the runtime was not asked about")
		}
		return asked() > before+2
	})
}

package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	mesosscheduler "github.com/mesos/mesos-go/api/v1/lib/scheduler"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	ktesting "k8s.io/client-go/testing"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// quickly is an election for tests: what takes seconds elsewhere takes tenths of them.
func quickly(client kubernetes.Interface) *election {
	return &election{client: client, told: func(string) {}, duration: time.Second, renew: 500 * time.Millisecond, retry: 50 * time.Millisecond}
}

// Of two schedulers one subscribes; when it stops the other goes on as the same framework.
func TestStandby(t *testing.T) {
	client, m := newAPIServer("37"), newFakeMaster(t)
	run := func() (s *Scheduler, stop func()) {
		cfg := testConfig(m.host())
		cfg.LeaderElect = true
		s, err := New(cfg, Deps{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		s.election = quickly(client)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		return s, func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("scheduler ended with %v", err)
			}
		}
	}
	first, stopFirst := run()
	m.await(t, mesosscheduler.Call_SUBSCRIBE)
	<-first.Ready()
	second, stopSecond := run()
	_, stopThird := run()
	select {
	case <-second.Ready():
		t.Error("the standby works beside the leader")
	case <-time.After(300 * time.Millisecond): // the master would have seen it, at a few retries
	}
	for !second.kube.Pods().HasSynced() || !second.kube.Nodes().HasSynced() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the standby does not list pods and nodes")
		}
	}
	stopThird() // one that never led ends without a word
	stopFirst()
	if call := m.await(t, mesosscheduler.Call_SUBSCRIBE); call.FrameworkID.GetValue() != "F1" {
		t.Errorf("the standby subscribes as %v, want F1", call.FrameworkID)
	}
	<-second.Ready()
	stopSecond()
}

// A leader that cannot renew its lease stops its work before another one takes over, and says so.
func TestLeaseLost(t *testing.T) {
	client := newAPIServer("37")
	e := quickly(client)
	began := make(chan struct{})
	lost := make(chan error, 1)
	go func() {
		lost <- e.lead(t.Context(), func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			return nil
		})
	}()
	<-began
	client.PrependReactor("*", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("the API server is away")
	})
	select {
	case err := <-lost:
		if !errors.Is(err, errdefs.ErrConflict) {
			t.Errorf("got %v, want a conflict", err)
		}
	case <-time.After(patience):
		t.Error("it goes on without its lease")
	}
}

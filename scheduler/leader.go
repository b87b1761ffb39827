package scheduler

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/golang/glog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// LeaseName is the Lease, in Namespace, that schedulers with Config.LeaderElect hold one after the other.
const LeaseName = "mesopod-scheduler"

// election says who of several schedulers works. The times are kube-scheduler's own: a leader that does not renew for
// renew gives up before, at duration, another one takes over; both ask every retry.
type election struct {
	client                 kubernetes.Interface
	duration, renew, retry time.Duration
	// told is called with each leader's identity.
	told func(leader string)
}

func newElection(client kubernetes.Interface, told func(leader string)) *election {
	return &election{client: client, told: told, duration: 15 * time.Second, renew: 10 * time.Second, retry: 2 * time.Second}
}

// lead waits for the lease, however long, and then runs work with a context that ends with ctx or with the lease. The lease
// is given back when work has ended, so that the next one need not wait. A lease that is lost is errdefs.ErrConflict.
func (e *election) lead(ctx context.Context, work func(context.Context) error) error {
	if err := e.prepare(ctx); err != nil {
		return err
	}
	holder, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var leads atomic.Bool // set once, by whoever comes first: the lease or the end of ctx
	defer context.AfterFunc(ctx, func() {
		if leads.CompareAndSwap(false, true) {
			stop()
		}
	})()
	ended := make(chan error, 1)
	host, _ := os.Hostname() // for people only
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: Namespace, Name: LeaseName}, Client: e.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		LeaseDuration: e.duration, RenewDeadline: e.renew, RetryPeriod: e.retry, ReleaseOnCancel: true, Name: LeaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				defer stop()
				if leads.CompareAndSwap(false, true) {
					glog.Info("hold lease; this scheduler works")
					ended <- during(ctx, leading, work)
					return
				}
				ended <- nil
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				glog.Infof("see leader identity=%s", identity)
				e.told(identity)
			},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w: %w", errdefs.ErrInvalid, err)
	}
	elector.Run(holder)
	select {
	case err := <-ended:
		return err
	default:
	}
	if ctx.Err() != nil {
		return nil // it never led
	}
	// The lease was lost while work runs; its context has ended by now.
	return <-ended
}

// during runs work until ctx or the lease ends, whichever is first.
func during(ctx, leading context.Context, work func(context.Context) error) error {
	both, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(leading, end)()
	err := work(both)
	if err == nil && ctx.Err() == nil && leading.Err() != nil {
		return fmt.Errorf("lease %s/%s was lost, another scheduler may lead: %w", Namespace, LeaseName, errdefs.ErrConflict)
	}
	return err
}

// prepare makes the lease's namespace.
func (e *election) prepare(ctx context.Context) error {
	err := patiently(ctx, func(ctx context.Context) error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
		_, err := e.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return withKind(err, "create namespace "+Namespace)
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mesopod/mesopod/test/cluster"
)

// churn keeps a number of pods in the cluster. Each has an end of its own, or is deleted some time, gently or by force.
type churn struct {
	pods   typed.PodInterface
	lister listers.PodLister
	want   int
	// real is how many of a hundred run on agents with processes.
	real int
	rand *rand.Rand
	made int
}

// follow tells history of each pod from now on, and returns the list that is kept up to date.
func follow(ctx context.Context, c *cluster.Cluster, h *history) (listers.PodLister, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithNamespace(cluster.Namespace))
	pods := factory.Core().V1().Pods()
	tell := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			h.pod(pod)
		}
	}
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, now any) { tell(now) }, DeleteFunc: tell,
	}); err != nil {
		return nil, err
	}
	lister := pods.Lister()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced) {
		return nil, ctx.Err()
	}
	return lister, nil
}

// turn removes what has ended, deletes one living pod in so many, and makes new ones in their places.
func (c *churn) turn(ctx context.Context) error {
	all, err := c.lister.Pods(cluster.Namespace).List(everything)
	if err != nil {
		return err
	}
	there := len(all)
	for _, pod := range all {
		over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if pod.DeletionTimestamp != nil || !over && c.rand.IntN(100) > 0 {
			continue
		}
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
		if !over && c.rand.IntN(4) == 0 {
			now := int64(0)
			options.GracePeriodSeconds = &now
		}
		if err := c.pods.Delete(ctx, pod.Name, options); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete pod %s: %w", pod.Name, err)
		}
		there--
	}
	for ; there < c.want; there++ {
		if _, err := c.pods.Create(ctx, c.next(), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod: %w", err)
		}
	}
	return nil
}

// next is a pod that runs for some seconds, fails in one of ten cases, or has no end.
func (c *churn) next() *corev1.Pod {
	c.made++
	seconds, code := 1+c.rand.IntN(20), 0
	if c.rand.IntN(10) == 0 {
		code = 1
	}
	forever := c.rand.IntN(3) == 0
	pod := cluster.NewPod(fmt.Sprintf("churn-%d", c.made), "")
	grace := int64(1 + c.rand.IntN(3))
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.Containers[0].Resources.Requests = cluster.Requests("10m", "8Mi")
	if c.rand.IntN(100) < c.real {
		pod.Spec.NodeSelector = map[string]string{realLabel: "true"}
		script := fmt.Sprintf("sleep %d; exit %d", seconds, code)
		if forever {
			script = cluster.Steady
		}
		pod.Spec.Containers[0].Command = []string{"sh", "-c", script}
		return pod
	}
	pod.Spec.NodeSelector = map[string]string{actedLabel: "true"}
	pod.Annotations = map[string]string{"sim.start-delay": fmt.Sprintf("%dms", c.rand.IntN(1500)), "sim.exit-code": fmt.Sprint(code)}
	if !forever {
		pod.Annotations["sim.run-time"] = (time.Duration(seconds) * time.Second).String()
	}
	return pod
}

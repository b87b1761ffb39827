package runtime

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/backoff"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// The labels that the kubelet puts on each container.
const (
	labelPodName      = "io.kubernetes.pod.name"
	labelPodNamespace = "io.kubernetes.pod.namespace"
	labelPodUID       = "io.kubernetes.pod.uid"
)

func reconnect() backoff.Config {
	return backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}
}

// Live returns the pods that have a ready sandbox or a running container: those whose processes exist. Each has
// namespace, name and UID only. The error is errdefs.ErrUnavailable.
func (r *Runtime) Live(ctx context.Context) ([]*corev1.Pod, error) {
	sandboxes, err := r.cri.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{
		State: &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_READY},
	}})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w: %w", errdefs.ErrUnavailable, err)
	}
	containers, err := r.cri.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w: %w", errdefs.ErrUnavailable, err)
	}
	var pods []*corev1.Pod
	seen := map[string]bool{}
	add := func(namespace, name, uid string) {
		if uid != "" && !seen[uid] {
			seen[uid] = true
			pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}})
		}
	}
	for _, s := range sandboxes.Items {
		if s.Metadata != nil {
			add(s.Metadata.Namespace, s.Metadata.Name, s.Metadata.Uid)
		}
	}
	for _, c := range containers.Containers {
		add(c.Labels[labelPodNamespace], c.Labels[labelPodName], c.Labels[labelPodUID])
	}
	return pods, nil
}

// stopReserve is what containerd may take beyond the grace period.
const stopReserve = 30 * time.Second

// Stop ends the running containers of a pod all at once: SIGTERM, or the image's signal, then SIGKILL after the grace period, which is
// rounded up to seconds; without one SIGKILL at once. It returns when they have ended. An earlier call with more time, as the
// kubelet's, returns then too. The error is errdefs.ErrUnavailable; what ended is ended.
func (r *Runtime) Stop(ctx context.Context, uid types.UID, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+stopReserve)
	defer cancel()
	list, err := r.cri.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{
		State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}, LabelSelector: map[string]string{labelPodUID: string(uid)},
	}})
	if err != nil {
		return fmt.Errorf("list containers of pod %s: %w: %w", uid, errdefs.ErrUnavailable, err)
	}
	seconds := int64((grace + time.Second - 1) / time.Second)
	var all errgroup.Group
	for _, c := range list.Containers {
		all.Go(func() error {
			if _, err := r.cri.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: c.Id, Timeout: seconds}); err != nil {
				return fmt.Errorf("stop container %s of pod %s: %w: %w", c.Id, uid, errdefs.ErrUnavailable, err)
			}
			return nil
		})
	}
	return all.Wait()
}

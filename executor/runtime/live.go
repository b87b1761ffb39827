package runtime

import (
	"context"
	"fmt"
	"time"

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

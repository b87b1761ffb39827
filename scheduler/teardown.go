package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/mesosconn"
)

// Teardown is the end of a framework: planned, shown to a person, then done. Nothing else in mesopod tears a framework down.
type Teardown struct {
	// FrameworkID is the one that is stored.
	FrameworkID string
	// Nodes of agents, by name, and Pods of ours that have not ended, as namespace/name.
	Nodes, Pods []string

	client kubernetes.Interface
	master *mesosconn.Operator
}

// PlanTeardown looks at what a teardown by way of this operator would end. The error is errdefs.ErrNotFound when no
// framework is stored.
func PlanTeardown(ctx context.Context, kubeconfig string, master *mesosconn.Operator) (*Teardown, error) {
	deps, err := connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	t := &Teardown{client: deps.Client, master: master}
	return t, t.look(ctx)
}

func (t *Teardown) look(ctx context.Context) (err error) {
	if t.FrameworkID, err = loadFrameworkID(ctx, t.client); err != nil {
		return err
	}
	if t.FrameworkID == "" {
		return fmt.Errorf("ConfigMap %s/%s holds no framework id, so there is nothing to tear down: %w", Namespace, ConfigMapName, errdefs.ErrNotFound)
	}
	nodes, err := t.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return withKind(err, "list nodes")
	}
	for i := range nodes.Items {
		if nodes.Items[i].Annotations[messages.AnnotationAgentID] != "" {
			t.Nodes = append(t.Nodes, nodes.Items[i].Name)
		}
	}
	pods, err := t.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return withKind(err, "list pods")
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !ended && slices.Contains(t.Nodes, pod.Spec.NodeName) {
			t.Pods = append(t.Pods, podKey(pod))
		}
	}
	return nil
}

// Do ends the framework in Mesos, then removes its Nodes and its id. What it has done before it failed is done; it can be
// called again.
func (t *Teardown) Do(ctx context.Context) error {
	if err := t.master.Teardown(ctx, t.FrameworkID); err != nil {
		return fmt.Errorf("tear down framework %s: %w", t.FrameworkID, err)
	}
	w := newWriter(t.client, nil)
	var faults []error
	for _, node := range t.Nodes {
		faults = append(faults, w.deleteNode(ctx, node))
	}
	faults = append(faults, forgetFrameworkID(ctx, t.client, t.FrameworkID))
	return errors.Join(faults...)
}

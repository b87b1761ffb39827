package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mesopod/mesopod/messages"
)

// probe is a request that a policy must refuse.
type probe struct {
	policy string
	as     rest.ImpersonationConfig
	try    func(context.Context, kubernetes.Interface) error
}

// probes has one for each policy in policies.yaml. None can do anything: the pods
// do not exist and the requests are dry runs.
var probes = []probe{
	{
		policy: "mesopod-executor-bindings",
		as:     rest.ImpersonationConfig{UserName: ExecutorUser("probe"), Groups: []string{ExecutorsGroup, "system:authenticated"}},
		try:    func(ctx context.Context, c kubernetes.Interface) error { return tryBinding(ctx, c, "another", nil) },
	},
	{
		// This user may make pods, but has no node.
		policy: "mesopod-executor-pods",
		as:     rest.ImpersonationConfig{UserName: ExecutorUser("probe"), Groups: []string{"system:masters", "system:authenticated"}},
		try:    tryPod,
	},
	{
		policy: "mesopod-annotations",
		as:     rest.ImpersonationConfig{UserName: "system:kube-scheduler", Groups: []string{"system:authenticated"}},
		try: func(ctx context.Context, c kubernetes.Interface) error {
			return tryBinding(ctx, c, "probe", map[string]string{messages.AnnotationTaskID: "probe"})
		},
	},
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

func tryBinding(ctx context.Context, client kubernetes.Interface, node string, annotations map[string]string) error {
	return client.CoreV1().Pods(systemNamespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "mesopod-policy-probe", Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, dryRun)
}

// tryPod uses the namespace whose service account the controllers have made by then.
func tryPod(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "mesopod-policy-probe"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe"}}},
	}, dryRun)
	return err
}

// policiesEnforced waits until the API server refuses what our policies forbid. It
// begins to enforce a policy some time after it has stored it: up to a second.
func (a *admin) policiesEnforced(ctx context.Context) error {
	for _, p := range probes {
		as := rest.CopyConfig(a.config)
		as.Impersonate = p.as
		client, err := kubernetes.NewForConfig(as)
		if err != nil {
			return fmt.Errorf("make client: %w", err)
		}
		if err := poll(ctx, func(ctx context.Context) error { return p.refused(ctx, client) }); err != nil {
			return fmt.Errorf("policy %s: %w", p.policy, err)
		}
	}
	return nil
}

// refused is nil if the probe was refused by its policy.
func (p probe) refused(ctx context.Context, client kubernetes.Interface) error {
	err := p.try(ctx, client)
	switch {
	case err == nil:
		return errors.New("is not enforced yet: nobody refuses the probe")
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), p.policy):
		return nil
	}
	return fmt.Errorf("is not enforced yet: %w", err)
}

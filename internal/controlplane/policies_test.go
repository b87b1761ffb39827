package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mesopod/mesopod/contrib/manifests"
	"github.com/mesopod/mesopod/messages"
)

// podNames gives each pod of these tests a name of its own.
var podNames int

// mustPod makes a pod that is bound to node, or to none.
func mustPod(t *testing.T, admin kubernetes.Interface, node string) string {
	t.Helper()
	podNames++
	pod := pause(fmt.Sprintf("policy-%d", podNames))
	pod.Spec.NodeName = node
	pod.Labels, pod.Annotations = map[string]string{"app": "x"}, map[string]string{"team": "theirs"}
	if _, err := admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return pod.Name
}

// mustBe makes a client that acts as somebody else.
func mustBe(t *testing.T, p *Plane, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", p.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// forbidden fails the test unless the error is a refusal whose text has words.
func forbidden(t *testing.T, what string, err error, words string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v, want a refusal with %q", what, err, words)
	}
}

func bindTo(ctx context.Context, client kubernetes.Interface, pod, node string, annotations map[string]string) error {
	return client.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Annotations: annotations},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

func patch(ctx context.Context, client kubernetes.Interface, pod, text string, subresource ...string) error {
	_, err := client.CoreV1().Pods("default").Patch(ctx, pod, types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresource...)
	return err
}

// setAnnotation is a merge patch; an empty value removes the key.
func setAnnotation(key, value string) string {
	var v any
	if value != "" {
		v = value
	}
	// A map of strings cannot fail to be encoded.
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: v}}})
	return string(text)
}

// The policies hold executors to their node, and keep our annotations from
// everybody else. Nothing here waits: Ready says that they are enforced.
func testPolicies(t *testing.T, p *Plane) {
	admin := mustClient(t, p.AdminKubeconfig())
	mustNode(t, admin, "p1")
	mustNode(t, admin, "p2")
	kubeconfig, err := p.ExecutorKubeconfig("p1")
	if err != nil {
		t.Fatal(err)
	}
	executor := mustClient(t, kubeconfig)
	t.Run("executor binds", func(t *testing.T) { testExecutorBinds(t, admin, executor) })
	t.Run("executor writes", func(t *testing.T) { testExecutorWrites(t, admin, executor) })
	t.Run("executor is marked twice", func(t *testing.T) { testHalfExecutor(t, p, admin) })
	t.Run("evictions", func(t *testing.T) { testEvictions(t, p, admin, executor) })
	t.Run("annotations", func(t *testing.T) { testAnnotations(t, p, admin) })
	t.Run("types", func(t *testing.T) { testPolicyTypes(t, admin) })
}

func testExecutorBinds(t *testing.T, admin, executor kubernetes.Interface) {
	const own = "may bind pods to its own node only"
	pod := mustPod(t, admin, "")
	ours := map[string]string{messages.AnnotationTaskID: "u.1", messages.AnnotationBindingHost: "p1"}
	forbidden(t, "bind to another node", bindTo(t.Context(), executor, pod, "p2", ours), own)
	forbidden(t, "bind with a foreign annotation",
		bindTo(t.Context(), executor, pod, "p1", map[string]string{"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}), "prefix")
	if err := bindTo(t.Context(), executor, pod, "p1", ours); err != nil {
		t.Errorf("bind to its own node: %v", err)
	}
	got, err := admin.CoreV1().Pods("default").Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil || got.Spec.NodeName != "p1" || got.Annotations[messages.AnnotationTaskID] != "u.1" {
		t.Errorf("after the binding: node %q, annotations %v, %v", got.Spec.NodeName, got.Annotations, err)
	}
}

func testExecutorWrites(t *testing.T, admin, executor kubernetes.Interface) {
	const own, prefix = "may write pods of its own node only", "annotations with the prefix"
	mine, theirs, unbound := mustPod(t, admin, "p1"), mustPod(t, admin, "p2"), mustPod(t, admin, "")
	ours := setAnnotation(messages.AnnotationTaskID, "u.1")
	if err := patch(t.Context(), executor, mine, ours); err != nil {
		t.Errorf("annotate a pod of its node: %v", err)
	}
	forbidden(t, "annotate a pod of another node", patch(t.Context(), executor, theirs, ours), own)
	forbidden(t, "annotate an unbound pod", patch(t.Context(), executor, unbound, ours), own)
	for what, text := range map[string]string{
		"add an annotation":    setAnnotation("other", "x"),
		"change an annotation": setAnnotation("team", "x"),
		"remove an annotation": setAnnotation("team", ""),
		"prefix without slash": setAnnotation("k8s.mesosphere.io.example/x", "x"),
		"change a label":       `{"metadata":{"labels":{"app":"y"}}}`,
		"set a deadline":       `{"spec":{"activeDeadlineSeconds":5}}`,
		"add a finalizer":      `{"metadata":{"finalizers":["example.test/x"]}}`,
		"add an owner":         `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"p1","uid":"1"}]}}`,
	} {
		forbidden(t, what, patch(t.Context(), executor, mine, text), prefix)
	}
	forbidden(t, "write a pod's status", patch(t.Context(), executor, mine, `{"status":{"phase":"Running"}}`, "status"), "pods/status")
	at := int64(0)
	now := metav1.DeleteOptions{GracePeriodSeconds: &at}
	pods := executor.CoreV1().Pods("default")
	forbidden(t, "delete a pod of another node", pods.Delete(t.Context(), theirs, now), own)
	forbidden(t, "delete an unbound pod", pods.Delete(t.Context(), unbound, now), own)
	if err := pods.Delete(t.Context(), mine, now); err != nil {
		t.Errorf("delete a pod of its node: %v", err)
	}
	if err := pods.DeleteCollection(t.Context(), now, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete all pods: %v, want forbidden", err)
	}
	if _, err := executor.CoreV1().Secrets("default").Get(t.Context(), "any", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("read a secret: %v, want forbidden", err)
	}
	if _, err := executor.CoreV1().Nodes().Patch(t.Context(), "p2", types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`),
		metav1.PatchOptions{}, "status"); !apierrors.IsForbidden(err) {
		t.Errorf("write another node's status: %v, want forbidden", err)
	}
}

// Who has the group without the name, or the name without the group, and enough
// other rights, is no executor of any node.
func testHalfExecutor(t *testing.T, p *Plane, admin kubernetes.Interface) {
	pod := mustPod(t, admin, "")
	const both = "an executor is the user"
	err := bindTo(t.Context(), mustBe(t, p, "somebody", ExecutorsGroup), pod, "p1", nil)
	forbidden(t, "group without name", err, both)
	err = bindTo(t.Context(), mustBe(t, p, ExecutorUser("p1"), "system:masters"), pod, "p1", nil)
	forbidden(t, "name without group", err, both)
}

// Evictions are the kubelet's: NodeRestriction knows the node of the pod.
func testEvictions(t *testing.T, p *Plane, admin, executor kubernetes.Interface) {
	kubeconfig, err := p.KubeletKubeconfig("p1")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := mustClient(t, kubeconfig)
	evict := func(client kubernetes.Interface, pod string) error {
		var err error
		// NodeRestriction looks pods up in a cache, where new ones come a little later.
		if late := poll(t.Context(), func(ctx context.Context) error {
			err = client.PolicyV1().Evictions("default").Evict(ctx,
				&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "default"}})
			if apierrors.IsNotFound(err) {
				return err
			}
			return nil
		}); late != nil {
			return late
		}
		return err
	}
	mine, theirs := mustPod(t, admin, "p1"), mustPod(t, admin, "p2")
	forbidden(t, "executor evicts", evict(executor, mine), "pods/eviction")
	forbidden(t, "kubelet evicts from another node", evict(kubelet, theirs), "can only evict pods with spec.nodeName set to itself")
	if err := evict(kubelet, mine); err != nil {
		t.Errorf("kubelet evicts from its node: %v", err)
	}
}

// mustEditor is a user who may write all pods, their status and bindings.
func mustEditor(t *testing.T, p *Plane, admin kubernetes.Interface) kubernetes.Interface {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-editor"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"pods", "pods/status", "pods/binding"}, Verbs: []string{"*"},
	}}}
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-editor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "editor"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := mustBe(t, p, "editor")
	// The authorizer learns of new roles a little later.
	if err := poll(t.Context(), func(ctx context.Context) error {
		_, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return client
}

func testAnnotations(t *testing.T, p *Plane, admin kubernetes.Interface) {
	const alone = "are written by mesopod alone"
	editor := mustEditor(t, p, admin)
	forged := pause("forged")
	forged.Annotations = map[string]string{messages.AnnotationTaskID: "u.1"}
	_, err := editor.CoreV1().Pods("default").Create(t.Context(), forged, metav1.CreateOptions{})
	forbidden(t, "create a pod", err, alone)
	pod := mustPod(t, admin, "")
	set := setAnnotation(messages.AnnotationTaskID, "u.2")
	forbidden(t, "set", patch(t.Context(), editor, pod, set), alone)
	forbidden(t, "set with the status", patch(t.Context(), editor, pod, set, "status"), alone)
	forbidden(t, "set by binding", bindTo(t.Context(), editor, pod, "p1", map[string]string{messages.AnnotationTaskID: "u.2"}), alone)
	// A pod that has them may be written, but not they.
	if err := patch(t.Context(), admin, pod, set); err != nil {
		t.Fatalf("an administrator: %v", err)
	}
	forbidden(t, "change", patch(t.Context(), editor, pod, setAnnotation(messages.AnnotationTaskID, "u.3")), alone)
	forbidden(t, "remove", patch(t.Context(), editor, pod, setAnnotation(messages.AnnotationTaskID, "")), alone)
	forbidden(t, "remove all", patch(t.Context(), editor, pod, `{"metadata":{"annotations":null}}`), alone)
	if err := patch(t.Context(), editor, pod, setAnnotation("team", "ours")); err != nil {
		t.Errorf("an annotation of his own: %v", err)
	}
	kubeconfig, err := p.SchedulerKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	if err := patch(t.Context(), mustClient(t, kubeconfig), pod, setAnnotation(messages.AnnotationTaskID, "u.4")); err != nil {
		t.Errorf("the scheduler: %v", err)
	}
}

// The API server's own check of expressions against types finds no fault.
func testPolicyTypes(t *testing.T, admin kubernetes.Interface) {
	for _, probe := range probes {
		if err := poll(t.Context(), func(ctx context.Context) error {
			policy, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, probe.policy, metav1.GetOptions{})
			if err == nil && policy.Status.ObservedGeneration != policy.Generation {
				err = errors.New("types are not checked yet")
			}
			if err == nil && policy.Status.TypeChecking != nil {
				for _, w := range policy.Status.TypeChecking.ExpressionWarnings {
					t.Errorf("%s: %s: %s", probe.policy, w.FieldRef, w.Warning)
				}
			}
			return err
		}); err != nil {
			t.Errorf("%s: %v", probe.policy, err)
		}
	}
	// Each policy has a probe, else Ready might come before it.
	objects, err := decode(manifests.Policies)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == "ValidatingAdmissionPolicy" && !slices.ContainsFunc(probes, func(p probe) bool { return p.policy == o.GetName() }) {
			t.Errorf("policy %s has no probe", o.GetName())
		}
	}
}

// With other-scheduler.yaml our pods tolerate the taint, others do not, and the
// rest of their tolerations stays.
func testOtherScheduler(t *testing.T, p *Plane) {
	a, err := newAdmin(p.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.applyFile(t.Context(), "other-scheduler.yaml", manifests.OtherScheduler); err != nil {
		t.Fatal(err)
	}
	tolerates := func(ctx context.Context, scheduler string, given ...corev1.Toleration) (ours, others int, err error) {
		pod := pause("tolerant")
		pod.Spec.SchedulerName, pod.Spec.Tolerations = scheduler, given
		made, err := a.typed.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return 0, 0, err
		}
		for _, t := range made.Spec.Tolerations {
			switch t.Key {
			case "k8s.mesosphere.io/mesos":
				ours++
			case "example.test/own":
				others++
			}
		}
		return ours, others, nil
	}
	own := corev1.Toleration{Key: "example.test/own", Operator: corev1.TolerationOpExists}
	if err := poll(t.Context(), func(ctx context.Context) error {
		ours, _, err := tolerates(ctx, messages.DefaultSchedulerName)
		if err == nil && ours == 0 {
			err = errors.New("the policy is not in force yet")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	explicit := corev1.Toleration{Key: "k8s.mesosphere.io/mesos", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	for _, c := range []struct {
		scheduler    string
		given        []corev1.Toleration
		ours, others int
	}{
		{messages.DefaultSchedulerName, nil, 1, 0},
		{messages.DefaultSchedulerName, []corev1.Toleration{own}, 1, 1},
		{messages.DefaultSchedulerName, []corev1.Toleration{own, explicit}, 1, 1},
		{"default-scheduler", []corev1.Toleration{own}, 0, 1},
	} {
		ours, others, err := tolerates(t.Context(), c.scheduler, c.given...)
		if err != nil || ours != c.ours || others != c.others {
			t.Errorf("scheduler %s, given %v: %d tolerations of ours and %d others, %v, want %d and %d",
				c.scheduler, c.given, ours, others, err, c.ours, c.others)
		}
	}
}

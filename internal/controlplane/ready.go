package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mesopod/mesopod/contrib/manifests"
)

const (
	// pollEvery is the time between two questions whether something is ready.
	pollEvery = 25 * time.Millisecond
	// startLimit is how long one part may take to become ready. A busy machine
	// needs far longer than an idle one, so it is generous.
	startLimit = 2 * time.Minute
	// fieldManager owns the fields of the objects applied here.
	fieldManager = "mesopod"
	// systemNamespace is where mesopod keeps its own objects.
	systemNamespace = "mesopod-system"
	// rootConfigMap is made in each namespace by a controller.
	rootConfigMap = "kube-root-ca.crt"
)

// admin watches the start and applies our objects, as an administrator.
type admin struct {
	config  *rest.Config
	typed   kubernetes.Interface
	dynamic dynamic.Interface
}

func newAdmin(kubeconfig string) (*admin, error) {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	// The start is a burst of small requests; there is no other client yet.
	c.QPS = -1
	typed, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &admin{config: c, typed: typed, dynamic: dyn}, nil
}

// poll asks until the answer is nil, and gives up with the last answer.
func poll(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not ready within %s: %w", startLimit, err)
			}
			return ctx.Err()
		}
	}
}

// serverReady waits for /readyz. The socket is bound before the server serves,
// so the first question waits in it and is answered as soon as anybody can.
func (a *admin) serverReady(ctx context.Context) error {
	return poll(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return a.typed.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// controllersReady waits until the controllers have made what the first pod
// needs. On data of an earlier run all that is there already; so one object
// that nobody depends on is removed, and its return proves that they work.
func (a *admin) controllersReady(ctx context.Context) error {
	maps := a.typed.CoreV1().ConfigMaps(systemNamespace)
	if err := maps.Delete(ctx, rootConfigMap, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove config map %s/%s: %w", systemNamespace, rootConfigMap, err)
	}
	return poll(ctx, func(ctx context.Context) error {
		if _, err := maps.Get(ctx, rootConfigMap, metav1.GetOptions{}); err != nil {
			return err
		}
		if _, err := a.typed.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, rootConfigMap, metav1.GetOptions{}); err != nil {
			return err
		}
		_, err := a.typed.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// resources names the API resource of each kind that our manifests may use, so
// that the start need not wait for discovery.
var resources = map[schema.GroupVersionKind]string{
	{Version: "v1", Kind: "Namespace"}:                                                               "namespaces",
	{Version: "v1", Kind: "ServiceAccount"}:                                                          "serviceaccounts",
	{Version: "v1", Kind: "ConfigMap"}:                                                               "configmaps",
	{Version: "v1", Kind: "Service"}:                                                                 "services",
	{Group: "apps", Version: "v1", Kind: "Deployment"}:                                               "deployments",
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}:                         "clusterroles",
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}:                  "clusterrolebindings",
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}:                                "roles",
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}:                         "rolebindings",
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"}:        "validatingadmissionpolicies",
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"}: "validatingadmissionpolicybindings",
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"}:          "mutatingadmissionpolicies",
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding"}:   "mutatingadmissionpolicybindings",
}

// applyManifests applies what an operator would apply by hand.
func (a *admin) applyManifests(ctx context.Context, more []Manifest) error {
	errs := []error{a.applyFile(ctx, "rbac.yaml", manifests.RBAC), a.applyFile(ctx, "policies.yaml", manifests.Policies)}
	for _, one := range more {
		errs = append(errs, a.applyFile(ctx, one.Name, one.Data))
	}
	return errors.Join(errs...)
}

// applyFile applies a file of contrib/manifests.
func (a *admin) applyFile(ctx context.Context, name string, data []byte) error {
	objects, err := decode(data)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	for _, o := range objects {
		if err := a.apply(ctx, o); err != nil {
			return fmt.Errorf("apply %s: %s %s: %w", name, o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func (a *admin) apply(ctx context.Context, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	resource, ok := resources[kind]
	if !ok {
		return fmt.Errorf("kind %s is not known here", kind)
	}
	var client dynamic.ResourceInterface = a.dynamic.Resource(kind.GroupVersion().WithResource(resource))
	if ns := o.GetNamespace(); ns != "" {
		client = a.dynamic.Resource(kind.GroupVersion().WithResource(resource)).Namespace(ns)
		// The API server makes its own namespaces shortly after it is ready.
		if err := poll(ctx, func(ctx context.Context) error {
			_, err := a.typed.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
			return err
		}); err != nil {
			return fmt.Errorf("namespace %s: %w", ns, err)
		}
	}
	// Force: the file says what holds, whoever has changed the object since.
	_, err := client.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// decode reads YAML documents.
func decode(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := d.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang/glog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Where the framework id is kept for the next scheduler.
const (
	// Namespace of what the scheduler keeps in the API server.
	Namespace = "mesopod-system"
	// ConfigMapName holds the framework id.
	ConfigMapName = "mesopod-scheduler"
	// FrameworkIDKey is the id's key in the ConfigMap's data.
	FrameworkIDKey = "frameworkID"
)

// startPause is the time between two tries to reach the API server at start.
const startPause = 2 * time.Second

// patiently tries again while the API server is away, until ctx ends. Other errors are returned at once.
func patiently(ctx context.Context, try func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, writeTimeout)
		err := try(attempt)
		cancel()
		if err == nil || !errors.Is(err, errdefs.ErrUnavailable) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		glog.Warningf("wait for API server reason=%q", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(startPause):
		}
	}
}

// checkServer refuses API servers that the embedded kube-scheduler and kubelet do not go with: a kubelet may not be newer
// than its API server, and is not made for one much newer.
func checkServer(client kubernetes.Interface) error {
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return withKind(err, "ask the API server for its version")
	}
	minor := strings.TrimSuffix(version.Minor, "+")
	if version.Major == "1" && (minor == "37" || minor == "38") {
		return nil
	}
	return fmt.Errorf("the API server is Kubernetes %s.%s (%s); this mesopod needs 1.37 or 1.38: %w",
		version.Major, version.Minor, version.GitVersion, errdefs.ErrRefused)
}

// loadFrameworkID returns the stored id, or "" when there is none.
func loadFrameworkID(ctx context.Context, client kubernetes.Interface) (string, error) {
	stored, err := client.CoreV1().ConfigMaps(Namespace).Get(ctx, ConfigMapName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", withKind(err, "read the framework id")
	}
	return stored.Data[FrameworkIDKey], nil
}

// forgetFrameworkID removes the stored id if it is this one: the framework has ended, and a new one is to be made. Any other
// id stays, so that a flag which nobody takes away does no harm at the next start.
func forgetFrameworkID(ctx context.Context, client kubernetes.Interface, id string) error {
	maps := client.CoreV1().ConfigMaps(Namespace)
	stored, err := maps.Get(ctx, ConfigMapName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && stored.Data[FrameworkIDKey] != id {
		return nil
	}
	if err != nil {
		return withKind(err, "read the framework id")
	}
	delete(stored.Data, FrameworkIDKey)
	_, err = maps.Update(ctx, stored, metav1.UpdateOptions{})
	return withKind(err, "forget the framework id")
}

// storeFrameworkID keeps the id. Another id that is stored already is errdefs.ErrConflict: two schedulers would each own
// half of the pods. A write that met another one of the ConfigMap is made again, on what that one has left.
func storeFrameworkID(ctx context.Context, client kubernetes.Interface, id string) error {
	return retry.OnError(retry.DefaultRetry, func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	}, func() error { return tryStoreFrameworkID(ctx, client, id) })
}

func tryStoreFrameworkID(ctx context.Context, client kubernetes.Interface, id string) error {
	maps := client.CoreV1().ConfigMaps(Namespace)
	stored, err := maps.Get(ctx, ConfigMapName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return createFrameworkID(ctx, client, id)
	}
	if err != nil {
		return withKind(err, "read the framework id")
	}
	switch old := stored.Data[FrameworkIDKey]; old {
	case id:
		return nil
	case "":
		if stored.Data == nil {
			stored.Data = map[string]string{}
		}
		stored.Data[FrameworkIDKey] = id
		_, err := maps.Update(ctx, stored, metav1.UpdateOptions{})
		return withKind(err, "store the framework id")
	default:
		return fmt.Errorf("ConfigMap %s/%s holds framework id %s, but Mesos gave %s; stop this scheduler if the other one runs, or delete the ConfigMap to go on as the new framework: %w",
			Namespace, ConfigMapName, old, id, errdefs.ErrConflict)
	}
}

// createNamespace makes the namespace of what the scheduler keeps, if there is none.
func createNamespace(ctx context.Context, client kubernetes.Interface) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return withKind(err, "create namespace "+Namespace)
	}
	return nil
}

func createFrameworkID(ctx context.Context, client kubernetes.Interface, id string) error {
	if err := createNamespace(ctx, client); err != nil {
		return err
	}
	_, err := client.CoreV1().ConfigMaps(Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: ConfigMapName, Namespace: Namespace},
		Data:       map[string]string{FrameworkIDKey: id},
	}, metav1.CreateOptions{})
	return withKind(err, "store the framework id")
}

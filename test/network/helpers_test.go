package network

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mesopod/mesopod/test/cluster"
)

// webPod is a pod of the web image on a node, ready when it serves, that answers for some seconds after its deletion.
func webPod(name, app, node string) *corev1.Pod {
	pod := cluster.OnNode(cluster.NewPod(name, ""), node)
	pod.Labels["app"] = app
	serveWeb(&pod.Spec)
	return pod
}

func serveWeb(spec *corev1.PodSpec) {
	c := &spec.Containers[0]
	c.Image, c.Command = cluster.Web, nil
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)},
	}}
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}}
	grace := int64(10)
	spec.TerminationGracePeriodSeconds = &grace
}

// createService makes a Service on port 80 for the pods of an app, and removes it when the test is over.
func createService(t *testing.T, app string, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app},
		Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	if change != nil {
		change(&service.Spec)
	}
	made, err := suite.Client.CoreV1().Services(cluster.Namespace).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := suite.Client.CoreV1().Services(cluster.Namespace).Delete(context.WithoutCancel(t.Context()), app, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete service %s: %v", app, err)
		}
	})
	return made
}

// waitReady waits until a pod's containers are ready.
func waitReady(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return suite.WaitPod(t, name, "to be ready", func(p *corev1.Pod) string {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "not ready"
	})
}

// page is a page of a web pod, as this machine sees it.
func page(ctx context.Context, ip, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ip+":8080"+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return strings.TrimSpace(string(text)), err
}

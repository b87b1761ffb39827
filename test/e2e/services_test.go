package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// webPod is a pod of the web image on a node, ready when it serves, that answers for some seconds after its deletion.
func webPod(name, app, node string) *corev1.Pod {
	pod := onNode(newPod(name, ""), node)
	pod.Labels["app"] = app
	c := &pod.Spec.Containers[0]
	c.Image, c.Command = web, nil
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)},
	}}
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}}
	grace := int64(10)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	return pod
}

// createService makes a Service on port 80 for the pods of an app, and removes it when the test is over.
func createService(t *testing.T, app string, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app},
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	if change != nil {
		change(&service.Spec)
	}
	made, err := client.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := client.CoreV1().Services(namespace).Delete(ctx, app, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete service %s: %v", app, err)
		}
	})
	return made
}

// waitReady waits until a pod's containers are ready.
func waitReady(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return waitPod(t, name, "to be ready", func(p *corev1.Pod) string {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "not ready"
	})
}

// askFrom asks address port for / n times from a pod, and counts the answers by the pod that gave them. Every failure
// counts for "".
func askFrom(t *testing.T, pod, address string, port, n int) map[string]int {
	t.Helper()
	out := kubectl(t, "exec", pod, "--", "sh", "-c", fmt.Sprintf(
		`for i in $(seq %d); do printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 3 %s %d | grep -o 'from .*' || echo; done`, n, address, port))
	return count(out)
}

func count(out string) map[string]int {
	answers := map[string]int{}
	for line := range strings.Lines(out) {
		answers[strings.TrimSpace(strings.TrimPrefix(line, "from "))]++
	}
	return answers
}

// waitServed asks until each of the pods has answered, as rules and endpoints take their time, and nobody else has.
func waitServed(t *testing.T, what string, ask func() map[string]int, want ...string) {
	t.Helper()
	eventually(t, what, func(context.Context) error {
		answers := ask()
		for _, one := range want {
			if answers[one] == 0 {
				return fmt.Errorf("no answer from %s: %v", one, answers)
			}
		}
		if len(answers) != len(want) {
			return fmt.Errorf("answers from %v, want %v alone", answers, want)
		}
		return nil
	})
}

// askHere asks an address from this machine.
func askHere(address string, n int) map[string]int {
	answers := map[string]int{}
	for range n {
		answers[askOnce(address)]++
	}
	return answers
}

func askOnce(address string) string {
	connection, err := net.DialTimeout("tcp", address, 3*time.Second)
	if err != nil {
		return ""
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(3 * time.Second))
	fmt.Fprint(connection, "GET / HTTP/1.0\r\n\r\n")
	data := make([]byte, 4096)
	text := ""
	for {
		n, err := connection.Read(data)
		text += string(data[:n])
		if err != nil {
			break
		}
	}
	_, name, found := strings.Cut(text, "from ")
	if !found {
		return ""
	}
	name, _, _ = strings.Cut(name, "\n")
	return strings.TrimSpace(name)
}

// A Service's cluster IP reaches pods of both agents from a pod, from the pod behind it itself (hairpin), and its node
// port from outside on each agent's address. A pod that is being deleted gets no new connections while it still runs.
func TestServiceAcrossAgents(t *testing.T) {
	t.Parallel()
	create(t, webPod("svc-1", "svc", "mesopod-agent1"))
	create(t, webPod("svc-2", "svc", "mesopod-agent2"))
	create(t, onNode(newPod("svc-client", steady), "mesopod-agent1"))
	service := createService(t, "svc", func(s *corev1.ServiceSpec) {
		s.Type = corev1.ServiceTypeNodePort
		s.ExternalIPs = []string{"192.0.2.10"}
	})
	waitReady(t, "svc-1")
	waitReady(t, "svc-2")
	waitReady(t, "svc-client")
	clusterIP := func() map[string]int { return askFrom(t, "svc-client", service.Spec.ClusterIP, 80, 12) }
	waitServed(t, "cluster IP to reach both agents", clusterIP, "svc-1", "svc-2")
	waitServed(t, "external IP to reach both agents", func() map[string]int { return askFrom(t, "svc-client", "192.0.2.10", 80, 12) }, "svc-1", "svc-2")
	for _, agent := range []string{"10.89.0.11", "10.89.0.12"} {
		address := net.JoinHostPort(agent, fmt.Sprint(service.Spec.Ports[0].NodePort))
		waitServed(t, "node port of "+agent, func() map[string]int { return askHere(address, 12) }, "svc-1", "svc-2")
	}

	// The container of svc-2 goes on to serve for 3 s more, and nobody new is sent there: all are answered by svc-1, and
	// none is refused.
	if err := client.CoreV1().Pods(namespace).Delete(t.Context(), "svc-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	answers := askFrom(t, "svc-client", service.Spec.ClusterIP, 80, 100)
	if answers[""] != 0 {
		t.Errorf("requests were lost while an endpoint went: %v", answers)
	}
	waitServed(t, "deleted pod to get no more connections", clusterIP, "svc-1")
	waitServed(t, "a pod reaches itself through its Service", func() map[string]int {
		return askHere(net.JoinHostPort("10.89.0.11", fmt.Sprint(service.Spec.Ports[0].NodePort)), 5)
	}, "svc-1")
}

// With session affinity one client always has the same pod.
func TestSessionAffinity(t *testing.T) {
	t.Parallel()
	create(t, webPod("affine-1", "affine", "mesopod-agent1"))
	create(t, webPod("affine-2", "affine", "mesopod-agent2"))
	create(t, onNode(newPod("affine-client", steady), "mesopod-agent2"))
	service := createService(t, "affine", func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP })
	waitReady(t, "affine-1")
	waitReady(t, "affine-2")
	waitReady(t, "affine-client")
	eventually(t, "all requests to go to one pod", func(context.Context) error {
		answers := askFrom(t, "affine-client", service.Spec.ClusterIP, 80, 10)
		if answers["affine-1"] == 10 || answers["affine-2"] == 10 {
			return nil
		}
		return fmt.Errorf("answers from %v", answers)
	})
}

// A pod on each agent reaches the API server by the cluster IP of Service kubernetes, and is known by its token.
func TestInClusterClient(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 2; n++ {
		name := fmt.Sprintf("in-cluster-%d", n)
		create(t, webPod(name, "in-cluster", fmt.Sprintf("mesopod-agent%d", n)))
		address := waitReady(t, name).Status.PodIP
		eventually(t, "API server to know "+name, func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+":8080/cluster", nil)
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err == nil && strings.TrimSpace(string(text)) != "system:serviceaccount:default:default" {
				err = fmt.Errorf("%s: %s", answer.Status, text)
			}
			return err
		})
	}
}

package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/cluster"
)

// stateTask is a task in /master/state, where Mesos-DNS and its like look.
type stateTask struct {
	ID        string
	Name      string
	State     string
	Resources struct{ Ports string }
	Discovery struct {
		Visibility string
		Name       string
		Ports      struct {
			Ports []struct {
				Number   int
				Name     string
				Protocol string
			}
		}
	}
	Statuses []struct {
		State           string
		ContainerStatus struct {
			NetworkInfos []struct {
				IPAddresses []struct {
					IPAddress string `json:"ip_address"`
				} `json:"ip_addresses"`
			} `json:"network_infos"`
		} `json:"container_status"`
	}
}

// inMasterState is the pod's running task as the master shows it.
func inMasterState(t *testing.T, pod *corev1.Pod) stateTask {
	t.Helper()
	var found stateTask
	cluster.Eventually(t, "task of pod "+pod.Name+" in /master/state", func(ctx context.Context) error {
		var state struct{ Frameworks []struct{ Tasks []stateTask } }
		if err := cluster.Get(ctx, cluster.MasterURL+"/master/state", nil, &state); err != nil {
			return err
		}
		for _, framework := range state.Frameworks {
			for _, task := range framework.Tasks {
				if strings.HasPrefix(task.ID, string(pod.UID)+".") && task.State == "TASK_RUNNING" {
					found = task
					return nil
				}
			}
		}
		return errors.New("it does not run there")
	})
	return found
}

// waitGreeting waits until an address answers for a pod.
func waitGreeting(t *testing.T, address, pod string) {
	t.Helper()
	cluster.Eventually(t, address+" to be answered by "+pod, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
		if err != nil {
			return err
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text := make([]byte, 100)
		n, _ := answer.Body.Read(text) // what is short is not what is wanted
		if !strings.Contains(string(text[:n]), "from "+pod) {
			err = fmt.Errorf("it says %q", text[:n])
		}
		return err
	})
}

// A hostPort is taken as Mesos' ports, answers on the agent, and keeps a second pod with it off that agent before anything
// is launched; when the first is gone the second has it. A port that the agent does not offer is told so.
func TestHostPort(t *testing.T) {
	t.Parallel()
	withPort := func(name string, port int32) *corev1.Pod {
		pod := webPod(name, name, suite.Node(3))
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, HostPort: port}}
		pod.Spec.Containers[0].Lifecycle = nil
		return suite.Create(t, pod)
	}
	withPort("port-first", 31010)
	first := waitReady(t, "port-first")
	waitGreeting(t, "10.89.0.13:31010", "port-first")
	if task := inMasterState(t, first); task.Resources.Ports != "[31010-31010]" {
		t.Errorf("the task has ports %q of Mesos'", task.Resources.Ports)
	}
	second := withPort("port-second", 31010)
	none := withPort("port-none", 80)
	for pod, want := range map[string]string{
		"port-second": "host port 31010 is taken or not on offer", "port-none": "host port 80 is taken or not on offer",
	} {
		suite.WaitPod(t, pod, "to be told of the clash", func(p *corev1.Pod) string {
			if text := cluster.Unscheduled(p); !strings.Contains(text, want) {
				return "unscheduled: " + text
			}
			return ""
		})
	}
	for _, pod := range []*corev1.Pod{second, none} {
		if tasks, err := suite.TasksOf(t.Context(), pod); err != nil || len(tasks) > 0 {
			t.Errorf("pod %s was launched: %v, %v", pod.Name, tasks, err)
		}
	}
	if err := suite.DeletePod(t.Context(), "port-first"); err != nil {
		t.Fatal(err)
	}
	waitReady(t, "port-second")
	waitGreeting(t, "10.89.0.13:31010", "port-second")
}

// By its label a pod gets a port of the host that it does not name: it answers there, and the pod finds the number in its
// environment by way of the annotation.
func TestWildcardPort(t *testing.T) {
	t.Parallel()
	const key = messages.AnnotationPrefix + "/port_TCP_8080"
	pod := webPod("any-port", "any-port", suite.Node(3))
	pod.Labels[messages.LabelPortMapping] = messages.PortsWildcard
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
	pod.Spec.Containers[0].Lifecycle = nil
	shell := cluster.NewPod("", "echo port $PORT; "+cluster.Steady).Spec.Containers[0]
	shell.Name = "shell"
	shell.Env = []corev1.EnvVar{{Name: "PORT", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + key + "']"}}}}
	pod.Spec.Containers = append([]corev1.Container{shell}, pod.Spec.Containers...)
	suite.Create(t, pod)
	ready := waitReady(t, pod.Name)
	port := ready.Annotations[key]
	waitGreeting(t, "10.89.0.13:"+port, "any-port")
	cluster.Eventually(t, "the pod to tell its port", func(ctx context.Context) error {
		log, err := suite.TryKubectl(ctx, "logs", pod.Name, "-c", shell.Name)
		if err == nil && log != "port "+port+"\n" {
			err = fmt.Errorf("it says %q, want port %s", log, port)
		}
		return err
	})
	if task := inMasterState(t, ready); task.Resources.Ports != "["+port+"-"+port+"]" {
		t.Errorf("the task has ports %q of Mesos', the pod is told %s", task.Resources.Ports, port)
	}
}

// A pod with hostNetwork has the agent's address, its ports are Mesos' ports, and it reaches pods and Services.
func TestHostNetwork(t *testing.T) {
	t.Parallel()
	pod := webPod("on-host", "on-host", suite.Node(2))
	pod.Spec.HostNetwork = true
	pod.Spec.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	pod.Spec.Containers[0].Args = []string{"--listen=:31020"}
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 31020}}
	pod.Spec.Containers[0].ReadinessProbe.HTTPGet.Port.IntVal = 31020
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "ask", Image: cluster.Web, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"--ask=http://host-reaches/", "--every=500ms"},
	})
	suite.Create(t, webPod("host-reaches-1", "host-reaches", suite.Node(1)))
	createService(t, "host-reaches", nil)
	suite.Create(t, pod)
	made := waitReady(t, "on-host")
	if made.Status.PodIP != "10.89.0.12" {
		t.Errorf("its address is %s, the agent's is 10.89.0.12", made.Status.PodIP)
	}
	if task := inMasterState(t, made); task.Resources.Ports != "[31020-31020]" {
		t.Errorf("the task has ports %q of Mesos'", task.Resources.Ports)
	}
	cluster.Eventually(t, "its port to answer", func(ctx context.Context) error {
		return get(ctx, "10.89.0.12:31020")
	})
	cluster.Eventually(t, "it to reach a pod of another agent by its Service's name", func(ctx context.Context) error {
		log, err := suite.Client.CoreV1().Pods(cluster.Namespace).GetLogs("on-host", &corev1.PodLogOptions{Container: "ask"}).DoRaw(ctx)
		if err == nil && !strings.Contains(string(log), "ok hello from host-reaches-1") {
			err = fmt.Errorf("log %s", log)
		}
		return err
	})
}

func get(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Mesos-DNS finds a pod by name, address and named ports.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	pod := webPod("found", "found", suite.Node(2))
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "talk", ContainerPort: 9000, Protocol: corev1.ProtocolUDP}}
	suite.Create(t, pod)
	made := waitReady(t, "found")
	task := inMasterState(t, made)
	if task.Name != "found.default.pod" || task.Discovery.Name != task.Name || task.Discovery.Visibility != "CLUSTER" {
		t.Errorf("task %q has discovery name %q, visibility %q", task.Name, task.Discovery.Name, task.Discovery.Visibility)
	}
	if got := fmt.Sprint(task.Discovery.Ports.Ports); got != "[{8080 http tcp} {9000 talk udp}]" {
		t.Errorf("its ports are %s", got)
	}
	status := task.Statuses[len(task.Statuses)-1]
	if got := fmt.Sprint(status.ContainerStatus.NetworkInfos); got != fmt.Sprintf("[{[{%s}]}]", made.Status.PodIP) {
		t.Errorf("its addresses are %s, want %s", got, made.Status.PodIP)
	}
}

// Outside of pods' ranges a pod's packets have its agent's address, since nobody there knows the way back to the pod's.
func TestMasquerade(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", cluster.BridgeIP+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	callers := make(chan string, 1)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(connection.RemoteAddr().String()) // it is one of the kernel's
			connection.Close()
			select {
			case callers <- host:
			default:
			}
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	suite.Create(t, cluster.OnNode(cluster.NewPod("outwards", fmt.Sprintf("nc -w 5 %s %s </dev/null; echo asked", cluster.BridgeIP, port)), suite.Node(3)))
	suite.WaitLog(t, "outwards", "asked")
	select {
	case caller := <-callers:
		if caller != "10.89.0.13" {
			t.Errorf("the pod was seen as %s, its agent is 10.89.0.13", caller)
		}
	default:
		t.Error("nobody called")
	}
}

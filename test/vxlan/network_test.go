package vxlan

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mesopod/mesopod/test/cluster"
)

// inRange makes sure that a pod's address is of a range.
func inRange(t *testing.T, pod *corev1.Pod, ranges string) {
	t.Helper()
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil {
		t.Fatalf("pod %s: %v", pod.Name, err)
	}
	if prefix, err := netip.ParsePrefix(ranges); err != nil || !prefix.Contains(address) {
		t.Errorf("pod %s has address %s, want one of %q", pod.Name, address, ranges)
	}
}

// Here the controller manager gives each node its range: that is where its pods' addresses are from.
func TestControllerManagersRanges(t *testing.T) {
	seen := map[string]bool{}
	for n := 1; n <= 2; n++ {
		name := fmt.Sprintf("range-%d", n)
		suite.Create(t, cluster.OnNode(cluster.NewPod(name, cluster.Steady), suite.Node(n)))
		pod := suite.WaitPhase(t, name, corev1.PodRunning)
		node, err := suite.Client.CoreV1().Nodes().Get(t.Context(), suite.Node(n), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		inRange(t, pod, node.Spec.PodCIDR)
		inRange(t, pod, "10.89.128.0/17")
		seen[node.Spec.PodCIDR] = true
	}
	if len(seen) != 2 {
		t.Errorf("two nodes have the ranges %v", seen)
	}
}

// onAgent runs a command in an agent's network namespace.
func onAgent(t *testing.T, n int, args ...string) (string, error) {
	t.Helper()
	netns := filepath.Join(suite.StateDir, "netns", fmt.Sprintf("agent%d", n))
	out, err := exec.CommandContext(t.Context(), "nsenter", append([]string{"--net=" + netns, "--"}, args...)...).CombinedOutput()
	return string(out), err
}

// theirs is a network of an operator's: a bridge of another name, with a range of its own. Both agents share the folder of
// leases here, so that their addresses differ.
const theirs = `{
  "cniVersion": "1.0.0", "name": "theirs",
  "plugins": [
    {"type": "bridge", "bridge": "theirs0", "isGateway": true, "hairpinMode": true,
     "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.99.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}
  ]
}
`

// An operator's own CNI configuration replaces ours with all that belongs to it, also under an executor that runs: no tunnel,
// no route, no masquerading stays. Services go on. Without it ours is back.
func TestOwnCNI(t *testing.T) {
	suite.Create(t, cluster.OnNode(cluster.NewPod("ours", cluster.Steady), suite.Node(1)))
	suite.Create(t, cluster.OnNode(cluster.NewPod("ours-too", cluster.Steady), suite.Node(2))) // there is a way to somewhere
	inRange(t, suite.WaitPhase(t, "ours", corev1.PodRunning), "10.89.128.0/17")
	waitNetwork(t, true)
	if err := suite.DeletePod(t.Context(), "ours"); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(suite.StateDir, "theirs")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "10-theirs.conflist"), fmt.Appendf(nil, theirs, filepath.Join(folder, "leases")), 0o600); err != nil {
		t.Fatal(err)
	}
	configuration := filepath.Join(suite.StateDir, "executor-config.yaml")
	before, err := os.ReadFile(configuration)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile(configuration, before, 0o600); err != nil {
			t.Fatal(err)
		}
		waitNetwork(t, true)
		suite.Create(t, cluster.OnNode(cluster.NewPod("ours-again", cluster.Steady), suite.Node(1)))
		inRange(t, suite.WaitPhase(t, "ours-again", corev1.PodRunning), "10.89.128.0/17")
	}()
	if err := os.WriteFile(configuration, fmt.Appendf(before, "cniConfDir: %s\n", folder), 0o600); err != nil {
		t.Fatal(err)
	}
	waitNetwork(t, false)

	server := cluster.OnNode(cluster.NewPod("theirs", ""), suite.Node(1))
	server.Spec.Containers[0].Image, server.Spec.Containers[0].Command = cluster.Web, nil
	suite.Create(t, server)
	inRange(t, suite.WaitPhase(t, "theirs", corev1.PodRunning), "10.99.0.0/24")
	services := suite.Client.CoreV1().Services(cluster.Namespace)
	service, err := services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: corev1.ServiceSpec{
		Selector: server.Labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := services.Delete(context.WithoutCancel(t.Context()), "theirs", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	cluster.Eventually(t, "the Service of a pod on their network to answer", func(context.Context) error {
		out, err := onAgent(t, 1, "sh", "-c", fmt.Sprintf(`printf 'GET / HTTP/1.0\r\n\r\n' | busybox nc -w 3 %s 80`, service.Spec.ClusterIP))
		if err == nil && !strings.Contains(out, "from theirs") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
}

// waitNetwork waits until all of our network is there on the first agent, or nothing.
func waitNetwork(t *testing.T, want bool) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("our network to be there: %t", want), func(context.Context) error {
		_, err := onAgent(t, 1, "ip", "link", "show", "mpodvx0")
		tunnel := err == nil
		_, err = onAgent(t, 1, "nft", "list", "table", "ip", "mesopod_pods")
		masquerading := err == nil
		text, err := onAgent(t, 1, "ip", "route", "show", "proto", "89")
		if routes := text != ""; err == nil && (tunnel != want || masquerading != want || routes != want) {
			err = fmt.Errorf("tunnel %t, masquerading %t, routes %t", tunnel, masquerading, routes)
		}
		return err
	})
}

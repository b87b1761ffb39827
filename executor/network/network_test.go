package network

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mesopod/mesopod/executor/network/plan"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// inNamespace marks the process that runs a test in a network namespace of its own.
const inNamespace = "NETWORK_TEST_IN_NAMESPACE"

// ownNamespace runs the calling test once more in a process with a network namespace of its own, with a link that has the
// address 10.0.0.11/24, and tells whether this is that process.
func ownNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		shell(t, "ip link add eth0 type veth peer name other && ip addr add 10.0.0.11/24 dev eth0 && ip link set lo up && ip link set eth0 up && ip link set other up")
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), inNamespace+"=1")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("in a network namespace of its own: %v\n%s", err, out)
	}
	return false
}

func shell(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
	return string(out)
}

// until polls, as ways follow the cluster in their own time.
func until(t *testing.T, script string, want ...string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		text := shell(t, script)
		missing := ""
		for _, one := range want {
			if not, ok := strings.CutPrefix(one, "!"); ok && strings.Contains(text, not) || !ok && !strings.Contains(text, one) {
				missing = one
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s lacks %q:\n%s", script, missing, text)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func node(name, address, pods string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: pods},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}}}
}

func config(mode plan.Mode) Config {
	return Config{Mode: mode, Node: "n1", NodeIP: "10.0.0.11", PodCIDR: "10.244.1.0/24", Masquerade: true, KeepAddress: []string{"192.0.2.0/24"}}
}

// start runs a network until the returned function is called.
func start(t *testing.T, mode plan.Mode, client *fake.Clientset) func() {
	t.Helper()
	n, err := New(config(mode), client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	select {
	case <-n.Ready():
	case err := <-ended:
		t.Fatal(err)
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

const (
	showRoutes = "ip route show proto 89"
	showRules  = "nft list ruleset"
)

// Routes and rules follow the nodes of the cluster, what an earlier executor left is taken over and mended, and an orderly
// end leaves nothing.
func TestRoutesFollowNodes(t *testing.T) {
	if !ownNamespace(t) {
		return
	}
	shell(t, "ip route add 10.244.9.0/24 via 10.0.0.19 proto 89 && ip route add 10.9.0.0/16 via 10.0.0.19") // of a dead node; of the operator
	client := fake.NewClientset(node("n1", "10.0.0.11", "10.244.1.0/24"), node("n2", "10.0.0.12", "10.244.2.0/24"), node("far", "203.0.113.1", "10.244.3.0/24"))
	stop := start(t, plan.Routes, client)
	until(t, showRoutes, "10.244.2.0/24 via 10.0.0.12", "!10.244.9.0", "!10.244.3.0", "!10.244.1.0")
	until(t, showRules, "ip saddr 10.244.1.0/24", "192.0.2.0/24", "10.244.1.0-10.244.2.255")

	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Update(t.Context(), node("n2", "10.0.0.22", "10.244.2.0/24"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes.Create(t.Context(), node("n4", "10.0.0.14", "10.244.4.0/24"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, showRoutes, "10.244.2.0/24 via 10.0.0.22", "10.244.4.0/24 via 10.0.0.14", "!10.0.0.12")
	if err := nodes.Delete(t.Context(), "n4", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, showRoutes, "!10.244.4.0")
	until(t, showRules, "!10.244.4.0")
	stop()
	if text := shell(t, showRoutes) + shell(t, showRules); text != "" {
		t.Errorf("left behind:\n%s", text)
	}
	until(t, "ip route", "10.9.0.0/16 via 10.0.0.19")
}

// In a tunnel the kernel knows each node's end without asking, and packets of pods leave room for the headers.
func TestTunnelFollowsNodes(t *testing.T) {
	if !ownNamespace(t) {
		return
	}
	client := fake.NewClientset(node("n1", "10.0.0.11", "10.244.1.0/24"), node("far", "203.0.113.1", "10.244.3.0/24"), node("n2", "10.0.0.12", "10.244.2.0/24"))
	stop := start(t, plan.VXLAN, client)
	until(t, showRoutes, "10.244.3.0/24 via 10.244.3.0 dev mpodvx0 onlink", "10.244.2.0/24 via 10.244.2.0 dev mpodvx0")
	until(t, "ip -d link show mpodvx0; ip addr show mpodvx0", "vxlan id 89", "local 10.0.0.11", "dstport 4789", "nolearning", "mtu 1450", "inet 10.244.1.0/32")
	until(t, "ip neigh show dev mpodvx0", "10.244.3.0 lladdr 0a:58:cb:00:71:01 PERMANENT")
	until(t, "bridge fdb show dev mpodvx0", "0a:58:cb:00:71:01 dst 203.0.113.1", "0a:58:0a:00:00:0c dst 10.0.0.12")
	if err := client.CoreV1().Nodes().Delete(t.Context(), "far", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, showRoutes+"; ip neigh show dev mpodvx0; bridge fdb show dev mpodvx0", "!10.244.3.0", "!203.0.113.1", "10.0.0.12")
	stop()
	if text := shell(t, showRoutes) + shell(t, showRules) + shell(t, "ip link show type vxlan"); text != "" {
		t.Errorf("left behind:\n%s", text)
	}
}

func TestNewTellsFaults(t *testing.T) {
	bad := Config{Mode: "flannel", NodeIP: "here", PodCIDR: "pods"}
	_, err := New(bad, nil)
	for _, part := range []string{"node address", "pod range", `podNetwork "flannel"`} {
		if !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q: %v", part, err)
		}
	}
	foreign := Config{Mode: plan.Routes, NodeIP: "203.0.113.77", PodCIDR: "10.244.1.0/24"}
	if _, err := New(foreign, nil); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), "set nodeIP") {
		t.Errorf("foreign address: %v", err)
	}
}

// The second executor in a network namespace leaves the ways to the first one; its pods start all the same.
func TestReadyBesideAnother(t *testing.T) {
	if !ownNamespace(t) {
		return
	}
	first, err := Lock(t.Context(), lockName, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }() // it goes with the process at the latest
	n, err := New(config(plan.Routes), fake.NewClientset())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	select {
	case <-n.Ready():
	case <-time.After(20 * time.Second):
		t.Error("pods would wait for the end of the other executor")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What an executor before us has left goes when a network of the operator's takes over, unless another executor keeps it.
func TestRemoveLeftovers(t *testing.T) {
	if !ownNamespace(t) {
		return
	}
	shell(t, "ip link add mpodvx0 type vxlan id 89 dev eth0 dstport 4789 && ip link set mpodvx0 up && nft add table ip mesopod_pods"+
		" && ip route add 10.244.9.0/24 via 10.0.0.19 proto 89 && ip route add 10.9.0.0/16 via 10.0.0.19")
	other, err := Lock(t.Context(), lockName, func() {})
	if err != nil {
		t.Fatal(err)
	}
	all := showRoutes + "; " + showRules + "; ip link show type vxlan"
	if err := RemoveLeftovers(t.Context()); err != nil || !strings.Contains(shell(t, all), "mpodvx0") {
		t.Errorf("another keeps them: %v: %s", err, shell(t, all))
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := RemoveLeftovers(t.Context()); err != nil || shell(t, all) != "" {
		t.Errorf("left behind: %v: %s", err, shell(t, all))
	}
	until(t, "ip route", "10.9.0.0/16 via 10.0.0.19")
}

// Neither the bridge nor the range of another executor's pods is ours, nor a range that some link has.
func TestClaim(t *testing.T) {
	if !ownNamespace(t) {
		return
	}
	claim := func(bridge, pods string) error {
		claim, err := claimWithin(t.Context(), 10*time.Millisecond, bridge, pods)
		if err == nil {
			t.Cleanup(func() { _ = claim.Close() })
		}
		return err
	}
	// A bridge of ours is there, as after a crash.
	shell(t, "ip link add mpod0 type bridge && ip addr add 10.244.1.1/24 dev mpod0 && ip addr add 10.128.0.1/9 dev eth0")
	if err := claim("mpod0", "10.244.1.0/24"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ bridge, pods, want string }{
		{"mpod0", "10.244.2.0/24", "bridge mpod0 is another executor's"},
		{"mpod1", "10.244.1.128/25", "overlaps with 10.244.1.0/24 of link mpod0"},
		{"mpod1", "10.0.0.0/16", "overlaps with 10.0.0.0/24 of link eth0"},
	} {
		if err := claim(c.bridge, c.pods); !errors.Is(err, errdefs.ErrConflict) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("claim of %s, %s: %v", c.bridge, c.pods, err)
		}
	}
	if err := claim("mpod1", "10.244.2.0/24"); err != nil {
		t.Error(err)
	}
}

package proxy

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/mesopod/mesopod/executor/network"
)

// inNamespace marks the process that runs a test in a network namespace of its own.
const inNamespace = "PROXY_TEST_IN_NAMESPACE"

// ownNamespace runs the calling test once more in a process with a network namespace of its own, and tells whether this
// is that process.
func ownNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		if out, err := exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
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

func rules(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		t.Fatalf("nft: %v: %s", err, out)
	}
	return string(out)
}

// until polls, as rules follow the cluster in their own time.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("not within 30 s: %s\n%s", what, rules(t))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func mark(t *testing.T) string { return filepath.Join(t.TempDir(), "service-rules") }

// cluster has one Service with one endpoint.
func cluster() *fake.Clientset {
	return fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.7.7", ClusterIPs: []string{"10.96.7.7"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, NodePort: 30080}},
		}},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.5"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
		},
	)
}

// The rules name Services and their endpoints while Run lives, and an orderly end leaves none. A second holder of the
// network namespace's lock waits for the first.
func TestRulesComeAndGo(t *testing.T) {
	if !ownNamespace(t) {
		return
	}
	first, err := network.Lock(t.Context(), lockName, func() {})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{Mode: ModeNFTables, Node: "n1", NodeIP: "127.0.0.1", PodCIDR: "10.244.1.0/24", HealthPort: HealthPort, Mark: mark(t)}, cluster())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case <-ended:
		t.Fatal("Run ended without the lock")
	case <-time.After(2 * time.Second): // not a wait for something: nothing may happen meanwhile
	}
	if text := rules(t); strings.Contains(text, "kube-proxy") {
		t.Errorf("rules without the lock:\n%s", text)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "rules name the Service and its endpoint", func() bool {
		text := rules(t)
		return strings.Contains(text, "10.96.7.7") && strings.Contains(text, "dnat to 10.244.1.5:8080") && strings.Contains(text, "30080")
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := rules(t); text != "" {
		t.Errorf("rules after the end:\n%s", text)
	}
}

// A kube-proxy of somebody else is not disturbed.
func TestPortTaken(t *testing.T) {
	if !ownNamespace(t) {
		return
	}
	p, err := New(Config{Mode: ModeNFTables, Node: "n1", NodeIP: "127.0.0.1", PodCIDR: "10.244.1.0/24", HealthPort: HealthPort, Mark: mark(t)}, cluster())
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", p.healthAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := p.live(t.Context()); err == nil || !strings.Contains(err.Error(), "proxyMode: none") {
		t.Errorf("live = %v", err)
	}
	if text := rules(t); text != "" {
		t.Errorf("rules beside another kube-proxy:\n%s", text)
	}
}

// keeper marks the process that keeps rules until it is killed; its value is the mark's path.
const keeper = "PROXY_TEST_KEEPER"

// An executor with iptables replaces the rules of one with nft. What it leaves when it is killed, an executor with mode none
// removes, unless another keeps it, or a kube-proxy of somebody else is there by now.
func TestIPTablesAndNone(t *testing.T) {
	config := Config{Mode: ModeIPTables, Node: "n1", NodeIP: "127.0.0.1", PodCIDR: "10.244.1.0/24", HealthPort: HealthPort}
	if config.Mark = os.Getenv(keeper); config.Mark != "" {
		p, err := New(config, cluster())
		if err != nil {
			t.Fatal(err)
		}
		t.Fatal(p.Run(t.Context()))
	}
	if !ownNamespace(t) {
		return
	}
	config.Mark = mark(t)
	nft := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "nft", args...).CombinedOutput(); err != nil {
			t.Fatalf("nft: %v: %s", err, out)
		}
	}
	nft("add", "table", "ip", "kube-proxy")
	killed := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	killed.Env = append(os.Environ(), keeper+"="+config.Mark)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	kept := func() bool { return strings.Contains(rules(t), "10.96.7.7") }
	until(t, "iptables' rules name the Service, and nft's are gone", func() bool {
		return kept() && !strings.Contains(rules(t), "table ip kube-proxy")
	})
	remove := func() {
		t.Helper()
		if err := RemoveLeftovers(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	if remove(); !kept() {
		t.Error("rules that another executor keeps were removed")
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it was killed
	if remove(); kept() {
		t.Errorf("rules of a dead executor:\n%s", rules(t))
	}
	if _, err := os.Stat(config.Mark); !os.IsNotExist(err) {
		t.Errorf("the mark is there: %v", err)
	}
	// Without the mark they are not ours.
	nft("add", "table", "ip", "kube-proxy")
	if remove(); !strings.Contains(rules(t), "table ip kube-proxy") {
		t.Error("the rules of somebody else were removed")
	}
	if err := os.WriteFile(config.Mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", (&Proxy{config: config}).healthAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if remove(); !strings.Contains(rules(t), "table ip kube-proxy") {
		t.Error("the rules of a kube-proxy that runs were removed")
	}
}

package network

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// configure adds lines to the executors' configuration until the test is over.
func configure(t *testing.T, more string) {
	t.Helper()
	path := filepath.Join(suite.StateDir, "executor-config.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(path, append(before, more...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// waitRules waits until an agent keeps the rules for a Service in one way, and in no other.
func waitRules(t *testing.T, n int, address string, wantNFT, wantIPTables bool) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("rules of agent %d: nft %t, iptables %t", n, wantNFT, wantIPTables), func(context.Context) error {
		nft := strings.Contains(onAgent(t, n, "nft", "list", "tables"), "table ip kube-proxy")
		iptables := strings.Contains(onAgent(t, n, "iptables-save", "-t", "nat"), "-d "+address+"/32")
		if nft != wantNFT || iptables != wantIPTables {
			return fmt.Errorf("nft %t, iptables %t", nft, iptables)
		}
		return nil
	})
}

// proxyMode says who makes Services work and how: iptables does as nft does, each leaves nothing of the other, none leaves
// nothing at all, and pods live through the changes.
func TestProxyModes(t *testing.T) {
	server := suite.Create(t, webPod("modes-1", "modes", suite.Node(2)))
	suite.Create(t, cluster.OnNode(cluster.NewPod("modes-client", cluster.Steady), suite.Node(1)))
	service := createService(t, "modes", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })
	server = waitReady(t, "modes-1")
	waitReady(t, "modes-client")
	address, port := service.Spec.ClusterIP, service.Spec.Ports[0].NodePort
	answered := func(what string) {
		t.Helper()
		cluster.Eventually(t, what+": cluster IP to answer", func(ctx context.Context) error {
			out, err := suite.TryKubectl(ctx, "exec", "modes-client", "--", "sh", "-c", fmt.Sprintf(`printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 3 %s 80`, address))
			if err == nil && !strings.Contains(out, "from modes-1") {
				err = fmt.Errorf("it says %q", out)
			}
			return err
		})
		waitGreeting(t, fmt.Sprintf("10.89.0.11:%d", port), "modes-1")
	}
	waitRules(t, 1, address, true, false)
	answered("nftables")
	t.Run("iptables", func(t *testing.T) {
		configure(t, "proxyMode: iptables\n")
		waitRules(t, 1, address, false, true)
		answered("iptables")
	})
	t.Run("none", func(t *testing.T) {
		configure(t, "proxyMode: none\n")
		waitRules(t, 1, address, false, false)
	})
	for n := 1; n <= 2; n++ {
		waitRules(t, n, address, true, false)
	}
	answered("nftables again")
	suite.SameContainer(t, server)
}

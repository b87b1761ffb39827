// Package vxlan is the suite about pods of agents whose network carries no packets with pods' addresses, as one between
// two networks would not: the tunnel alone joins them. It is a suite of its own, as the agents are set up for it.
package vxlan

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

var suite = cluster.New(cluster.Options{Name: "vxlan", Agents: 2, Flags: []string{"--pod-network=vxlan", "--allocate-node-cidrs"}})

// block drops what has a pod's address between the agents, on the bridge and by way of this machine.
const block = `
table bridge vxlan_test {
	chain forward {
		type filter hook forward priority 0;
		ip saddr 10.89.128.0/17 drop
		ip daddr 10.89.128.0/17 drop
	}
}
table ip vxlan_test {
	chain forward {
		type filter hook forward priority 0;
		ip saddr 10.89.128.0/17 ip daddr 10.89.128.0/17 drop
	}
}
`

func TestMain(m *testing.M) { os.Exit(cluster.Suite{Cluster: suite}.Run(m)) }

func nft(t *testing.T, text string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "nft", "-f", "-")
	command.Stdin = strings.NewReader(text)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v: %s", err, out)
	}
}

// Pods of two agents reach each other, small packets and large, where only packets of the agents themselves pass between
// them; a pod's packets leave room for the tunnel.
func TestTunnelCarriesPods(t *testing.T) {
	nft(t, block)
	defer func() { nft(t, "delete table bridge vxlan_test\ndelete table ip vxlan_test\n") }()
	server := cluster.OnNode(cluster.NewPod("far", "while true; do head -c 300000 /dev/zero | nc -l -p 8080; done"), suite.Node(2))
	suite.Create(t, server)
	ip := suite.WaitPhase(t, "far", corev1.PodRunning).Status.PodIP
	suite.Create(t, cluster.OnNode(cluster.NewPod("near", fmt.Sprintf(
		`cat /sys/class/net/eth0/mtu; for i in 1 2 3 4 5 6 7 8 9 10; do n=$(sleep 2 | nc -w 3 %s 8080 | wc -c); [ "$n" = 300000 ] && echo whole && exit 0; sleep 1; done; echo "got $n"; exit 1`, ip)), suite.Node(1)))
	if log := suite.WaitLog(t, "near", "whole"); !strings.HasPrefix(log, "1450\n") {
		t.Errorf("MTU of a pod: %s", log)
	}
}

package network

import (
	"os"
	"testing"

	"github.com/mesopod/mesopod/test/cluster"
)

var suite = cluster.New(cluster.Options{Name: "network", Agents: 3, DNS: true, AgentResources: "cpus:2;mem:1024;disk:4096;ports:[31000-31100]"})

func TestMain(m *testing.M) { os.Exit(cluster.Suite{Cluster: suite}.Run(m)) }

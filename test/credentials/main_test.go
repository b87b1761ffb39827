package credentials

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mesopod/mesopod/test/cluster"
)

// suite is the cluster of all tests here.
var suite = cluster.New(cluster.Options{Name: "creds", Agents: 3, Flags: []string{
	"--scheduler-flag=executor-certificate-life=10m", "--scheduler-flag=executor-certificate-renewal=4s",
}})

func TestMain(m *testing.M) { os.Exit(cluster.Suite{Cluster: suite}.Run(m)) }

const (
	node1, node2, node3 = "mesopod-agent1", "mesopod-agent2", "mesopod-agent3"
	schedulerURL        = "https://" + cluster.BridgeIP + ":9443"
)

// pki is a file with what the executor of an agent, 1 to 3, was given.
func pki(agent, name string) string { return filepath.Join(suite.StateDir, "a"+agent, "pki", name) }

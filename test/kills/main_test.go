package kills

import (
	"fmt"
	"os"
	"testing"

	"github.com/mesopod/mesopod/test/cluster"
)

const node1, node2 = "mesopod-agent1", "mesopod-agent2"

// all tells that every kill is to be made.
var all = os.Getenv("MESOPOD_KILLS") == "all"

// suite is the cluster of all tests here. Kills are made on the first agent.
var suite = cluster.New(cluster.Options{Name: "kills", Agents: 2, Launcher: os.Getenv("MESOPOD_KILLS_LAUNCHER")})

func TestMain(m *testing.M) {
	os.Exit(cluster.Suite{Cluster: suite, Started: func() {
		if err := hold.start(); err != nil {
			fmt.Fprintln(os.Stderr, "kills:", err)
			os.Exit(1)
		}
	}}.Run(m))
}

// Package gpus holds end-to-end tests of Mesos' gpus. No agent here has any, and a real one does not invent them, so the Mesos is the
// simulated one: it keeps agents with gpus from frameworks without the capability GPU_RESOURCES, as the real one does.
package gpus

import (
	"os"
	"testing"

	"github.com/mesopod/mesopod/test/cluster"
)

const gpus = "example.com/gpu"

// suite has an agent that runs pods, on which no device plugin is, and two that act them out.
var suite = cluster.New(cluster.Options{Name: "gpus", Mesos: "sim", Agents: 3, AgentResources: "cpus:4;mem:2048;disk:10000;gpus:2;ports:[31000-32000]",
	Flags: []string{"--real-agents=1", "--scheduler-flag=gpu-resource=" + gpus}})

func TestMain(m *testing.M) { os.Exit(cluster.Suite{Cluster: suite}.Run(m)) }

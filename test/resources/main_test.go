package resources

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/test/cluster"
)

// suite is the cluster of the tests that run.
var suite *cluster.Cluster

func TestMain(m *testing.M) {
	code := 0 // the worst of all
	settings := []bool{true}
	if long() {
		settings = append(settings, false)
	}
	for _, quotas := range settings {
		fmt.Printf("=== CPU quotas of Mesos: %t\n", quotas)
		suite = cluster.New(cluster.Options{
			Name: "resources", Launcher: "linux", AgentResources: "cpus:16;mem:4000;disk:20000;ports:[31000-32000]",
			AgentFlags: []string{"isolation=cgroups/cpu,cgroups/mem", fmt.Sprintf("cgroups_enable_cfs=%t", quotas)},
		})
		code = max(code, cluster.Suite{Cluster: suite}.Run(m))
	}
	os.Exit(code)
}

func long() bool { return os.Getenv("MESOPOD_LONG") != "" }

// executor is one run of the executor: its process, and its sandbox, which is another one for each Mesos container.
type executor struct {
	pid     int
	sandbox string
}

func theExecutor(t *testing.T) executor {
	t.Helper()
	pid, err := suite.PartPID(suite.OfAgent(1), cluster.ExecutorWords)
	if err != nil {
		t.Fatal(err)
	}
	return executor{pid: pid, sandbox: suite.Sandbox(t, suite.Node(1))}
}

// unchanged fails the test if the executor is another than before.
func (e executor) unchanged(t *testing.T) {
	t.Helper()
	if now := theExecutor(t); now != e {
		t.Errorf("the executor was %+v, is %+v now", e, now)
	}
}

// cgroupValue reads a number of the executor's container or of a cgroup below it.
func (e executor) cgroupValue(t *testing.T, hierarchy, below, file string) int64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", hierarchy, "mesopod/local-a1", filepath.Base(e.sandbox), below, file))
	if err != nil {
		t.Fatal(err)
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

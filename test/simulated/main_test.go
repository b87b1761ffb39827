package simulated

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// suite is the cluster of the tests that run: an agent that runs pods, and eight that act them out, two in each of four racks of
// two zones.
var suite *cluster.Cluster

func TestMain(m *testing.M) {
	config, err := filepath.Abs("scheduler.yaml")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	suite = cluster.New(cluster.Options{Name: "simulated", Mesos: "sim", Agents: 9, Flags: []string{"--real-agents=1", "--scheduler-flag=config=" + config,
		"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"}}) // for gangs
	os.Exit(cluster.Suite{Cluster: suite}.Run(m))
}

// onReal has a pod run on the agent that runs pods.
func onReal(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: suite.Node(1)}
	return pod
}

// order tells the simulator to do something.
func order(t *testing.T, what, format string, args ...any) {
	t.Helper()
	var answer struct{ ID string }
	if err := cluster.Request(t.Context(), http.MethodPost, cluster.MasterURL+"/sim/"+what, fmt.Appendf(nil, format, args...), &answer); err != nil {
		t.Fatalf("order %s: %v", what, err)
	}
}

// TestLife: a pod runs to its end, as on the real one.
func TestLife(t *testing.T) {
	pod := suite.Create(t, onReal(cluster.NewPod("life", "echo done")))
	suite.WaitPhase(t, pod.Name, corev1.PodSucceeded)
	suite.WaitTask(t, pod, "TASK_FINISHED")
	if log := suite.Logs(t, pod.Name); log != "done\n" {
		t.Errorf("log %q", log)
	}
}

// TestPartsReturn: the agent's process and then the master end and start again under a running pod, and executor and
// scheduler find them; no container is touched, and the pod can be deleted after that.
func TestPartsReturn(t *testing.T) {
	pod := suite.Create(t, onReal(cluster.NewPod("returns", cluster.Steady)))
	running := suite.WaitPhase(t, pod.Name, corev1.PodRunning)
	suite.WaitTask(t, pod, "TASK_RUNNING")
	for what, orders := range map[string][]string{
		"agents/mesos-agent1": {`{"action":"stop"}`, `{"action":"start"}`},
		"master":              {`{"action":"stop"}`, `{"action":"start","keep_registry":true}`},
	} {
		for _, one := range orders {
			order(t, what, "%s", one)
		}
		suite.WaitTask(t, pod, "TASK_RUNNING")
		suite.SameContainer(t, running)
	}
	after := suite.Create(t, onReal(cluster.NewPod("after", "true")))
	suite.WaitPhase(t, after.Name, corev1.PodSucceeded)
	suite.SameContainer(t, running)
	if err := suite.DeletePod(t.Context(), pod.Name); err != nil {
		t.Fatal(err)
	}
	suite.WaitTask(t, pod, "TASK_KILLED")
}

package idle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mesopod/mesopod/internal/controlplane"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/cluster"
)

// otherCluster is a second Kubernetes cluster on the same Mesos: an API server and a scheduler of its own. It ends with the
// test, and so does its framework.
func otherCluster(t *testing.T) (other *cluster.Cluster, framework string) {
	t.Helper()
	plane, err := controlplane.New(controlplane.Config{
		Dir: t.TempDir(), Address: net.ParseIP(cluster.BridgeIP), Port: 7443, PodCIDR: "10.91.0.0/16", ServiceCIDR: "10.97.0.0/16",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- plane.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the other control plane: %v", err)
		}
	})
	cluster.Eventually(t, "the other control plane", func(context.Context) error {
		select {
		case <-plane.Ready():
			return nil
		default:
			return errors.New("it is not ready")
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", plane.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := plane.SchedulerKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	log := &cluster.Output{}
	scheduler := exec.Command(cluster.Mesopod(), "scheduler", "--kubeconfig="+kubeconfig, "--master="+master, "--framework-name=other",
		"--bundle-dir="+cluster.BundleDir(), "--executor-listen="+cluster.BridgeIP+":9543", "--status-address=none", "-v=1")
	scheduler.Stderr = log
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = scheduler.Process.Signal(syscall.SIGTERM) // it may have ended with its framework
		_ = scheduler.Wait()
		if t.Failed() {
			t.Logf("the other scheduler says:\n%s", log)
		}
	})
	other = &cluster.Cluster{Options: suite.Options, StateDir: suite.StateDir, Client: client}
	cluster.Eventually(t, "the other framework", func(ctx context.Context) error {
		stored, err := client.CoreV1().ConfigMaps("mesopod-system").Get(ctx, "mesopod-scheduler", metav1.GetOptions{})
		if err == nil {
			framework = stored.Data["frameworkID"]
		}
		return err
	})
	t.Cleanup(func() {
		body := "frameworkId=" + framework
		if err := cluster.Request(ctx, http.MethodPost, cluster.MasterURL+"/master/teardown", []byte(body), nil); err != nil {
			t.Errorf("tear down the other framework: %v", err)
		}
		if err := cluster.Poll(ctx, func(context.Context) error { return gone(framework) }); err != nil {
			t.Error(err)
		}
	})
	return other, framework
}

// gone tells that no executor of a framework runs.
func gone(framework string) error {
	if pid, err := suite.PartPID("MESOS_FRAMEWORK_ID="+framework, cluster.KeeperWords); err == nil {
		return fmt.Errorf("keeper %d runs", pid)
	}
	return nil
}

// Two frameworks on one agent: each executor has folders, devices, ports and pods of its own in one network namespace, the
// second one no rules for Services, and the end of one, in order or not, is nothing to the other. What there can be but one of
// goes over to the one that is left.
func TestTwoFrameworks(t *testing.T) {
	first, err := storedFramework(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, second := otherCluster(t)
	suite.Create(t, cluster.OnNode(cluster.NewPod("of-first", cluster.Steady), cold))
	ours := suite.WaitPhase(t, "of-first", corev1.PodRunning)
	other.Create(t, cluster.OnNode(cluster.NewPod("of-second", cluster.Steady), cold))
	theirs := other.WaitPhase(t, "of-second", corev1.PodRunning)
	suite.WaitTask(t, ours, "TASK_RUNNING")
	other.WaitTask(t, theirs, "TASK_RUNNING")

	if !strings.HasPrefix(ours.Status.PodIP, "10.89.") || !strings.HasPrefix(theirs.Status.PodIP, "10.91.") {
		t.Errorf("addresses %s and %s, want one of each cluster's range", ours.Status.PodIP, theirs.Status.PodIP)
	}
	suite.Logs(t, "of-first") // through the kubelet of each, at another port
	other.Logs(t, "of-second")
	ports := map[int32]bool{}
	for _, c := range []*cluster.Cluster{suite, other} {
		node, err := c.Client.CoreV1().Nodes().Get(t.Context(), cold, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ports[node.Status.DaemonEndpoints.KubeletEndpoint.Port] = true
	}
	if len(ports) != 2 {
		t.Errorf("the kubelets are at the ports %v, want two", ports)
	}
	tables, err := exec.Command("nsenter", "--net="+filepath.Join(suite.StateDir, "netns", "agent2"), "nft", "list", "tables").CombinedOutput()
	if err != nil || !strings.Contains(string(tables), "table ip mesopod_pods\n") || !strings.Contains(string(tables), "table ip mesopod_pods_10_91_") {
		t.Errorf("tables of masquerading (%v):\n%s", err, tables)
	}

	suite.KillPart(t, "MESOS_FRAMEWORK_ID="+first, cluster.ExecutorWords)
	suite.KillPart(t, "MESOS_FRAMEWORK_ID="+second, cluster.ExecutorWords)
	suite.SameContainer(t, ours)
	other.SameContainer(t, theirs)

	// The first one ends for want of pods, as by the flags of this suite; the second one stays, with all that there is.
	if err := suite.DeletePod(t.Context(), "of-first"); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, "the first framework's executor to end", func(context.Context) error { return gone(first) })
	stderr := filepath.Join(sandboxOf(t, second), "stderr")
	cluster.Eventually(t, "the second one to take the Services over", func(context.Context) error {
		log, err := os.ReadFile(stderr)
		if err == nil && !strings.Contains(string(log), "start service proxy mode=") {
			err = errors.New("its log does not say so")
		}
		return err
	})
	other.SameContainer(t, theirs)

	// And the other way round: the first one comes back beside it.
	suite.Create(t, cluster.OnNode(cluster.NewPod("again", cluster.Steady), cold))
	again := suite.WaitPhase(t, "again", corev1.PodRunning)
	other.SameContainer(t, theirs)
	keeper, err := suite.PartPID("MESOS_FRAMEWORK_ID="+second, cluster.KeeperWords)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	other.WaitPod(t, "of-second", "to be started anew", func(p *corev1.Pod) string {
		if p.Annotations[messages.AnnotationTaskID] == theirs.Annotations[messages.AnnotationTaskID] || p.Status.Phase != corev1.PodRunning {
			return cluster.Describe(p)
		}
		return ""
	})
	suite.SameContainer(t, again)
}

// sandboxOf is the sandbox of a framework's executor on the cold agent.
func sandboxOf(t *testing.T, framework string) string {
	t.Helper()
	var state struct {
		Frameworks []struct {
			ID        string
			Executors []struct{ Directory string }
		}
	}
	if err := cluster.Get(t.Context(), suite.AgentURL(cold)+"/state", nil, &state); err != nil {
		t.Fatal(err)
	}
	for _, f := range state.Frameworks {
		if f.ID == framework && len(f.Executors) > 0 {
			return f.Executors[0].Directory
		}
	}
	t.Fatalf("framework %s has no executor on %s", framework, cold)
	return ""
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// side is a scheduler under measurement.
type side interface {
	name() string
	// begin starts it on a fresh cluster; nodes has them all when they are there.
	begin(ctx context.Context, c *cluster) error
	schedulerName() string
	// idle is nil when nothing of an earlier workload is left.
	idle(ctx context.Context) error
}

// What each node has for pods. Ours has the executor's share beside it.
const (
	nodeCPUs, nodeMemMB         = 8, 16384
	executorCPUs, executorMemMB = 0.5, 256
)

// masterPort is where the simulated master answers, statusAddress where our scheduler shows itself.
const (
	masterPort    = 15050
	statusAddress = "127.0.0.1:15051"
)

var master = net.JoinHostPort("127.0.0.1", strconv.Itoa(masterPort))

// ours is mesopod's scheduler on agents that act pods out.
type ours struct{ config }

func (ours) name() string          { return "mesopod" }
func (ours) schedulerName() string { return "mesos" }

func (o ours) begin(_ context.Context, c *cluster) error {
	if err := o.simulate(c, true); err != nil {
		return err
	}
	return o.schedule(c, "scheduler", statusAddress)
}

// simulate starts the simulated Mesos; its agents bind the pods of tasks, or have tasks of any kind.
func (o ours) simulate(c *cluster, bind bool) error {
	program, err := filepath.Abs(filepath.Join(o.bundle, "mesopod"))
	if err != nil {
		return err
	}
	args := []string{program, "sim", "--listen=" + master, "--agents=" + strconv.Itoa(o.nodes),
		fmt.Sprintf("--resources=cpus:%g;mem:%d;disk:100000", nodeCPUs+executorCPUs, nodeMemMB+executorMemMB)}
	if bind {
		args = append(args, "--kubeconfig="+c.admin, "--bind-only")
	}
	return c.start("sim", args...)
}

// schedule starts our scheduler.
func (o ours) schedule(c *cluster, name, status string, more ...string) error {
	program, err := filepath.Abs(filepath.Join(o.bundle, "mesopod"))
	if err != nil {
		return err
	}
	return c.start(name, append([]string{program, "scheduler", "--kubeconfig=" + c.scheduler, "--master=" + master, "--bundle-dir=" + filepath.Dir(program),
		"--status-address=" + status, "--profiling", fmt.Sprintf("--executor-cpus=%g", executorCPUs), fmt.Sprintf("--executor-mem=%d", executorMemMB)}, more...)...)
}

// idle asks the master for tasks.
func (ours) idle(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/api/v1", masterPort), strings.NewReader(`{"type":"GET_TASKS"}`))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		GetTasks struct {
			Tasks []json.RawMessage `json:"tasks"`
		} `json:"get_tasks"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if n := len(answer.GetTasks.Tasks); n > 0 {
		return fmt.Errorf("%d tasks are left", n)
	}
	return nil
}

// peer is the upstream kube-scheduler; plain has its default profile, the other one ours: no default spread constraints.
type peer struct {
	config
	ourProfile bool
}

func (p peer) name() string {
	if p.ourProfile {
		return "kube-scheduler-our-profile"
	}
	return "kube-scheduler"
}

func (peer) schedulerName() string      { return "default-scheduler" }
func (peer) idle(context.Context) error { return nil }

func (p peer) begin(ctx context.Context, c *cluster) error {
	profile := map[string]any{"schedulerName": p.schedulerName()}
	if p.ourProfile {
		profile["pluginConfig"] = []any{map[string]any{"name": "PodTopologySpread", "args": map[string]any{
			"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "PodTopologySpreadArgs", "defaultingType": "List"}}}
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"leaderElection": map[string]any{"leaderElect": false}, "profiles": []any{profile},
		"clientConnection": map[string]any{"kubeconfig": c.admin, "qps": 100000, "burst": 100000, "contentType": "application/vnd.kubernetes.protobuf"},
	})
	path := filepath.Join(c.dir, "kube-scheduler.yaml")
	if err = errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for n := range p.nodes {
		group.Go(func() error {
			made, err := c.client.CoreV1().Nodes().Create(groupCtx, node(n), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			// Admission taints new nodes as not ready, and the controller that takes that back does not run.
			_, err = c.client.CoreV1().Nodes().Patch(groupCtx, made.Name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return c.start("scheduler", p.kubeScheduler, "--config="+path, "--secure-port=0")
}

func node(n int) *corev1.Node {
	name := fmt.Sprintf("sim%d.mesos", n+1)
	size := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(nodeCPUs, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(nodeMemMB<<20, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Bench"}}},
	}
}

var updatesFigure = regexp.MustCompile(`figure sim-\d+-agents-updates ([0-9.]+)`)

// simAlone is how many tasks the simulator launches and reports in a second when nobody else works.
func simAlone(ctx context.Context, c config) (float64, error) {
	out, err := exec.CommandContext(ctx, c.benchSim, "-agents", strconv.Itoa(c.nodes), "-tasks", "5").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", c.benchSim, err, out)
	}
	found := updatesFigure.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("%s printed no updates: %s", c.benchSim, out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/bench/figure"
)

// agentNode is the Node of a simulated agent, as our scheduler has stored it before.
func agentNode(host, agentID string) *corev1.Node {
	n := node(0)
	n.Name, n.Labels[corev1.LabelHostname] = host, host
	n.UID, n.CreationTimestamp = types.UID("node-"+host), metav1.Now()
	n.Annotations = map[string]string{messages.AnnotationAgentID: agentID, messages.AnnotationExecutorID: messages.ExecutorID}
	n.Status.Conditions[0].Reason = "ExecutorNotRunning"
	return n
}

// agentsOf are the agents of the simulated master: id to host name.
func agentsOf(ctx context.Context) (map[string]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/api/v1", masterPort), strings.NewReader(`{"type":"GET_AGENTS"}`))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		GetAgents struct {
			Agents []struct {
				Info struct {
					ID struct {
						Value string `json:"value"`
					} `json:"id"`
					Hostname string `json:"hostname"`
				} `json:"agent_info"`
			} `json:"agents"`
		} `json:"get_agents"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	agents := map[string]string{}
	for _, a := range answer.GetAgents.Agents {
		agents[a.Info.ID.Value] = a.Info.Hostname
	}
	return agents, nil
}

// storeNodes stores the Nodes of all agents, as an earlier scheduler has left them.
func (c *cluster) storeNodes(ctx context.Context, want int) error {
	var agents map[string]string
	if err := c.wait(ctx, func(ctx context.Context) (err error) {
		if agents, err = agentsOf(ctx); err == nil && len(agents) < want {
			err = fmt.Errorf("%d of %d agents are registered", len(agents), want)
		}
		return err
	}); err != nil {
		return err
	}
	var ids []string
	for id := range agents {
		ids = append(ids, id)
	}
	store, err := c.etcd()
	if err != nil {
		return err
	}
	defer store.client.Close() // all is written
	return store.put(ctx, len(ids), func(i int) (string, runtime.Object) {
		host := agents[ids[i]]
		return "minions/" + host, typed(agentNode(host, ids[i]), "Node")
	})
}

// offersPerPod: at many agents with nothing else to do, how many offers come for each pod that is launched.
func offersPerPod(ctx context.Context, cfg config) (good bool, _ error) {
	cfg.nodes = cfg.agents
	return good, on(ctx, func(c *cluster) error {
		s := ours{cfg}
		if err := s.simulate(c, true); err != nil {
			return err
		}
		if err := c.storeNodes(ctx, cfg.agents); err != nil {
			return err
		}
		if err := s.schedule(c, "scheduler", statusAddress); err != nil {
			return err
		}
		began := time.Now()
		if err := c.waitMetrics(ctx, func(m map[string]float64) bool {
			return m["mesopod_scheduler_placing"] == 1 && m[`mesopod_scheduler_agents{use="used"}`] == float64(cfg.agents) && m["mesopod_scheduler_offers_received_total"] >= float64(cfg.agents)
		}); err != nil {
			return err
		}
		name := func(what string) string { return fmt.Sprintf("scale-%d-agents-%s", cfg.agents, what) }
		figure.Show(name("idle-start"), time.Since(began).Seconds(), "s")
		before, err := scrape(ctx)
		if err != nil {
			return err
		}
		m, err := c.load(ctx, s, "basic", cfg.pods)
		if err != nil {
			return err
		}
		after, err := scrape(ctx)
		if err != nil {
			return err
		}
		memory, err := peakMB(c.parts[len(c.parts)-1])
		if err != nil {
			return err
		}
		const received = "mesopod_scheduler_offers_received_total"
		figure.Show(name("rate"), m.rate, "pods/s")
		figure.Show(name("bound-p99"), m.p99, "s")
		good = figure.AtMost(name("offers-per-pod"), (after[received]-before[received])/float64(cfg.pods), "1/pod", offersPerPodTarget, offersGoal)
		good = figure.AtMost(name("memory"), memory, "MB", memoryTargetMB, memoryGoalMB) && good
		return nil
	})
}

// startWithTasks: a scheduler starts beside many agents whose pods run. Pods, Nodes and tasks are there before, those of the framework that
// it takes over.
func startWithTasks(ctx context.Context, cfg config) (good bool, _ error) {
	cfg.nodes = cfg.agents
	return good, on(ctx, func(c *cluster) error {
		s := ours{cfg}
		if err := s.simulate(c, false); err != nil {
			return err
		}
		if err := c.storeNodes(ctx, cfg.agents); err != nil {
			return err
		}
		tasks, err := c.fill(ctx, cfg)
		if err != nil {
			return err
		}
		if err := s.schedule(c, "scheduler", statusAddress); err != nil {
			return err
		}
		if err := c.waitMetrics(ctx, func(m map[string]float64) bool { return m["mesopod_scheduler_placing"] == 1 }); err != nil {
			return err
		}
		// Statuses that nobody waits for come meanwhile.
		var m map[string]float64
		if err := c.waitMetrics(ctx, func(now map[string]float64) bool {
			m = now
			return m[`mesopod_scheduler_tasks{state="RUNNING"}`] >= float64(tasks)
		}); err != nil {
			return fmt.Errorf("all tasks are known as running: %w", err)
		}
		memory, err := peakMB(c.parts[len(c.parts)-1])
		if err != nil {
			return err
		}
		name := func(what string) string { return fmt.Sprintf("scale-%d-agents-%d-tasks-%s", cfg.agents, tasks, what) }
		good = figure.AtMost(name("start"), m["mesopod_scheduler_start_duration_seconds"], "s", startTarget, startGoal)
		good = figure.AtMost(name("memory"), memory, "MB", memoryTargetMB, memoryGoalMB) && good
		good = figure.AtLeast(name("known"), m[`mesopod_scheduler_tasks{state="RUNNING"}`], "tasks", float64(tasks)) && good
		good = figure.AtMost(name("killed"), m["mesopod_scheduler_kills_total"], "tasks", 0, 0) && good
		return nil
	})
}

// fill starts the tasks, stores a bound pod for each, and the framework's id. It returns how many there are.
func (c *cluster) fill(ctx context.Context, cfg config) (int, error) {
	out, err := exec.CommandContext(ctx, cfg.benchSim, "-fill", fmt.Sprintf("127.0.0.1:%d", masterPort), "-agents", strconv.Itoa(cfg.agents),
		"-tasks", strconv.Itoa(cfg.tasks/cfg.agents)).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", cfg.benchSim, err, out[max(0, len(out)-2000):])
	}
	framework := ""
	var tasks [][]string // id, agent, host
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		switch words := strings.Fields(lines.Text()); {
		case len(words) == 2 && words[0] == "framework":
			framework = words[1]
		case len(words) == 4 && words[0] == "task":
			tasks = append(tasks, words[1:])
		}
	}
	if framework == "" || len(tasks) == 0 {
		return 0, fmt.Errorf("%s made no tasks: %s", cfg.benchSim, out[:min(len(out), 2000)])
	}
	store, err := c.etcd()
	if err != nil {
		return 0, err
	}
	defer store.client.Close() // all is written
	if err := store.put(ctx, len(tasks), func(i int) (string, runtime.Object) {
		p := pod("basic", ours{}.schedulerName(), i)
		uid, _, _ := strings.Cut(tasks[i][0], ".")
		p.UID, p.CreationTimestamp, p.Spec.NodeName, p.Status.Phase = types.UID(uid), metav1.Now(), tasks[i][2], corev1.PodRunning
		p.Annotations = map[string]string{messages.AnnotationTaskID: tasks[i][0], messages.AnnotationAgentID: tasks[i][1]}
		return "pods/" + namespace + "/" + p.Name, typed(p, "Pod")
	}); err != nil {
		return 0, err
	}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mesopod-system"}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, err
	}
	_, err = c.client.CoreV1().ConfigMaps("mesopod-system").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mesopod-scheduler"},
		Data: map[string]string{"frameworkID": framework}}, metav1.CreateOptions{})
	return len(tasks), err
}

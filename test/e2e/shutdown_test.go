package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/messages"
)

// slowly takes two seconds to end, and says so.
const slowly = "trap 'sleep 2; exit 0' TERM; echo up; while true; do sleep 1000 & wait $!; done"

// SHUTDOWN ends all pods at once, reports each, and the executor exits with 0 inside the agent's grace, whether its
// statuses are acknowledged or not; nothing of it is left: EX-121 to EX-128. The agent is a script, since a master shuts
// an executor down only together with its framework.
func TestShutdown(t *testing.T) {
	for name, acknowledges := range map[string]bool{"acknowledged": true, "unanswered": false} {
		t.Run(name, func(t *testing.T) {
			agent := newScriptedAgent(t)
			node := "shutdown-" + name
			one := scriptedExecutor{name: node, kubeconfig: kubeconfig(), podCIDR: "10.89.201.0/24", bridge: "mpod8", port: 10298, grace: "10secs"}
			ended := one.start(t, agent)
			next(t, "subscription", agent.subscribed)
			agent.events <- subscribedAs(node)
			pods := launchHere(t, agent, node, 3)
			began := time.Now()
			agent.events <- &executor.Event{Type: executor.Event_SHUTDOWN}
			killed := map[string]time.Time{}
			for len(killed) < len(pods) {
				status := nextStatus(t, agent, acknowledges)
				if status.GetState() == mesos.TASK_KILLED {
					killed[status.TaskID.Value] = time.Now()
				} else if status.GetState() != mesos.TASK_KILLING {
					t.Errorf("task %s is told %s: %s", status.TaskID.Value, status.GetState(), status.GetMessage())
				}
			}
			for _, pod := range pods {
				took := killed[messages.TaskID(pod.UID, 1)].Sub(began)
				// One after the other the last would take six seconds.
				if took < 1500*time.Millisecond || took > 5500*time.Millisecond {
					t.Errorf("the task of pod %s is TASK_KILLED after %s; it needs 2 s to end", pod.Name, took)
				}
			}
			if err := next(t, "end of the executor", ended); err != nil {
				t.Errorf("the executor ended with %v", err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the executor took %s, the agent waits for 10 s", took)
			}
			if left := processesIn(t, "local-"+node); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

func subscribedAs(node string) *executor.Event {
	return &executor.Event{Type: executor.Event_SUBSCRIBED, Subscribed: &executor.Event_Subscribed{
		ExecutorInfo:  mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: "mesopod-executor"}},
		FrameworkInfo: mesos.FrameworkInfo{User: "root", Name: "mesopod"},
		AgentInfo: mesos.AgentInfo{Hostname: node, ID: &mesos.AgentID{Value: "scripted-S0"},
			Resources: []mesos.Resource{scalar("cpus", 4), scalar("mem", 2048)}},
	}}
}

// launchHere makes pods that no scheduler knows, launches them as an agent would, and waits until they run.
func launchHere(t *testing.T, agent *scriptedAgent, node string, number int) []*corev1.Pod {
	t.Helper()
	forgetNode(t, node)
	var pods []*corev1.Pod
	for i := range number {
		made := makeHere(t, newPod(fmt.Sprint(node, "-", i), slowly))
		agent.events <- launchOf(t, made, node)
		pods = append(pods, made)
	}
	running := map[string]bool{}
	for len(running) < number {
		status := nextStatus(t, agent, true)
		switch status.GetState() {
		case mesos.TASK_RUNNING:
			running[status.TaskID.Value] = true
		case mesos.TASK_STARTING:
		default:
			t.Fatalf("task %s is told %s: %s", status.TaskID.Value, status.GetState(), status.GetMessage())
		}
	}
	return pods
}

// forgetNode removes a node at the end: our scheduler has never heard of it.
func forgetNode(t *testing.T, node string) {
	t.Helper()
	t.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), node, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// makeHere makes a pod that no scheduler knows.
func makeHere(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	pod.Spec.SchedulerName = "nobody"
	made, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := int64(0) // no kubelet is there any more
		_ = client.CoreV1().Pods(namespace).Delete(context.WithoutCancel(t.Context()), made.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
	return made
}

// launchOf is the event by which an agent launches a pod.
func launchOf(t *testing.T, made *corev1.Pod, node string) *executor.Event {
	t.Helper()
	id := messages.TaskID(made.UID, 1)
	placed := made.DeepCopy()
	placed.Annotations = map[string]string{messages.AnnotationTaskID: id, messages.AnnotationBindingHost: node}
	data, err := messages.EncodeLaunch(messages.Launch{TaskID: id, Node: node, Pod: placed})
	if err != nil {
		t.Fatal(err)
	}
	return &executor.Event{Type: executor.Event_LAUNCH, Launch: &executor.Event_Launch{Task: mesos.TaskInfo{
		Name: made.Name, TaskID: mesos.TaskID{Value: id}, AgentID: mesos.AgentID{Value: "scripted-S0"}, Data: data}}}
}

// nextStatus waits for a status, and acknowledges it or not.
func nextStatus(t *testing.T, agent *scriptedAgent, acknowledge bool) mesos.TaskStatus {
	t.Helper()
	for {
		call := next(t, "status", agent.updates)
		if call.Type != executor.Call_UPDATE {
			continue
		}
		status := call.Update.Status
		if acknowledge {
			agent.events <- &executor.Event{Type: executor.Event_ACKNOWLEDGED, Acknowledged: &executor.Event_Acknowledged{
				TaskID: status.TaskID, UUID: status.UUID}}
		}
		return status
	}
}

// processesIn lists the processes in a cgroup below ours and in those below it.
func processesIn(t *testing.T, name string) []string {
	t.Helper()
	var pids []string
	err := filepath.WalkDir(filepath.Join("/sys/fs/cgroup/memory/mesopod", name), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cgroup.procs" {
			return nil // gone meanwhile
		}
		text, err := os.ReadFile(path)
		if err == nil {
			pids = append(pids, strings.Fields(string(text))...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

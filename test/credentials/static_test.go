package credentials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/cluster"
)

// manifest is a static pod of the document that runs for ever.
func manifest(name, cpu, word string) string {
	return fmt.Sprintf(`- {apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {terminationGracePeriodSeconds: 1, containers: [
    {name: main, image: "mesopod.local/busybox:1", command: [sh, -c, "echo %s; trap exit TERM; while true; do sleep 0.1; done"],
     resources: {requests: {cpu: %s, memory: 32Mi}}}]}}
`, name, word, cpu)
}

// mirrors waits until the static pods of a node are these, all running, and returns their containers by name.
func mirrors(t *testing.T, node string, names ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	cluster.Eventually(t, fmt.Sprintf("static pods %v on %s", names, node), func(ctx context.Context) error {
		list, err := suite.Client.CoreV1().Pods(cluster.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return err
		}
		clear(found)
		var seen []string
		for _, pod := range list.Items {
			if pod.Annotations[corev1.MirrorPodAnnotationKey] == "" {
				continue
			}
			name := strings.TrimSuffix(pod.Name, "-"+node)
			seen = append(seen, name)
			if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].State.Running == nil {
				return fmt.Errorf("%s", cluster.Describe(&pod))
			}
			found[name] = pod.Status.ContainerStatuses[0].ContainerID
		}
		slices.Sort(seen)
		if !slices.Equal(seen, names) {
			return fmt.Errorf("there are %v", seen)
		}
		return nil
	})
	return found
}

// placeholder waits until an agent has one placeholder task that has not ended, which runs with these cpus; 0 is for none.
func placeholder(t *testing.T, agentID string, cpus float64) string {
	t.Helper()
	id := ""
	cluster.Eventually(t, fmt.Sprintf("a placeholder task with %g cpus", cpus), func(ctx context.Context) error {
		all, err := suite.TasksNamed(ctx, "static-pods.")
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(task cluster.Task) bool {
			return task.AgentID.Value != agentID || task.State != "TASK_RUNNING" && task.State != "TASK_STAGING" && task.State != "TASK_KILLING"
		})
		switch {
		case len(all) == 0 && cpus == 0:
			id = ""
			return nil
		case len(all) != 1 || all[0].State != "TASK_RUNNING" || all[0].Amount("cpus") != cpus:
			return fmt.Errorf("there are %+v", all)
		}
		id = all[0].TaskID.Value
		return nil
	})
	return id
}

// Static pods of the document (EX-103) run on each agent with an executor: mirrored on the API server, accounted for by a
// placeholder task of Mesos, through restarts of executor and scheduler and beside pods that notice nothing. A manifest that is
// wrong is told on the Node, and the others run (EX-104). They change with the document, and go with it.
func TestStaticPods(t *testing.T) {
	document, err := os.ReadFile(configFile())
	if err != nil {
		t.Fatal(err)
	}
	write := func(manifests ...string) {
		t.Helper()
		text := string(document)
		if len(manifests) > 0 {
			text += "staticPods:\n" + strings.Join(manifests, "")
		}
		if err := os.WriteFile(configFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { write() })
	neighbour := running(t, "neighbour", node2)
	agentID := neighbour.Annotations[messages.AnnotationAgentID]

	write(manifest("collector", "100m", "one"), manifest("UPPER", "100m", "x"),
		"- {apiVersion: v1, kind: Pod, metadata: {name: typo}, spec: {container: []}}\n", manifest("probe", "50m", "one"))
	before := mirrors(t, node2, "collector", "probe")
	// The name that only the kubelet's check refuses is accounted for as well.
	task := placeholder(t, agentID, 0.25)
	cluster.Eventually(t, "events about the wrong manifests on the Node", func(ctx context.Context) error {
		events, err := suite.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node2})
		if err != nil {
			return err
		}
		told := ""
		for _, e := range events.Items {
			if e.Reason == "InvalidStaticPod" {
				told += e.Message + "\n"
			}
		}
		if !strings.Contains(told, `staticPods[2]: invalid: unknown field "spec.container"`) || !strings.Contains(told, "UPPER-"+node2) {
			return fmt.Errorf("they tell: %s", told)
		}
		return nil
	})

	suite.KillPart(t, suite.OfAgent(2), cluster.ExecutorWords)
	suite.KillPart(t, "", "scheduler --kubeconfig=")
	after := running(t, "after-restarts", node2) // both work again
	if now := mirrors(t, node2, "collector", "probe"); now["collector"] != before["collector"] || now["probe"] != before["probe"] {
		t.Errorf("containers of static pods were %v and are %v", before, now)
	}
	if now := placeholder(t, agentID, 0.25); now != task {
		t.Errorf("the placeholder task was %s and is %s", task, now)
	}

	// Another request: another task, and the pod that did not change runs on.
	write(manifest("collector", "200m", "two"), manifest("probe", "50m", "one"))
	placeholder(t, agentID, 0.25)
	cluster.Eventually(t, "the changed pod to be another one", func(ctx context.Context) error {
		if now := mirrors(t, node2, "collector", "probe"); now["collector"] == before["collector"] {
			return errors.New("it is as before")
		} else if now["probe"] != before["probe"] {
			t.Errorf("the pod that did not change has another container")
		}
		return nil
	})
	if now := placeholder(t, agentID, 0.25); now == task {
		t.Errorf("task %s stands for other claims than it was launched with", now)
	}

	write()
	mirrors(t, node2)
	placeholder(t, agentID, 0)
	suite.SameContainer(t, neighbour)
	suite.SameContainer(t, after)
}

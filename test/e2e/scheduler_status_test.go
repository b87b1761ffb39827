package e2e

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// look gets a page of the scheduler.
func look(ctx context.Context, path string) (string, error) {
	code, text, err := cluster.Look(ctx, path)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s: %d: %s", path, code, text)
	}
	return text, err
}

// series is a series' value; 0 when it is not there.
func series(text, name string) float64 {
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(found[1], 64)
	return n
}

// The scheduler is ready, Mesos' UI links to it, and its series move with a pod: offers, launches, bindings, statuses; each offer that
// came has ended or is held. kube-scheduler's own are there too.
func TestSchedulerMetrics(t *testing.T) {
	var state struct {
		Frameworks []struct {
			URL string `json:"webui_url"`
		} `json:"frameworks"`
	}
	if err := get(t.Context(), masterURL+"/master/state", nil, &state); err != nil || len(state.Frameworks) != 1 || state.Frameworks[0].URL != cluster.StatusURL+"/" {
		t.Errorf("Mesos links to %+v (%v), want %s/", state.Frameworks, err, cluster.StatusURL)
	}
	if text, err := look(t.Context(), "/readyz?verbose"); err != nil || !strings.Contains(text, "[+]mesos ok: "+masterURL) {
		t.Errorf("readiness: %s, %v", text, err)
	}
	before, err := look(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	waitTask(t, waitPhase(t, create(t, newPod("counted", steady)).Name, corev1.PodRunning), "TASK_RUNNING")
	eventually(t, "the series to move", func(ctx context.Context) error {
		after, err := look(ctx, "/metrics")
		if err != nil {
			return err
		}
		for _, name := range []string{
			"mesopod_scheduler_offers_received_total", `mesopod_scheduler_offers_ended_total{how="accepted"}`, "mesopod_scheduler_accept_tasks_count",
			`mesopod_scheduler_bind_duration_seconds_count{result="bound"}`, "mesopod_scheduler_launch_duration_seconds_count",
			`mesopod_scheduler_status_updates_total{reason="",source="EXECUTOR",state="RUNNING"}`, `mesopod_scheduler_pods{stage="running"}`,
			`mesopod_scheduler_tasks{state="RUNNING"}`, "scheduler_schedule_attempts_total{profile=\"mesos\",result=\"scheduled\"}",
		} {
			if series(after, name) <= series(before, name) {
				return fmt.Errorf("%s is %g, was %g", name, series(after, name), series(before, name))
			}
		}
		open := series(after, "mesopod_scheduler_offers_received_total") - series(after, "mesopod_scheduler_offers_held")
		for _, how := range []string{"accepted", "declined", "rescinded", "lost"} {
			open -= series(after, `mesopod_scheduler_offers_ended_total{how="`+how+`"}`)
		}
		if open != 0 || series(after, "mesopod_scheduler_placing") != 1 {
			return fmt.Errorf("%g offers neither ended nor held, placing=%g", open, series(after, "mesopod_scheduler_placing"))
		}
		return nil
	})
}

// A pod that waits stands on the pages with the reason that its condition has; a pod that ran has its timeline, each step with its
// reason; JSON tells the same.
func TestSchedulerPages(t *testing.T) {
	giant := newPod("giant-on-page", steady)
	giant.Spec.Containers[0].Resources.Requests = requests("1000", "32Mi")
	create(t, giant)
	made := create(t, newPod("ends-on-page", "true"))
	reason := unscheduled(waitPod(t, giant.Name, "to have a reason", func(p *corev1.Pod) string {
		if unscheduled(p) == "" {
			return "no reason yet"
		}
		return ""
	}))
	waitTask(t, waitPhase(t, made.Name, corev1.PodSucceeded), "TASK_FINISHED")
	eventually(t, "the pages to tell of the pods", func(ctx context.Context) error {
		for path, parts := range map[string][]string{
			"/":                                 {masterURL, "waiting"},
			"/agents":                           {nodeName, "rack=r1"},
			"/pods":                             {"default/" + made.Name, "default/" + giant.Name},
			"/queue":                            {"default/" + giant.Name, html.EscapeString(reason)},
			"/pods/default/" + giant.Name:       {html.EscapeString(reason), "Waiting"},
			"/pods/default/" + made.Name:        {"launch on offers", "pods to launch on", "pod-succeeded", "Succeeded", masterURL + "/#/agents/"},
			"/recent?q=" + made.Name:            {"kube-scheduler chose the node"},
			"/queue?format=json":                {strconv.Quote(reason)},
			"/offers?format=json":               {`"offers": [`},
			"/pods?stage=waiting&q=giant-on-":   {"1 to 1 of 1"},
			"/pods/default/none-of-this-name-x": nil,
		} {
			text, err := look(ctx, path)
			if parts == nil {
				if err == nil || !strings.Contains(text, "there is no pod") {
					return fmt.Errorf("%s: %s, %w", path, text, err)
				}
				continue
			}
			if err != nil {
				return err
			}
			for _, part := range parts {
				if !strings.Contains(text, part) {
					return fmt.Errorf("%s lacks %q", path, part)
				}
			}
		}
		return nil
	})
}

// mesopod plan tells of each node, of what is there and of what is not, and leaves nothing behind: no pod, no task, no event.
func TestPlan(t *testing.T) {
	file := t.TempDir() + "/pods.yaml"
	plan := func(text string) (string, int) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), mesopod(), "plan", "-f", file, "--kubeconfig="+kubeconfig(), "--scheduler="+cluster.StatusURL)
		out, err := command.CombinedOutput()
		if err != nil && command.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), command.ProcessState.ExitCode()
	}
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: planned}\nspec: {schedulerName: mesos, containers: [{name: c, image: i, resources: {requests: {cpu: %q}}}]}\n---\n"
	const job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: planned-job}\nspec: {template: {spec: {schedulerName: mesos, restartPolicy: Never, nodeSelector: {kubernetes.io/hostname: mesopod-agent2}, containers: [{name: c, image: i}]}}}\n"
	out, code := plan(fmt.Sprintf(pod, "10m") + job)
	for _, part := range []string{"pod default/planned needs 0.01 cpus, 64 MB memory", "pod default/planned fits on 2 of 2 nodes", "pod default/planned-job fits on 1 of 2 nodes", "didn't match Pod's node affinity/selector"} {
		if code != 0 || !strings.Contains(out, part) {
			t.Errorf("code %d, %q is missing:\n%s", code, part, out)
		}
	}
	if out, code := plan(fmt.Sprintf(pod, "1000")); code != 6 || !strings.Contains(out, "fits on 0 of 2 nodes: 0/2 nodes are available: 2 too few cpus on offer.") {
		t.Errorf("a pod that is too large: code %d\n%s", code, out)
	}
	for text, says := range map[string]string{
		fmt.Sprintf(strings.Replace(pod, "containers", "contaners", 1), "1"): "unknown field",
		strings.Replace(pod, "%q", "1, ephemeral: 2", 1):                     "the API server refuses it",
	} {
		if out, code := plan(text); code != 2 || !strings.Contains(out, says) {
			t.Errorf("a file with a fault: code %d, want 2 and %q\n%s", code, says, out)
		}
	}
	if out, code := plan(strings.Replace(fmt.Sprintf(pod, "1"), "schedulerName: mesos", "schedulerName: other", 1)); code != 6 || !strings.Contains(out, "this scheduler places pods of mesos") {
		t.Errorf("a pod of another scheduler: code %d\n%s", code, out)
	}
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if strings.HasPrefix(pods.Items[i].Name, "planned") {
			t.Errorf("pod %s was left behind", pods.Items[i].Name)
		}
	}
	if text, err := look(t.Context(), "/recent?q=planned"); err != nil || !strings.Contains(text, "Nothing.") {
		t.Errorf("the scheduler remembers a plan: %v\n%s", err, text)
	}
}

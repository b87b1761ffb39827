package e2e

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

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

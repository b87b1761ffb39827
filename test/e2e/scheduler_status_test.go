package e2e

import (
	"context"
	"fmt"
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

package idle

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// schedule sets Mesos' maintenance schedule: this much JSON of windows, or none.
func schedule(ctx context.Context, windows string) error {
	var answer any
	err := cluster.Request(ctx, http.MethodPost, cluster.MasterURL+"/maintenance/schedule", []byte(`{"windows":[`+windows+`]}`), &answer)
	if err != nil && strings.Contains(err.Error(), "unexpected end of JSON input") {
		return nil // it answers with nothing
	}
	return err
}

// Pods are told of a maintenance of their agent, and the scheduler agrees to it: inverse offers are answered.
func TestMaintenance(t *testing.T) {
	suite.Create(t, cluster.OnNode(cluster.NewPod("warned", cluster.Steady), cold))
	suite.WaitTask(t, suite.WaitPhase(t, "warned", corev1.PodRunning), "TASK_RUNNING")
	start := time.Now().Add(time.Hour)
	window := fmt.Sprintf(`{"machine_ids":[{"hostname":%q,"ip":"10.89.0.12"}],"unavailability":{"start":{"nanoseconds":%d},"duration":{"nanoseconds":%d}}}`,
		cold, start.UnixNano(), time.Hour.Nanoseconds())
	if err := schedule(t.Context(), window); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := schedule(context.WithoutCancel(t.Context()), ""); err != nil {
			t.Error(err)
		}
	})
	cluster.Eventually(t, "event of the maintenance", func(ctx context.Context) error {
		reasons, err := suite.EventReasons(ctx, "warned")
		if err == nil && !strings.Contains(reasons["AgentMaintenance"], start.UTC().Format(time.RFC3339)) {
			err = fmt.Errorf("events are %v", reasons)
		}
		return err
	})
	var status struct {
		Draining []struct {
			Statuses []struct {
				Status string `json:"status"`
			} `json:"statuses"`
		} `json:"draining_machines"`
	}
	cluster.Eventually(t, "master to have the answer", func(ctx context.Context) error {
		if err := cluster.Get(ctx, cluster.MasterURL+"/maintenance/status", nil, &status); err != nil {
			return err
		}
		for _, machine := range status.Draining {
			for _, one := range machine.Statuses {
				if one.Status == "ACCEPT" {
					return nil
				}
			}
		}
		return fmt.Errorf("status is %+v", status)
	})
}

package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// faults are those of a kind that the scheduler or the executor has to outlive, each met by one pod. Those that need longer than a
// few seconds are in internal/mesossim/survival.
var faults = []struct {
	name, fault string
	partition   bool // healed once it was met
}{
	{"updates dropped", `"link":"scheduler","kind":"drop","match":"UPDATE","count":1`, false},
	{"updates delayed", `"link":"scheduler","kind":"delay","match":"UPDATE","count":2,"delay":"500ms"`, false},
	{"updates doubled", `"link":"scheduler","kind":"duplicate","match":"UPDATE","count":3`, false},
	{"updates out of order", `"link":"scheduler","kind":"reorder","match":"UPDATE","count":1`, false},
	{"update cut in half", `"link":"scheduler","kind":"truncate","match":"UPDATE","count":1`, false},
	{"stream closed", `"link":"scheduler","kind":"close","match":"UPDATE","count":1`, false},
	{"offers delayed", `"link":"scheduler","kind":"delay","match":"OFFERS","count":1,"delay":"500ms"`, false},
	{"offers cut in half", `"link":"scheduler","kind":"truncate","match":"OFFERS","count":1`, false},
	{"ACKs lost", `"link":"scheduler","kind":"drop","match":"ACKNOWLEDGE","calls":true,"count":1`, false},
	{"ACKs doubled", `"link":"scheduler","kind":"duplicate","match":"ACKNOWLEDGE","calls":true,"count":2`, false},
	{"ACCEPT delayed", `"link":"scheduler","kind":"delay","match":"ACCEPT","calls":true,"count":1,"delay":"500ms"`, false},
	{"ACCEPT 503", `"link":"scheduler","kind":"status","match":"ACCEPT","code":503,"count":1`, false},
	{"ACCEPT 307", `"link":"scheduler","kind":"status","match":"ACCEPT","code":307,"location":"//` + cluster.BridgeIP + `:5050/api/v1/scheduler","count":1`, false},
	{"connection broken", `"link":"scheduler","kind":"close","match":"ACCEPT","calls":true,"count":1`, false},
	{"scheduler cut off", `"link":"scheduler","kind":"partition","match":"ACCEPT"`, true},
	{"executor's ACKs lost", `"link":"executor","kind":"drop","match":"ACKNOWLEDGED","count":1`, false},
	{"executor's ACKs doubled", `"link":"executor","kind":"duplicate","match":"ACKNOWLEDGED","count":2`, false},
	{"executor's ACKs out of order", `"link":"executor","kind":"reorder","match":"ACKNOWLEDGED","count":1`, false},
	{"executor's ACK cut in half", `"link":"executor","kind":"truncate","match":"ACKNOWLEDGED","count":1`, false},
	{"LAUNCH delayed", `"link":"executor","kind":"delay","match":"LAUNCH","count":1,"delay":"500ms"`, false},
	{"LAUNCH doubled", `"link":"executor","kind":"duplicate","match":"LAUNCH","count":1`, false},
	{"executor's UPDATE 503", `"link":"executor","kind":"status","match":"UPDATE","code":503,"count":1`, false},
	{"executor's UPDATE doubled", `"link":"executor","kind":"duplicate","match":"UPDATE","calls":true,"count":1`, false},
	{"executor's UPDATE lost", `"link":"executor","kind":"close","match":"UPDATE","calls":true,"count":1`, false},
	{"executor cut off", `"link":"executor","kind":"partition","match":"UPDATE"`, true},
}

// met is how often the fault was met.
func met(ctx context.Context, id string) (int, error) {
	var all []struct {
		ID  string
		Met int
	}
	if err := cluster.Request(ctx, http.MethodGet, cluster.MasterURL+"/sim/faults", nil, &all); err != nil {
		return 0, err
	}
	for _, f := range all {
		if f.ID == id {
			return f.Met, nil
		}
	}
	return 0, fmt.Errorf("fault %s is not in force", id)
}

// heal ends all faults.
func heal(ctx context.Context) error {
	return cluster.Request(ctx, http.MethodDelete, cluster.MasterURL+"/sim/faults", nil, nil)
}

// TestFaults: whatever goes wrong once between scheduler and master, or executor and agent, a pod that is started meanwhile comes to
// its end, once, and both sides agree on that.
func TestFaults(t *testing.T) {
	for n, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			order(t, "faults", `{"id":"f%d",%s}`, n, f.fault)
			t.Cleanup(func() {
				if err := heal(context.Background()); err != nil {
					t.Error(err)
				}
			})
			// The scheduler's link is the same whoever runs the pod, and pods that are acted out are quicker.
			pod := onActed(fmt.Sprintf("fault%d", n), map[string]string{"sim.run-time": "10ms"})
			if strings.HasPrefix(f.fault, `"link":"executor"`) {
				pod = onReal(cluster.NewPod(pod.Name, "true"))
			}
			pod = suite.Create(t, pod)
			cluster.Eventually(t, "the fault was met", func(ctx context.Context) error {
				times, err := met(ctx, fmt.Sprintf("f%d", n))
				if err == nil && times == 0 {
					err = errors.New("it was not")
				}
				return err
			})
			if f.partition {
				if err := heal(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			suite.WaitPhase(t, pod.Name, corev1.PodSucceeded)
			cluster.Eventually(t, "one task finished", func(ctx context.Context) error {
				all, err := suite.TasksOf(ctx, pod)
				finished := 0
				for _, one := range all {
					if one.State == "TASK_FINISHED" {
						finished++
					}
				}
				if err == nil && finished != 1 {
					err = fmt.Errorf("%d tasks finished of %d: %+v", finished, len(all), all)
				}
				return err
			})
		})
	}
}

package mesosconn

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/scheduler/procure"
)

// TestLimits reads /roles as Mesos 1.11 writes it: roles without a quota have empty limits, ports are text.
func TestLimits(t *testing.T) {
	var answer rolesAnswer
	if err := json.Unmarshal([]byte(`{"roles":[
		{"frameworks":["f"],"name":"prod","weight":1.0,"resources":{"cpus":1.5,"ports":"[1-2]"},
		 "quota":{"role":"prod","guarantee":{},"limit":{"cpus":4.0,"mem":1024.0},"consumed":{"cpus":1.5,"mem":0,"ports":"[1-2]"}}},
		{"name":"*","quota":{"role":"*","guarantee":{},"limit":{},"consumed":{}}},
		{"name":"batch","quota":{"role":"batch","guarantee":{"cpus":1.0},"limit":{"disk":100.0,"gpus":1},"consumed":{}}}]}`), &answer); err != nil {
		t.Fatal(err)
	}
	want := []procure.RoleLimit{
		{Role: "batch", Resource: "disk", Limit: 100}, {Role: "batch", Resource: "gpus", Limit: 1},
		{Role: "prod", Resource: "cpus", Limit: 4, Used: 1.5}, {Role: "prod", Resource: "mem", Limit: 1024},
	}
	if diff := cmp.Diff(want, answer.limits()); diff != "" {
		t.Error(diff)
	}
}

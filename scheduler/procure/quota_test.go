package procure_test

import (
	"testing"

	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// TestLimited: a quota is named as the reason only if it keeps the pod out of every role that it may use.
func TestLimited(t *testing.T) {
	limits := []procure.RoleLimit{
		{Role: "prod", Resource: "cpus", Limit: 4, Used: 3.9}, {Role: "prod", Resource: "mem", Limit: 4096, Used: 100},
		{Role: "dev", Resource: "mem", Limit: 1000, Used: 700},
	}
	share := offers.Amounts{CPUs: 500, MemMB: 256}
	prod := "role prod has 3.9 of the 4 cpus that its quota in Mesos allows"
	for name, test := range map[string]struct {
		roles     offers.Roles
		cpus, mem int64
		want      string
	}{
		"over the limit":              {"prod", 200, 32, prod},
		"over that of the role above": {"prod/web", 200, 32, prod},
		"a name that begins so":       {"production", 200, 32, ""},
		"with the executor":           {"prod", 100, 32, prod + ", too much for the pod and an executor"},
		"room":                        {"dev", 4000, 44, ""},
		"another role has room":       {"prod,*", 200, 32, ""},
		"both":                        {"prod,dev,prod/web", 200, 301, prod + ", role dev has 700 of the 1000 mem that its quota in Mesos allows"},
	} {
		need := need(test.cpus, test.mem, 0, 0)
		need.Roles = test.roles
		if got := procure.Limited(need, share, limits); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

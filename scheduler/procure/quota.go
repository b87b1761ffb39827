package procure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mesopod/mesopod/scheduler/offers"
)

// RoleLimit is what a quota in Mesos lets a role have of one resource, and what the role has of it already.
type RoleLimit struct {
	// Role that the limit is set on; it holds for the roles below it, too.
	Role string
	// Resource is cpus (in cores), mem or disk (in MiB).
	Resource    string
	Limit, Used float64
}

// holds tells that the limit is one of a role.
func (l RoleLimit) holds(role string) bool {
	return role == l.Role || strings.HasPrefix(role, l.Role+"/")
}

// asks is how much of the limited resource amounts are.
func (l RoleLimit) asks(a offers.Amounts) float64 {
	switch l.Resource {
	case "cpus":
		return float64(a.CPUs) / 1000
	case "mem":
		return float64(a.MemMB)
	case "disk":
		return float64(a.DiskMB)
	case "gpus":
		return float64(a.GPUs)
	}
	return 0
}

// Limited says which quotas in Mesos keep a need from being met, whatever agents have: empty unless there is one for each
// of the roles that the pod may use. share is an executor's, which may have to be started.
func Limited(need Need, share offers.Amounts, limits []RoleLimit) string {
	var texts []string
	for _, role := range need.Roles.All() {
		text := limitOfRole(role, need.Amounts, share, limits)
		if text == "" {
			return ""
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

func limitOfRole(role string, need, share offers.Amounts, limits []RoleLimit) string {
	for _, with := range []offers.Amounts{{}, share} {
		for _, l := range limits {
			if !l.holds(role) || l.Used+l.asks(need.Add(with)) <= l.Limit+1e-9 {
				continue
			}
			text := fmt.Sprintf("role %s has %g of the %g %s that its quota in Mesos allows", l.Role, l.Used, l.Limit, l.Resource)
			if with != (offers.Amounts{}) {
				text += ", too much for the pod and an executor"
			}
			return text
		}
	}
	return ""
}

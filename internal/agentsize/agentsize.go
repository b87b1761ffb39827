// Package agentsize sums up what of a Mesos agent pods may use.
//
// It exists because the scheduler reads an agent's resources from the master, the executor from the agent, and both
// derive the size of one node from them (messages.NodeCapacity): the rule is to be the same. messages itself knows no
// types of Mesos.
package agentsize

import (
	"math"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/messages"
)

// Of is the sum of the scalars that a framework with these roles may be offered: reserved for nobody, for one of the roles
// or for one above it, in the old or the new notation; not revocable, shared, of a resource provider, or a disk or volume
// of its own (EX-107). Mesos keeps three decimals, and so does the sum.
func Of(resources []mesos.Resource, roles []string) messages.Resources {
	return sum(resources, func(r *mesos.Resource) bool {
		free := r.Revocable == nil && r.Shared == nil && r.ProviderID == nil && r.Disk == nil
		return free && usable(reservedFor(r), roles)
	})
}

// All is the sum of the scalars, whosever they are, such as those of an executor.
func All(resources []mesos.Resource) messages.Resources {
	return sum(resources, func(*mesos.Resource) bool { return true })
}

func sum(resources []mesos.Resource, counts func(*mesos.Resource) bool) messages.Resources {
	var sum messages.Resources
	for i := range resources {
		r := &resources[i]
		if r.Scalar == nil || !counts(r) {
			continue
		}
		switch r.Name {
		case "cpus":
			sum.CPUs += r.Scalar.Value
		case "mem":
			sum.MemMB += r.Scalar.Value
		case "disk":
			sum.DiskMB += r.Scalar.Value
		case "gpus":
			sum.GPUs += r.Scalar.Value
		}
	}
	return messages.Resources{CPUs: round(sum.CPUs), MemMB: round(sum.MemMB), DiskMB: round(sum.DiskMB), GPUs: round(sum.GPUs)}
}

// reservedFor is the role that a resource is reserved for: the last of its reservations refines the others. "*" is nobody.
func reservedFor(r *mesos.Resource) string {
	switch n := len(r.Reservations); {
	case n > 0:
		return r.Reservations[n-1].GetRole()
	case r.Role != nil:
		return *r.Role
	}
	return "*"
}

func usable(reserved string, roles []string) bool {
	return reserved == "*" || slices.ContainsFunc(roles, func(role string) bool {
		return role == reserved || strings.HasPrefix(role, reserved+"/")
	})
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

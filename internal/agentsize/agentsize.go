// Package agentsize sums up what of a Mesos agent pods may use.
//
// It exists because the scheduler reads an agent's resources from the master, the executor from the agent, and both
// derive the size of one node from them (messages.NodeCapacity): the rule is to be the same. messages itself knows no
// types of Mesos.
package agentsize

import (
	"math"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/messages"
)

// Of is the sum of the scalars of role "*": neither reserved, in the old or the new notation, nor revocable, shared, of a
// resource provider, or a disk or volume of its own (EX-107). Mesos keeps three decimals, and so does the sum.
func Of(resources []mesos.Resource) messages.Resources {
	var sum messages.Resources
	for i := range resources {
		r := &resources[i]
		if r.Scalar == nil || !plain(r) {
			continue
		}
		switch r.Name {
		case "cpus":
			sum.CPUs += r.Scalar.Value
		case "mem":
			sum.MemMB += r.Scalar.Value
		case "disk":
			sum.DiskMB += r.Scalar.Value
		}
	}
	return messages.Resources{CPUs: round(sum.CPUs), MemMB: round(sum.MemMB), DiskMB: round(sum.DiskMB)}
}

func plain(r *mesos.Resource) bool {
	reserved := r.Reservation != nil || len(r.Reservations) > 0 || r.Role != nil && *r.Role != "*"
	return !reserved && r.Revocable == nil && r.Shared == nil && r.ProviderID == nil && r.Disk == nil
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

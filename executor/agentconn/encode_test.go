package agentconn

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/messages"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// EX-107: only scalars that nobody reserved and that are not revocable make up the node.
func TestUnreserved(t *testing.T) {
	scalar := func(name string, value float64, change func(*mesos.Resource)) mesos.Resource {
		r := mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
		if change != nil {
			change(&r)
		}
		return r
	}
	star, ops := "*", "ops"
	got := unreserved([]mesos.Resource{
		scalar("cpus", 1.1, nil),
		scalar("cpus", 2.2, func(r *mesos.Resource) { r.Role = &star }),
		scalar("cpus", 8, func(r *mesos.Resource) { r.Role = &ops }),
		scalar("mem", 512, nil),
		scalar("mem", 64, func(r *mesos.Resource) { r.Revocable = &mesos.Resource_RevocableInfo{} }),
		scalar("mem", 64, func(r *mesos.Resource) { r.Reservations = []mesos.Resource_ReservationInfo{{Role: &ops}} }),
		scalar("disk", 100, nil),
		scalar("gpus", 1, nil),
		{Name: "ports", Type: mesos.RANGES.Enum(), Ranges: &mesos.Value_Ranges{}},
	})
	if diff := cmp.Diff(messages.Resources{CPUs: 3.3, MemMB: 512, DiskMB: 100}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

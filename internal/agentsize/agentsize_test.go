package agentsize_test

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/internal/agentsize"
	"github.com/mesopod/mesopod/messages"
)

func scalar(name string, value float64, change ...func(*mesos.Resource)) mesos.Resource {
	r := mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
	for _, c := range change {
		c(&r)
	}
	return r
}

// TestOf proves the sum of EX-107: what any role may use, and nothing that has an owner or comes and goes.
func TestOf(t *testing.T) {
	star, prod := "*", "prod"
	ours, under := "ours", "ours/deep"
	got := agentsize.Of([]mesos.Resource{
		scalar("mem", 1, func(r *mesos.Resource) { r.Reservations = []mesos.Resource_ReservationInfo{{Role: &ours}} }),
		scalar("mem", 2, func(r *mesos.Resource) {
			r.Reservations = []mesos.Resource_ReservationInfo{{Role: &ours}, {Role: &under}}
		}),
		scalar("mem", 4, func(r *mesos.Resource) { r.Role = &ours }),
		scalar("mem", 8, func(r *mesos.Resource) {
			r.Reservations = []mesos.Resource_ReservationInfo{{Role: &ours}, {Role: &prod}}
		}),
		scalar("cpus", 0.1), scalar("cpus", 0.2, func(r *mesos.Resource) { r.Role = &star }),
		scalar("cpus", 8, func(r *mesos.Resource) { r.Role = &prod }),
		scalar("cpus", 8, func(r *mesos.Resource) { r.Reservation, r.Role = &mesos.Resource_ReservationInfo{}, &prod }),
		scalar("cpus", 8, func(r *mesos.Resource) { r.Reservations = []mesos.Resource_ReservationInfo{{Role: &prod}} }),
		scalar("cpus", 8, func(r *mesos.Resource) { r.Revocable = &mesos.Resource_RevocableInfo{} }),
		scalar("mem", 512), scalar("mem", 512.5),
		scalar("disk", 100),
		scalar("disk", 5000, func(r *mesos.Resource) { r.Disk = &mesos.Resource_DiskInfo{} }),
		scalar("disk", 5000, func(r *mesos.Resource) { r.ProviderID = &mesos.ResourceProviderID{Value: "p"} }),
		scalar("disk", 5000, func(r *mesos.Resource) { r.Shared = &mesos.Resource_SharedInfo{} }),
		scalar("gpus", 1), scalar("gpus", 4, func(r *mesos.Resource) { r.Role = &prod }), scalar("fpgas", 1),
		{Name: "ports", Type: mesos.RANGES.Enum(), Ranges: &mesos.Value_Ranges{}},
	}, []string{"*", "ours/deep"})
	if want := (messages.Resources{CPUs: 0.3, MemMB: 1031.5, DiskMB: 100, GPUs: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

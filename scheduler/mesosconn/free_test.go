package mesosconn

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// What is allocated, to whichever role, is taken from what there is; reserved and unreserved amounts are apart.
func TestMinus(t *testing.T) {
	scalar := func(name string, amount float64, allocated, reserved string) mesos.Resource {
		r := mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: amount}}
		if allocated != "" {
			r.AllocationInfo = &mesos.Resource_AllocationInfo{Role: &allocated}
		}
		if reserved != "" {
			r.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: &reserved}}
		}
		return r
	}
	ports := func(begin, end uint64, allocated string) mesos.Resource {
		r := mesos.Resource{Name: "ports", Type: mesos.RANGES.Enum(), Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: begin, End: end}}}}
		if allocated != "" {
			r.AllocationInfo = &mesos.Resource_AllocationInfo{Role: &allocated}
		}
		return r
	}
	total := []mesos.Resource{scalar("cpus", 4, "", ""), scalar("cpus", 2, "", "prod"), scalar("mem", 512, "", ""), ports(31000, 32000, "")}
	left := minus(total, []mesos.Resource{scalar("cpus", 1.5, "*", ""), scalar("cpus", 0.5, "dev", ""), scalar("cpus", 2, "prod", "prod"), ports(31000, 31000, "*")})
	if got := mesos.Resources(left).String(); got != "cpus:2;mem:512;ports:[31001-32000]" {
		t.Errorf("got %s", got)
	}
	if got := mesos.Resources(total).String(); got != "cpus:4;cpus(reservations: [(STATIC,prod)]):2;mem:512;ports:[31000-32000]" {
		t.Errorf("what there is has changed: %s", got)
	}
}

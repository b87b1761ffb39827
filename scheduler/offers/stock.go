package offers

import (
	"cmp"
	"math"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Stock is what the offers of one agent in one role hold, resource by resource as Mesos named them, for a launch to take
// from. Reserved resources go first, the most refined before others, so that what anybody may use is left to others.
// Volumes, revocable and shared resources and those of resource providers are left alone and go back with the offers.
type Stock struct{ resources []mesos.Resource }

// newStock copies what pods may take of offered resources.
func newStock(role string, offered ...[]mesos.Resource) *Stock {
	s := &Stock{}
	for _, resources := range offered {
		for i := range resources {
			if takeable(&resources[i]) {
				s.add(allocated(resources[i], role))
			}
		}
	}
	slices.SortStableFunc(s.resources, func(a, b mesos.Resource) int { return cmp.Compare(len(b.Reservations), len(a.Reservations)) })
	return s
}

// takeable: what pods can use. Whatever an offer holds may be used by its role, so a reservation needs no check: it is of
// that role or of one above it.
func takeable(r *mesos.Resource) bool {
	return r.Revocable == nil && r.Shared == nil && r.Disk == nil && r.ProviderID == nil
}

// allocated says the role on the resource, as Mesos does.
func allocated(r mesos.Resource, role string) mesos.Resource {
	if r.AllocationInfo == nil {
		r.AllocationInfo = &mesos.Resource_AllocationInfo{Role: &role}
	}
	return r
}

// add joins a resource with one of the same kind.
func (s *Stock) add(r mesos.Resource) {
	for i := range s.resources {
		have := &s.resources[i]
		if !sameKind(have, &r) {
			continue
		}
		switch {
		case r.Scalar != nil:
			have.Scalar = &mesos.Value_Scalar{Value: float64(thousandths(have.Scalar.GetValue())+thousandths(r.Scalar.Value)) / 1000}
		case r.Ranges != nil:
			have.Ranges = wire(union(append(portsOf(have), portsOf(&r)...)))
		}
		return
	}
	s.resources = append(s.resources, r)
}

// sameKind tells that two resources differ in their amounts at most.
func sameKind(a, b *mesos.Resource) bool {
	if a.Name != b.Name || (a.Scalar == nil) != (b.Scalar == nil) || (a.Ranges == nil) != (b.Ranges == nil) {
		return false
	}
	x, y := *a, *b
	x.Scalar, x.Ranges, y.Scalar, y.Ranges = nil, nil, nil, nil
	return x.Equal(&y)
}

// sum is all of it in whole amounts.
func (s *Stock) sum() (Amounts, Ports) {
	var cpus, mem, disk, gpus int64
	var ports Ports
	for i := range s.resources {
		r := &s.resources[i]
		switch r.Name {
		case "cpus":
			cpus += thousandths(r.GetScalar().GetValue())
		case "mem":
			mem += thousandths(r.GetScalar().GetValue())
		case "disk":
			disk += thousandths(r.GetScalar().GetValue())
		case "gpus":
			gpus += thousandths(r.GetScalar().GetValue())
		case "ports":
			ports = append(ports, portsOf(r)...)
		}
	}
	return Amounts{CPUs: cpus, MemMB: mem / 1000, DiskMB: disk / 1000, GPUs: gpus / 1000}, union(ports)
}

// Take takes a need and returns it as Mesos wants it in a TaskInfo: each resource as it was offered, with its
// reservations. ok is false, and the stock spoilt, when there is not enough.
func (s *Stock) Take(need Need) (taken []mesos.Resource, ok bool) {
	ok = true
	for _, scalar := range []struct {
		name   string
		amount int64
	}{{"cpus", need.CPUs}, {"mem", need.MemMB * 1000}, {"disk", need.DiskMB * 1000}, {"gpus", need.GPUs * 1000}} {
		some, enough := s.scalar(scalar.name, scalar.amount)
		taken, ok = append(taken, some...), ok && enough
	}
	some, enough := s.ports(need.Ports)
	return append(taken, some...), ok && enough
}

// TakeExecutor takes an executor's share, in cores and MiB with Mesos' three decimals, for its ExecutorInfo.
func (s *Stock) TakeExecutor(cpus, memMB float64) (taken []mesos.Resource, ok bool) {
	some, enough := s.scalar("cpus", thousandths(cpus))
	more, also := s.scalar("mem", thousandths(memMB))
	return append(some, more...), enough && also
}

// scalar takes an amount in thousandths.
func (s *Stock) scalar(name string, amount int64) (taken []mesos.Resource, ok bool) {
	for i := range s.resources {
		r := &s.resources[i]
		has := int64(0)
		if r.Name == name {
			has = thousandths(r.GetScalar().GetValue())
		}
		part := min(has, amount)
		if part <= 0 {
			continue
		}
		one := *r
		one.Scalar = &mesos.Value_Scalar{Value: float64(part) / 1000}
		r.Scalar = &mesos.Value_Scalar{Value: float64(has-part) / 1000}
		taken, amount = append(taken, one), amount-part
	}
	return taken, amount <= 0
}

func (s *Stock) ports(wanted PortSet) (taken []mesos.Resource, ok bool) {
	left := wanted.All()
	for i := range s.resources {
		r := &s.resources[i]
		if r.Name != "ports" || len(left) == 0 {
			continue
		}
		here := portsOf(r)
		var found []uint16
		left = slices.DeleteFunc(left, func(port uint16) bool {
			is := here.Has(NewPortSet(port))
			if is {
				found = append(found, port)
			}
			return is
		})
		if len(found) == 0 {
			continue
		}
		set := NewPortSet(found...)
		one := *r
		one.Ranges = wire(union(set.ranges()))
		r.Ranges = wire(here.Without(set))
		taken = append(taken, one)
	}
	return taken, len(left) == 0
}

// ranges are the ports as ranges of one each.
func (s PortSet) ranges() (all Ports) {
	for _, port := range s.All() {
		all = append(all, PortRange{Begin: uint64(port), End: uint64(port)})
	}
	return all
}

func portsOf(r *mesos.Resource) (all Ports) {
	for _, rng := range r.GetRanges().GetRange() {
		all = append(all, PortRange{Begin: rng.Begin, End: rng.End})
	}
	return all
}

func wire(ports Ports) *mesos.Value_Ranges {
	ranges := &mesos.Value_Ranges{}
	for _, r := range ports {
		ranges.Range = append(ranges.Range, mesos.Value_Range{Begin: r.Begin, End: r.End})
	}
	return ranges
}

// huge bounds what is taken from the wire: far above any machine, far below overflow.
const huge = 1 << 50

// thousandths rounds to the three decimals of Mesos, so that 0.1+0.2 is 300. NaN and negative amounts are nothing.
func thousandths(v float64) int64 {
	if !(v > 0) {
		return 0
	}
	return int64(math.Min(math.Round(v*1000), huge))
}

package resources

import (
	"fmt"
	"math"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// Unreserved is the role of what nobody reserved.
const Unreserved = "*"

// Bag is a sum of resources, sorted by key. Nil is the empty one.
type Bag []Item

// Item is the amount of one kind of resource.
type Item struct {
	// key orders items and tells them apart.
	key string
	// kind is the resource without amount and allocation, with reservations in the newer notation. It is shared and never
	// written to.
	kind *mesos.Resource
	// Milli is a scalar's amount in thousandths, Spans those of ranges, Set the members of a set.
	Milli int64
	Spans []Span
	Set   []string
}

// Span is a range of numbers, both ends included.
type Span struct{ Begin, End uint64 }

// Name of the resource: cpus, mem, disk, ports, gpus.
func (i Item) Name() string { return i.kind.Name }

// Role is whom the resource is reserved for, Unreserved for nobody.
func (i Item) Role() string {
	if n := len(i.kind.Reservations); n > 0 {
		return i.kind.Reservations[n-1].GetRole()
	}
	return Unreserved
}

// Refined tells that the resource is reserved more than once over.
func (i Item) Refined() bool { return len(i.kind.Reservations) > 1 }

// Revocable tells that the resource may be taken back at any time.
func (i Item) Revocable() bool { return i.kind.Revocable != nil }

// Shared tells that several tasks may have the resource at once.
func (i Item) Shared() bool { return i.kind.Shared != nil }

// Plain tells that the resource is neither reserved nor revocable nor a disk of its own.
func (i Item) Plain() bool { return i.key == i.kind.Name }

// Statically tells that the resource was reserved by the agent's flags.
func (i Item) Statically() bool {
	n := len(i.kind.Reservations)
	return n > 0 && i.kind.Reservations[n-1].GetType() == mesos.Resource_ReservationInfo_STATIC
}

func (i Item) empty() bool { return i.Milli == 0 && len(i.Spans) == 0 && len(i.Set) == 0 }

// Of reads resources in either notation. A resource that is negative, without a value or in both notations is an error.
func Of(list []mesos.Resource) (Bag, error) {
	items := make(Bag, 0, len(list))
	for n := range list {
		item, err := itemOf(&list[n])
		if err != nil {
			return nil, err
		}
		if !item.empty() {
			items = append(items, item)
		}
	}
	slices.SortStableFunc(items, func(a, b Item) int { return strings.Compare(a.key, b.key) })
	var sum Bag
	for _, item := range items {
		if last := len(sum) - 1; last >= 0 && sum[last].key == item.key {
			sum[last] = plus(sum[last], item)
			continue
		}
		sum = append(sum, item)
	}
	return sum, nil
}

// Must is Of for resources that were read before.
func Must(list []mesos.Resource) Bag {
	b, err := Of(list)
	if err != nil {
		panic(err)
	}
	return b
}

func itemOf(r *mesos.Resource) (Item, error) {
	item := Item{}
	switch {
	case r.Name == "":
		return item, fmt.Errorf("resource without a name")
	case r.Scalar != nil:
		if math.IsNaN(r.Scalar.Value) || math.IsInf(r.Scalar.Value, 0) || r.Scalar.Value < 0 {
			return item, fmt.Errorf("resource %s has the amount %v", r.Name, r.Scalar.Value)
		}
		item.Milli = int64(math.Round(r.Scalar.Value * 1000))
	case r.Ranges != nil:
		for _, span := range r.Ranges.Range {
			if span.Begin > span.End {
				return item, fmt.Errorf("resource %s has the range [%d-%d]", r.Name, span.Begin, span.End)
			}
			item.Spans = append(item.Spans, Span{span.Begin, span.End})
		}
		item.Spans = tidy(item.Spans)
	case r.Set != nil:
		item.Set = slices.Clone(r.Set.Item)
		slices.Sort(item.Set)
		item.Set = slices.Compact(item.Set)
	default:
		return item, fmt.Errorf("resource %s has no value", r.Name)
	}
	if len(r.Reservations) > 0 && (r.Reservation != nil || r.Role != nil) {
		return item, fmt.Errorf("resource %s has its reservation in both notations", r.Name)
	}
	item.kind, item.key = kindOf(r)
	return item, nil
}

// plainKinds are the kinds that nearly all resources are of.
var plainKinds = map[string]*mesos.Resource{
	"cpus":  {Name: "cpus", Type: mesos.SCALAR.Enum()},
	"mem":   {Name: "mem", Type: mesos.SCALAR.Enum()},
	"disk":  {Name: "disk", Type: mesos.SCALAR.Enum()},
	"gpus":  {Name: "gpus", Type: mesos.SCALAR.Enum()},
	"ports": {Name: "ports", Type: mesos.RANGES.Enum()},
}

func kindOf(r *mesos.Resource) (*mesos.Resource, string) {
	reserved := len(r.Reservations) > 0 || r.Reservation != nil || r.Role != nil && *r.Role != Unreserved
	if !reserved && r.Disk == nil && r.Revocable == nil && r.Shared == nil && r.ProviderID == nil {
		if kind := plainKinds[r.Name]; kind != nil && kind.GetType() == typeOf(r) {
			return kind, r.Name
		}
		return &mesos.Resource{Name: r.Name, Type: typeOf(r).Enum()}, r.Name
	}
	kind := &mesos.Resource{
		Name: r.Name, Type: typeOf(r).Enum(), Disk: r.Disk, Revocable: r.Revocable, Shared: r.Shared, ProviderID: r.ProviderID,
		Reservations: r.Reservations,
	}
	if len(kind.Reservations) == 0 && reserved {
		kind.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: r.Role}}
		if r.Reservation != nil {
			kind.Reservations[0] = mesos.Resource_ReservationInfo{
				Type: mesos.Resource_ReservationInfo_DYNAMIC.Enum(), Role: r.Role, Principal: r.Reservation.Principal, Labels: r.Reservation.Labels,
			}
		}
	}
	return kind, r.Name + "\x00" + identity(kind)
}

// identity tells kinds apart. String would show addresses.
func identity(kind *mesos.Resource) string {
	data, err := kind.Marshal()
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func typeOf(r *mesos.Resource) mesos.Value_Type {
	switch {
	case r.Ranges != nil:
		return mesos.RANGES
	case r.Set != nil:
		return mesos.SET
	}
	return mesos.SCALAR
}

// Notation is how reservations and allocations are written for a framework.
type Notation struct {
	// Role that the resources are allocated to; empty leaves that out.
	Role string
	// Refined is the newer notation, a stack of reservations.
	Refined bool
}

// Proto writes the resources down.
func (b Bag) Proto(n Notation) []mesos.Resource {
	list := make([]mesos.Resource, len(b))
	var allocation *mesos.Resource_AllocationInfo
	if n.Role != "" {
		allocation = &mesos.Resource_AllocationInfo{Role: &n.Role}
	}
	for i, item := range b {
		r := *item.kind
		r.AllocationInfo = allocation
		if !n.Refined {
			older(&r)
		}
		switch r.GetType() {
		case mesos.RANGES:
			r.Ranges = &mesos.Value_Ranges{Range: make([]mesos.Value_Range, len(item.Spans))}
			for k, span := range item.Spans {
				r.Ranges.Range[k] = mesos.Value_Range{Begin: span.Begin, End: span.End}
			}
		case mesos.SET:
			r.Set = &mesos.Value_Set{Item: item.Set}
		default:
			r.Scalar = &mesos.Value_Scalar{Value: float64(item.Milli) / 1000}
		}
		list[i] = r
	}
	return list
}

// older rewrites a reservation for frameworks without RESERVATION_REFINEMENT; those that are refined never get there.
func older(r *mesos.Resource) {
	role := Unreserved
	if len(r.Reservations) > 0 {
		last := r.Reservations[len(r.Reservations)-1]
		role = last.GetRole()
		if last.GetType() == mesos.Resource_ReservationInfo_DYNAMIC {
			r.Reservation = &mesos.Resource_ReservationInfo{Principal: last.Principal, Labels: last.Labels}
		}
	}
	r.Reservations, r.Role = nil, &role
}

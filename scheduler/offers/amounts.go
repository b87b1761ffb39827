package offers

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// Amounts are whole amounts of scalar resources. Mesos keeps three decimals; cpus keep them all (in thousandths), memory
// and disk are rounded against us: offers down, needs up.
type Amounts struct {
	// CPUs in thousandths of a core.
	CPUs int64
	// MemMB and DiskMB in MiB.
	MemMB, DiskMB int64
	// GPUs are whole ones: Mesos knows no parts of them.
	GPUs int64
}

// Add adds amount by amount.
func (a Amounts) Add(b Amounts) Amounts {
	return Amounts{CPUs: a.CPUs + b.CPUs, MemMB: a.MemMB + b.MemMB, DiskMB: a.DiskMB + b.DiskMB, GPUs: a.GPUs + b.GPUs}
}

// Sub subtracts amount by amount; the result may be negative.
func (a Amounts) Sub(b Amounts) Amounts {
	return Amounts{CPUs: a.CPUs - b.CPUs, MemMB: a.MemMB - b.MemMB, DiskMB: a.DiskMB - b.DiskMB, GPUs: a.GPUs - b.GPUs}
}

// Need is what one pod takes from an agent. It is comparable: pods with equal needs can share a verdict.
type Need struct {
	Amounts
	// MemLimitMB is the pod's memory limit where it is above MemMB, else 0; see On.
	MemLimitMB int64
	// Ports are the host ports. AnyPorts is how many more it takes, whichever they are.
	Ports    PortSet
	AnyPorts int
	// Roles are those that the pod may use, in the order of its preference. All that it takes comes from one of them.
	Roles Roles
}

// On is the need on one agent. An agent without task limits (before Mesos 1.10) holds each task to its share, so the
// pod's memory limit, if it has one, is the share there.
func (n Need) On(limits bool) Need {
	if !limits {
		n.MemMB = max(n.MemMB, n.MemLimitMB)
	}
	n.MemLimitMB = 0
	return n
}

// Roles are names of Mesos roles in order, separated by commas, which no name contains: comparable, unlike a slice.
type Roles string

// NewRoles joins names.
func NewRoles(names ...string) Roles { return Roles(strings.Join(names, ",")) }

// All returns the names in order.
func (r Roles) All() []string {
	if r == "" {
		return nil
	}
	return strings.Split(string(r), ",")
}

// Has tells whether a role is among them.
func (r Roles) Has(role string) bool {
	for one := range strings.SplitSeq(string(r), ",") {
		if one == role {
			return true
		}
	}
	return false
}

// PortSet is a set of host ports, as two bytes each in rising order, so that it can be compared with ==.
type PortSet string

// NewPortSet makes a set of ports; the order of its arguments and repetitions do not matter.
func NewPortSet(ports ...uint16) PortSet {
	sorted := slices.Clone(ports)
	slices.Sort(sorted)
	var b strings.Builder
	for _, port := range slices.Compact(sorted) {
		b.Write(binary.BigEndian.AppendUint16(nil, port))
	}
	return PortSet(b.String())
}

// All returns the ports in rising order.
func (s PortSet) All() []uint16 {
	ports := make([]uint16, 0, len(s)/2)
	for i := 0; i+1 < len(s); i += 2 {
		ports = append(ports, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return ports
}

// PortRange is the ports from Begin to End, both included.
type PortRange struct{ Begin, End uint64 }

// Ports are disjoint ranges in rising order. They are never written to once made.
type Ports []PortRange

// Has tells whether all ports of the set are in the ranges.
func (p Ports) Has(set PortSet) bool {
	for _, port := range set.All() {
		if !slices.ContainsFunc(p, func(r PortRange) bool { return r.Begin <= uint64(port) && uint64(port) <= r.End }) {
			return false
		}
	}
	return true
}

// First returns the lowest n ports that are not in the set, or fewer where there are no more.
func (p Ports) First(n int, but PortSet) (ports []uint16) {
	if n == 0 {
		return nil // as for nearly all pods, on each node
	}
	for _, r := range p.Without(but) {
		for port := r.Begin; port <= r.End && port <= math.MaxUint16; port++ {
			if len(ports) == n {
				return ports
			}
			ports = append(ports, uint16(port))
		}
	}
	return ports
}

// Without returns the ranges less the ports of the set.
func (p Ports) Without(set PortSet) Ports {
	for _, port := range set.All() {
		p = p.without(uint64(port))
	}
	return p
}

func (p Ports) without(port uint64) Ports {
	var rest Ports
	for _, r := range p {
		if port < r.Begin || r.End < port {
			rest = append(rest, r)
			continue
		}
		if r.Begin < port {
			rest = append(rest, PortRange{Begin: r.Begin, End: port - 1})
		}
		if port < r.End {
			rest = append(rest, PortRange{Begin: port + 1, End: r.End})
		}
	}
	return rest
}

// union sorts ranges and joins those that touch.
func union(all Ports) Ports {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b PortRange) int {
		switch {
		case a.Begin < b.Begin:
			return -1
		case a.Begin > b.Begin:
			return 1
		}
		return 0
	})
	var joined Ports
	for _, r := range sorted {
		last := len(joined) - 1
		switch {
		case r.End < r.Begin:
		case last >= 0 && r.Begin <= joined[last].End+1:
			joined[last].End = max(joined[last].End, r.End)
		default:
			joined = append(joined, r)
		}
	}
	return joined
}

package procure

import (
	"strings"

	"github.com/mesopod/mesopod/scheduler/offers"
)

// What Fits answers: constant texts, since kube-scheduler counts nodes by text. Only NotTogether is followed by names, of
// roles, of which there are few.
const (
	NoOffer    = "no offer from the agent"
	OtherRoles = "on offer in roles only that the pod may not use"
	FewCPUs    = "too few cpus on offer"
	LittleMem  = "too little memory on offer"
	LittleDisk = "too little disk on offer"
	FewGPUs    = "too few gpus on offer"
	PortTaken  = "a host port is not on offer"
	FewPorts   = "too few host ports on offer"
	// NotTogether: all that a pod takes comes from one role, and only several have enough.
	NotTogether = "enough on offer in several roles together, but in none of them alone: "
)

// Fits tells why a need does not fit what is on offer: one of few texts, or "" when it fits. A nil view is an agent
// without offers.
func Fits(view *offers.View, need Need) (why string) {
	_, why = Choose(view, need)
	return why
}

// Choose is Fits, and names the role to take the need from: the first of the pod's roles that has all of it. Where no
// role fits, the answer is that of the first one on offer.
func Choose(view *offers.View, need Need) (role, why string) {
	if view == nil {
		return "", NoOffer
	}
	need = need.On(view.Limits)
	var here []string
	for _, role := range need.Roles.All() {
		in, found := view.In(role)
		if !found {
			continue
		}
		here = append(here, role)
		if fault := lacks(in, need); fault == "" {
			return role, ""
		} else if why == "" {
			why = fault
		}
	}
	switch {
	case len(here) == 0:
		return "", OtherRoles
	case len(here) > 1 && lacks(view.Sum(need.Roles), need) == "":
		return "", NotTogether + strings.Join(here, ", ")
	}
	return "", why
}

// lacks says what a role has too little of.
func lacks(in offers.RoleView, need Need) string {
	switch {
	case need.CPUs > in.Free.CPUs:
		return FewCPUs
	case need.MemMB > in.Free.MemMB:
		return LittleMem
	case need.DiskMB > in.Free.DiskMB && need.DiskMB > 0:
		return LittleDisk
	case need.GPUs > in.Free.GPUs && need.GPUs > 0:
		return FewGPUs
	case !in.Ports.Has(need.Ports):
		return PortTaken
	case len(in.Ports.First(need.AnyPorts, need.Ports)) < need.AnyPorts:
		return FewPorts
	}
	return ""
}

// Settle is the need with the host ports named that it takes whichever they are: the lowest that are on offer in the role which
// Choose has named.
func Settle(view *offers.View, role string, need Need) Need {
	in, _ := view.In(role)
	need.Ports = offers.NewPortSet(append(need.Ports.All(), in.Ports.First(need.AnyPorts, need.Ports)...)...)
	need.AnyPorts = 0
	return need
}

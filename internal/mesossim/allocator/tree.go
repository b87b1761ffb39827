package allocator

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// branch is a role in the tree of roles. The share of one is that of all below it.
type branch struct {
	role     string
	takes    bool // frameworks take offers in this very role
	children []*branch
	weighted float64 // dominant share, divided by the weight
}

// sorted are the roles in the order in which they are served: at each level of the tree the branch with the least share comes
// first, with all below it. A role that has frameworks of its own and roles below it counts among those as one more, with what it
// has itself.
func (a *Allocator) sorted(roles map[string][]*framework) []string {
	if len(roles) < 2 {
		for role := range roles {
			return []string{role}
		}
		return nil
	}
	root := &branch{}
	for role := range roles {
		at := root
		for end := range len(role) {
			if role[end] == '/' {
				at = at.child(role[:end])
			}
		}
		at.child(role).takes = true
	}
	return a.served(root, nil)
}

func (b *branch) child(role string) *branch {
	for _, one := range b.children {
		if one.role == role {
			return one
		}
	}
	one := &branch{role: role}
	b.children = append(b.children, one)
	return one
}

// served appends the roles of a branch's children in order.
func (a *Allocator) served(b *branch, order []string) []string {
	children := slices.Clone(b.children)
	if b.takes {
		children = append(children, &branch{role: b.role})
	}
	for _, one := range children {
		if one.role == b.role {
			one.weighted = a.share(a.roles[one.role])
			continue
		}
		weight := a.weights[one.role]
		if weight == 0 {
			weight = 1
		}
		one.weighted = a.share(a.below(one.role)) / weight
	}
	slices.SortFunc(children, func(x, y *branch) int {
		return cmp.Or(cmp.Compare(x.weighted, y.weighted), cmp.Compare(x.role, y.role))
	})
	for _, one := range children {
		if one.role == b.role || len(one.children) == 0 {
			order = append(order, one.role)
			continue
		}
		order = a.served(one, order)
	}
	return order
}

// below is what a role and all nested in it have.
func (a *Allocator) below(role string) map[string]int64 {
	sum := map[string]int64{}
	for one, allocated := range a.roles {
		if below(one, role) {
			for name, milli := range allocated {
				sum[name] += milli
			}
		}
	}
	return sum
}

// consumed is what of a quota a role and those nested in it have used: what is reserved for them, allocated or not, and what they have
// of the rest.
func (a *Allocator) consumed(role, name string) (milli int64) {
	for _, sums := range []map[string]map[string]int64{a.reserved, a.unreserved} {
		for one, amounts := range sums {
			if below(one, role) {
				milli += amounts[name]
			}
		}
	}
	return milli
}

// countReserved keeps the sums that consumed needs: of reservations as they come and go with agents and operations.
func (a *Allocator) countReserved(b resources.Bag, sign int64) {
	for _, item := range b {
		if role := item.Role(); role != resources.Unreserved {
			add(a.reserved, role, resources.Bag{item}, sign)
		}
	}
}

// add changes one of the sums by role.
func add(sums map[string]map[string]int64, role string, b resources.Bag, sign int64) {
	for _, item := range b {
		if item.Milli == 0 || item.Revocable() || item.Shared() {
			continue
		}
		if sums[role] == nil {
			sums[role] = map[string]int64{}
		}
		sums[role][item.Name()] += sign * item.Milli
	}
}

// below tells that a role is another, or nested in it.
func below(role, ancestor string) bool {
	return role == ancestor || strings.HasPrefix(role, ancestor) && role[len(ancestor)] == '/'
}

package offers

import "slices"

// View is what is on offer on one node, for Filter. It is never written to once published.
type View struct {
	AgentID, Node string
	// Limits: the agent knows task limits apart from requests (Mesos 1.10 and later); see Need.On.
	Limits bool
	// NeedsExecutor: the next launch there starts the executor. Share is its share then, already taken off each role.
	NeedsExecutor bool
	Share         Amounts
	// Roles are what is on offer in each role of the framework, in the order of their names. A pod takes from one alone.
	Roles []RoleView
}

// RoleView is what is on offer on one node in one role: what nobody has reserved, and what is reserved for the role or one
// above it, as far as Mesos allocated it to this role.
type RoleView struct {
	Role string
	// Free is what the held offers sum up to, less what is claimed for pods and, where an executor has to be started, less
	// its share. It may be negative.
	Free Amounts
	// Ports are the host ports on offer, less the claimed ones.
	Ports Ports
}

// In returns what is on offer in a role; found is false when nothing is.
func (v *View) In(role string) (in RoleView, found bool) {
	if v == nil {
		return RoleView{}, false
	}
	i := slices.IndexFunc(v.Roles, func(r RoleView) bool { return r.Role == role })
	if i < 0 {
		return RoleView{}, false
	}
	return v.Roles[i], true
}

// Sum is what is on offer in the roles together, though no pod can have it. A missing executor is counted once.
func (v *View) Sum(roles Roles) RoleView {
	var sum RoleView
	n := 0
	for _, r := range v.Roles {
		if roles.Has(r.Role) {
			n++
			sum.Free, sum.Ports = sum.Free.Add(r.Free), append(sum.Ports, r.Ports...)
		}
	}
	for i := 1; i < n; i++ {
		sum.Free = sum.Free.Add(v.Share)
	}
	sum.Ports = union(sum.Ports)
	return sum
}

// All is what is on offer in all roles together, for people.
func (v *View) All() RoleView {
	var roles []string
	for _, r := range v.Roles {
		roles = append(roles, r.Role)
	}
	return v.Sum(NewRoles(roles...))
}

// Freed returns a view with more on it: what the pods with the given needs would leave behind, each in the first of its
// roles. Ports that they hold are taken as free.
func (v *View) Freed(needs ...Need) *View {
	if v == nil {
		return nil
	}
	return v.changed(needs, func(r *RoleView, need Need) {
		r.Free, r.Ports = r.Free.Add(need.Amounts), union(append(slices.Clone(r.Ports), need.Ports.ranges()...))
	})
}

// Taken returns a view with less on it: what is left beside pods with the given needs, each in the first of its roles.
func (v *View) Taken(needs ...Need) *View {
	if v == nil || len(needs) == 0 {
		return v
	}
	return v.changed(needs, func(r *RoleView, need Need) {
		r.Free, r.Ports = r.Free.Sub(need.Amounts), r.Ports.Without(need.Ports)
	})
}

func (v *View) changed(needs []Need, change func(*RoleView, Need)) *View {
	other := *v
	other.Roles = slices.Clone(v.Roles)
	for _, need := range needs {
		roles := need.Roles.All()
		if len(roles) == 0 {
			continue
		}
		i := slices.IndexFunc(other.Roles, func(r RoleView) bool { return r.Role == roles[0] })
		if i < 0 {
			other.Roles = append(other.Roles, RoleView{Role: roles[0]})
			i = len(other.Roles) - 1
		}
		change(&other.Roles[i], need)
	}
	return &other
}

// Equal tells whether two views say the same; both may be nil.
func (v *View) Equal(o *View) bool {
	if v == nil || o == nil {
		return v == o
	}
	return v.AgentID == o.AgentID && v.Node == o.Node && v.Limits == o.Limits && v.NeedsExecutor == o.NeedsExecutor && v.Share == o.Share &&
		slices.EqualFunc(v.Roles, o.Roles, func(a, b RoleView) bool {
			return a.Role == b.Role && a.Free == b.Free && slices.Equal(a.Ports, b.Ports)
		})
}

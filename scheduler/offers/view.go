package offers

import "slices"

// View is what is on offer on one node, for Filter. It is never written to once published.
type View struct {
	AgentID, Node string
	// Limits: the agent knows task limits apart from requests (Mesos 1.10 and later); see Need.On.
	Limits bool
	// NeedsExecutor: the next launch there starts the executor. Its share is already taken off Free.
	NeedsExecutor bool
	// Free is what the held offers sum up to, less what is reserved for pods and, with NeedsExecutor, less the executor's
	// share. It may be negative.
	Free Amounts
	// Ports are the host ports on offer, less the reserved ones.
	Ports Ports
}

// Freed returns a view with more on it: what the pods with the given needs would leave behind. Ports that they hold are
// taken as free.
func (v *View) Freed(needs ...Need) *View {
	if v == nil {
		return nil
	}
	more := *v
	ports := slices.Clone(v.Ports)
	for _, need := range needs {
		more.Free = more.Free.Add(need.Amounts)
		for _, port := range need.Ports.All() {
			ports = append(ports, PortRange{Begin: uint64(port), End: uint64(port)})
		}
	}
	more.Ports = union(ports)
	return &more
}

// Taken returns a view with less on it: what is left beside pods with the given needs.
func (v *View) Taken(needs ...Need) *View {
	if v == nil || len(needs) == 0 {
		return v
	}
	less := *v
	for _, need := range needs {
		less.Free, less.Ports = less.Free.Sub(need.Amounts), less.Ports.Without(need.Ports)
	}
	return &less
}

// Equal tells whether two views say the same; both may be nil.
func (v *View) Equal(o *View) bool {
	if v == nil || o == nil {
		return v == o
	}
	return v.AgentID == o.AgentID && v.Node == o.Node && v.Limits == o.Limits &&
		v.NeedsExecutor == o.NeedsExecutor && v.Free == o.Free && slices.Equal(v.Ports, o.Ports)
}

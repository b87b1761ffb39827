// Package plan decides which way packets to pods of other nodes go: it turns the cluster's nodes into routes, and into
// ends of tunnels. It is pure, so that a table shows what a cluster of any shape gets; package network carries it out.
package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Mode is how packets reach other nodes.
type Mode string

// The modes.
const (
	// Routes sends them to the other node's address, as to a router: all nodes must be on one network (layer 2).
	Routes Mode = "routes"
	// VXLAN wraps them into UDP between the nodes' addresses, which any network between them carries.
	VXLAN Mode = "vxlan"
	// None leaves it to the network, or to somebody else's plugin.
	None Mode = "none"
)

// VXLANOverhead is how many bytes of a packet the tunnel takes: outer Ethernet, IPv4, UDP and VXLAN headers.
const VXLANOverhead = 50

// Node is what counts of a Kubernetes Node.
type Node struct {
	Name string
	// Address is where other nodes reach it.
	Address netip.Addr
	// Pods is the range of its pods' addresses.
	Pods netip.Prefix
}

// Config says where we are.
type Config struct {
	Mode Mode
	// Own is this node, known before the cluster knows it.
	Own Node
	// Link is the network that Own.Address is on.
	Link netip.Prefix
}

// Route is the way to the pods of one other node.
type Route struct {
	Pods netip.Prefix
	// Via is the other node's address, or that of its end of the tunnel.
	Via netip.Addr
}

// Peer is the other end of a tunnel.
type Peer struct {
	// Tunnel is its address in the tunnel, MAC its link address there, Address where it is outside of it.
	Tunnel  netip.Addr
	MAC     [6]byte
	Address netip.Addr
}

// Plan is what there is to be, and no more.
type Plan struct {
	Routes []Route
	Peers  []Peer
	// Pods are all ranges of pods that we know: who goes there keeps its address.
	Pods []netip.Prefix
	// Faults are for people: nodes that are left out, and why.
	Faults []string
}

// TunnelAddress is a node's address in the tunnel: the first of its range, which no pod gets.
func TunnelAddress(pods netip.Prefix) netip.Addr { return pods.Masked().Addr() }

// MAC is the link address of a node's end of the tunnel. It follows from the node's address, so nobody has to tell it.
func MAC(address netip.Addr) [6]byte {
	mac := [6]byte{0x0a, 0x58} // locally administered; CNI plugins begin theirs so too
	bytes := address.AsSlice()
	copy(mac[2:], bytes[max(0, len(bytes)-4):])
	return mac
}

// Decide makes the plan. It depends on the set of nodes alone, not on their order.
func Decide(c Config, nodes []Node) Plan {
	plan := Plan{Pods: []netip.Prefix{c.Own.Pods.Masked()}}
	if c.Mode == None {
		return plan
	}
	others := slices.Clone(nodes)
	slices.SortFunc(others, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Address.Compare(b.Address), a.Pods.Addr().Compare(b.Pods.Addr()), cmp.Compare(a.Pods.Bits(), b.Pods.Bits()))
	})
	for _, other := range others {
		// One without a range or an address has no pods yet.
		if other.Name == c.Own.Name || !other.Pods.IsValid() || !other.Address.IsValid() {
			continue
		}
		if why := c.refuse(other, plan.Pods); why != "" {
			plan.Faults = append(plan.Faults, fmt.Sprintf("no way to the pods of node %s: %s", other.Name, why))
			continue
		}
		pods := other.Pods.Masked()
		plan.Pods = append(plan.Pods, pods)
		if c.Mode == Routes {
			plan.Routes = append(plan.Routes, Route{Pods: pods, Via: other.Address})
			continue
		}
		tunnel := TunnelAddress(pods)
		plan.Routes = append(plan.Routes, Route{Pods: pods, Via: tunnel})
		plan.Peers = append(plan.Peers, Peer{Tunnel: tunnel, MAC: MAC(other.Address), Address: other.Address})
	}
	return plan
}

// refuse tells why another node cannot be reached; empty if it can.
func (c Config) refuse(other Node, taken []netip.Prefix) string {
	switch {
	case other.Address == c.Own.Address:
		return fmt.Sprintf("it has our address %s", other.Address)
	case other.Pods.Addr().Is4() != c.Own.Pods.Addr().Is4():
		return fmt.Sprintf("its range %s is of another address family than ours, %s", other.Pods, c.Own.Pods)
	case c.Mode == Routes && !c.Link.Contains(other.Address):
		return fmt.Sprintf("its address %s is not on our network %s: set podNetwork: vxlan", other.Address, c.Link)
	}
	for _, one := range taken {
		if one.Overlaps(other.Pods) {
			return fmt.Sprintf("its range %s overlaps %s of another node", other.Pods, one)
		}
	}
	return ""
}

// Changes tells what of have is to go, and what of want is to come. A route to the same pods by another way replaces.
func Changes(have, want []Route) (remove, set []Route) {
	for _, one := range have {
		if !slices.ContainsFunc(want, func(w Route) bool { return w.Pods == one.Pods }) {
			remove = append(remove, one)
		}
	}
	for _, one := range want {
		if !slices.Contains(have, one) {
			set = append(set, one)
		}
	}
	return remove, set
}

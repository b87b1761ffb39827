// Package network keeps the ways from this node's pods to those of other nodes: routes through the nodes' addresses where
// all nodes are on one network, or through a VXLAN tunnel where they are not. Nothing else has to be installed for it.
//
// Order of calls: New looks at the link that has the node's address; MTU and Lock may be asked; Run lives until its
// context ends, and closes Ready when pods may start. Run owns all goroutines.
//
// What it puts into the network namespace: routes of protocol 89, the tunnel's device, and an nft table that gives packets
// of pods the node's address where they leave the ranges of pods. A killed executor leaves all of it, so that traffic
// goes on; the next one makes it agree with the cluster. An orderly end removes it. What to do is decided in package
// plan; here it is done with netlink and nft.
package network

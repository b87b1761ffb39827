// Package network is the suite about what pods reach, and by which names: three agents, and the cluster's DNS server. It
// is a suite of its own since that server is a pod that never ends, which others would have to count with.
package network

// Package proxy is the one door to the upstream kube-proxy: it makes Services' cluster IPs and node ports work on this
// node, by rules in the kernel of its network namespace. It exists so that an agent needs no second program for that.
//
// Order of calls: New checks the configuration and the tools of the machine; Run lives until its context ends. Run owns
// all goroutines but one: the upstream sync loop has no end, and goes with the process. After Run nothing wakes it.
//
// One network namespace has one set of rules, whatever number of executors is in it. Who holds an abstract Unix socket
// there keeps the rules, and the others wait for it: the kernel frees it when its holder dies, however that happens.
// The rules of a killed executor stay, so that connections and new ones work until the next executor has read the
// cluster and replaces them in one transaction. An orderly end, which has ended all pods, removes them.
//
// Instead of the upstream program only its parts are used: it could not be stopped, would end the process by itself
// when the node's address changes, and would watch and serve more than is needed here.
package proxy

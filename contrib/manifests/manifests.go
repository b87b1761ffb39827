// Package manifests carries the Kubernetes objects that mesopod needs in every
// cluster it serves. It exists so that local mode applies the very file that
// an operator applies by hand: kubectl apply -f contrib/manifests/rbac.yaml and so
// on with the others.
// It starts nothing and imports nothing of Kubernetes.
package manifests

import _ "embed"

// RBAC is rbac.yaml: namespace mesopod-system and the roles of the scheduler
// (user mesopod:scheduler) and of the executors (group mesopod:executors), as
// YAML documents in an order in which they can be applied.
//
//go:embed rbac.yaml
var RBAC []byte

// Policies is policies.yaml: the admission policies that hold executors to their
// node and keep k8s.mesosphere.io/ annotations from being forged. They need RBAC.
//
//go:embed policies.yaml
var Policies []byte

// OtherScheduler is other-scheduler.yaml: the policy that lets mesopod's pods onto
// nodes which the scheduler's flag --taint-nodes closes to others.
//
//go:embed other-scheduler.yaml
var OtherScheduler []byte

// DNS is dns.yaml: the cluster's DNS server, at DNSAddress.
//
//go:embed dns.yaml
var DNS []byte

const (
	// DNSAddress is the cluster IP in dns.yaml.
	DNSAddress = "10.96.0.10"
	// DNSUpstream is the line in dns.yaml by which names outside of the cluster go to the host's name servers. On a host
	// without any the server would not start with it.
	DNSUpstream = "forward . /etc/resolv.conf"
)

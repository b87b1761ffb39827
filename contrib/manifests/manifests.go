// Package manifests carries the Kubernetes objects that mesopod needs in every
// cluster it serves. It exists so that local mode applies the very file that
// an operator applies by hand: kubectl apply -f contrib/manifests/rbac.yaml.
// It starts nothing and imports nothing of Kubernetes.
package manifests

import _ "embed"

// RBAC is rbac.yaml: namespace mesopod-system and the roles of the scheduler
// (user mesopod:scheduler) and of the executors (group mesopod:executors), as
// YAML documents in an order in which they can be applied.
//
//go:embed rbac.yaml
var RBAC []byte

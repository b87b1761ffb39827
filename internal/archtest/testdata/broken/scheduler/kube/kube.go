// Package kube is a door, and keeps the rules.
package kube

import _ "k8s.io/kubernetes/pkg/scheduler"

package kube

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/mesopod/mesopod/scheduler/procure"
)

// mostReasons bounds the message: kube-scheduler cuts the event at 1,024 bytes, but not the condition, and both are to say
// the same.
const mostReasons = 8

// explain makes one sentence of why a pod fits nowhere, with the number of nodes of each reason, the most frequent first.
// kube-scheduler writes it into the pod's condition, its event, and what we tell the core.
func (s *Scheduler) explain(pod *corev1.Pod, status *fwk.Status) {
	var fit *framework.FitError
	if !errors.As(status.AsError(), &fit) {
		return
	}
	d := &fit.Diagnosis
	d.PostFilterMsg = "" // says once more how many nodes there are
	if d.PreFilterMsg != "" || d.NodeToStatus == nil {
		return
	}
	counts := map[string]int{}
	d.NodeToStatus.ForEachExplicitNode(func(_ string, of *fwk.Status) {
		for _, reason := range of.Reasons() {
			counts[reason]++
		}
	})
	if absent := fit.NumAllNodes - d.NodeToStatus.Len(); absent > 0 {
		for _, reason := range d.NodeToStatus.AbsentNodesStatus().Reasons() {
			counts[reason] += absent
		}
	}
	d.PreFilterMsg = sentence(pod, counts)
	if need, err := s.need(pod); err == nil && s.limits.Load() != nil {
		if text := procure.Limited(need, procure.ExecutorShare(s.cfg.Procure), *s.limits.Load()); text != "" {
			d.PreFilterMsg += "; " + text
		}
	}
}

func sentence(pod *corev1.Pod, counts map[string]int) string {
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	for i, reason := range reasons {
		if i == mostReasons {
			parts = append(parts, fmt.Sprintf("and %d more reasons", len(reasons)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d %s", counts[reason], named(pod, reason)))
	}
	return strings.Join(parts, ", ")
}

// named puts the pod's ports into the reason that is about them. Filter answers with constant texts, or each would be
// counted apart.
func named(pod *corev1.Pod, reason string) string {
	ports := procure.HostPorts(pod).All()
	if reason != procure.PortTaken || len(ports) == 0 {
		return reason
	}
	var names []string
	for _, port := range ports {
		names = append(names, fmt.Sprint(port))
	}
	if len(names) == 1 {
		return "host port " + names[0] + " is taken or not on offer"
	}
	return "one of the host ports " + strings.Join(names, ", ") + " is taken or not on offer"
}

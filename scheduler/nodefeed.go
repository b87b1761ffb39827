package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

// nodeFeed turns the node informer's calls into events about the nodes of agents.
func nodeFeed(post func(core.Event)) cache.ResourceEventHandler {
	cordon := func(object any, before bool) {
		node, ok := object.(*corev1.Node)
		if ok && node.Annotations[messages.AnnotationAgentID] != "" && node.Spec.Unschedulable != before {
			post(core.NodeCordoned{Node: node.Name, On: node.Spec.Unschedulable})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { cordon(object, false) },
		UpdateFunc: func(before, after any) {
			was, ok := before.(*corev1.Node)
			cordon(after, ok && was.Spec.Unschedulable && was.Annotations[messages.AnnotationAgentID] != "")
		},
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			node, ok := object.(*corev1.Node)
			if !ok || node.Annotations[messages.AnnotationAgentID] == "" {
				return
			}
			post(core.NodeGone{Node: node.Name, AgentID: node.Annotations[messages.AnnotationAgentID]})
		},
	}
}

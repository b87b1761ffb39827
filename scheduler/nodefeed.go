package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

// nodeFeed turns the node informer's calls into events about the nodes of agents.
func nodeFeed(post func(core.Event)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
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

package scheduler

import (
	"context"

	"github.com/golang/glog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

// surveyor looks at the whole cluster: at agents and executors through the master, at nodes through the API server.
type surveyor struct {
	client kubernetes.Interface
	asked  *queue[core.Survey]
	post   func(core.Event)
	mesos  func(context.Context) (core.Surveyed, error)
}

func (s *surveyor) run(ctx context.Context) error {
	return s.asked.drain(ctx, func(ctx context.Context, asked []core.Survey) {
		ev, err := s.look(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			glog.Warningf("fail survey reason=%q", err)
			s.post(core.CallFailed{Effect: asked[len(asked)-1], Err: err})
		default:
			s.post(ev)
		}
	})
}

// look lists the nodes before the agents: a node's agent is then registered by then, or has gone.
func (s *surveyor) look(ctx context.Context) (core.Surveyed, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*writeTimeout)
	defer cancel()
	// From the API server's cache: it may be a little old, as the whole survey may.
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return core.Surveyed{}, withKind(err, "list nodes")
	}
	ev, err := s.mesos(ctx)
	if err != nil {
		return core.Surveyed{}, err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if id := node.Annotations[messages.AnnotationAgentID]; id != "" {
			ev.Nodes = append(ev.Nodes, core.NodeSeen{Name: node.Name, AgentID: id, Unreachable: hasTaint(node, messages.TaintAgentUnreachable), Draining: hasTaint(node, messages.TaintAgentDraining)})
		}
	}
	return ev, nil
}

func hasTaint(node *corev1.Node, key string) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == key {
			return true
		}
	}
	return false
}

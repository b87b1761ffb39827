package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// onNodeCordoned notes whether people keep pods off a node. Once they do not, what its agent has is asked for, though no pod waits:
// the next pods would all go where offers are held, whatever spread they ask for.
func (c *Core) onNodeCordoned(ev NodeCordoned) {
	if c.cordoned[ev.Node] == ev.On {
		return
	}
	if ev.On {
		c.cordoned[ev.Node] = true
		return
	}
	delete(c.cordoned, ev.Node)
	for _, s := range c.revive.roles {
		s.long, s.cordoned = s.long || s.cordoned, false
	}
	if id, known := c.nodes[ev.Node]; known && !c.agents[id].gone {
		c.revive.back = ev.Node
	}
}

// barred are the agents of cordoned nodes whose offers no pod can use that waits now, nor a static one.
func (c *Core) barred() map[string]bool {
	if len(c.cordoned) == 0 || !c.open() || c.pool.Idle() {
		return nil
	}
	barred := map[string]bool{}
	for node := range c.cordoned {
		if id, known := c.nodes[node]; known && !c.mayEnter(id, node) {
			barred[id] = true
		}
	}
	return barred
}

// mayEnter tells that an offer of the cordoned node's agent could help: a pod that waits tolerates cordons, or has this node
// already, or a static one has no resources yet.
func (c *Core) mayEnter(agentID, node string) bool {
	if c.short[agentID] {
		return true
	}
	for uid, w := range c.waiting {
		if w.toCordoned && c.pods[uid] != nil {
			return true
		}
	}
	for _, b := range c.batches {
		if b.starved && b.agentID == agentID {
			return true
		}
	}
	for _, a := range c.assigned {
		if a.pod.Spec.NodeName == node {
			return true
		}
	}
	return false
}

func (c *Core) mayEnterAny() bool {
	for node := range c.cordoned {
		if id, known := c.nodes[node]; known && c.mayEnter(id, node) {
			return true
		}
	}
	return false
}

// ToleratesCordon tells that the pod may go to cordoned nodes, as those of DaemonSets may.
func ToleratesCordon(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		exists := t.Operator == corev1.TolerationOpExists
		return (t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule) &&
			(t.Key == corev1.TaintNodeUnschedulable || t.Key == "" && exists) && (exists || t.Value == "")
	})
}

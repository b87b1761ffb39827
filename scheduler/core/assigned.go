package core

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// assignment is a pod that has its node already and wants a task there: its nodeName was preset, or its executor died.
// kube-scheduler never sees such a pod.
type assignment struct {
	pod *corev1.Pod
	// at is when the next launch may be tried. tellAt is when the pod is told what it waits for; zero once it was.
	at, tellAt time.Time
	// looked: the launch was tried at the agent's present offers.
	looked bool
	// why is what the last try failed of, told what the pod was told last.
	why, told string
}

// pace holds the launches of one pod on its node apart.
type pace struct {
	last time.Time
	wait time.Duration
	// counted: wait has grown since the last launch.
	counted bool
}

const (
	// leastPace doubles up to mostPace from one launch of an assigned pod to the next. A task that lasted longer than
	// paceReset starts anew.
	leastPace, mostPace = time.Second, time.Minute
	paceReset           = 10 * time.Minute
	// tellAfter is how long offers may take to come back before a pod is told that there are none.
	tellAfter = 3 * time.Second
)

// placeable tells that the pod has a node, is ours to start there, and has not come to its end.
func (c *Core) placeable(pod *corev1.Pod) bool {
	return pod != nil && pod.Spec.NodeName != "" && !tasks.Ended(pod) && pod.DeletionTimestamp == nil &&
		slices.Contains(c.cfg.SchedulerNames, pod.Spec.SchedulerName)
}

// assign makes a pod wait for a launch on its node, unless a task of it lives or is on its way, or its last one has an
// end that is yet to be judged.
func (c *Core) assign(pod *corev1.Pod) {
	if !c.placeable(pod) || c.launches[pod.UID] != nil || c.holder(pod.UID) != nil {
		return
	}
	if last := c.tasks.Get(pod.Annotations[messages.AnnotationTaskID]); last != nil && (last.Verdict.Reason != "" || last.GivenUp) {
		return
	}
	if a := c.assigned[pod.UID]; a != nil {
		a.pod = pod
		return
	}
	a := &assignment{pod: pod, at: c.now, tellAt: c.now.Add(tellAfter)}
	if p := c.pace[pod.UID]; p != nil {
		if c.now.Sub(p.last) > paceReset {
			p.wait = 0
		}
		if !p.counted {
			p.counted, p.wait = true, min(max(2*p.wait, leastPace), mostPace)
		}
		a.at = p.last.Add(p.wait)
	}
	c.assigned[pod.UID] = a
}

func (c *Core) unassign(uid types.UID) {
	delete(c.assigned, uid)
	if l := c.launches[uid]; l != nil && l.assigned && l.task == "" {
		delete(c.launches, uid)
		c.unbatch(l, uid)
		c.release(uid)
	}
}

// wakeAt is when something is to be done for an assignment; zero when only an offer helps.
func (c *Core) wakeAt(a *assignment) time.Time {
	switch {
	case !c.open():
		return time.Time{}
	case !a.looked:
		return a.at
	}
	return a.tellAt
}

// placeAssigned launches the pods that have a node, as far as the offers of their agents go.
func (c *Core) placeAssigned() {
	if len(c.assigned) == 0 || !c.open() {
		return
	}
	var ripe []types.UID
	for uid, a := range c.assigned {
		idle := a.looked && !c.dirty[c.nodes[a.pod.Spec.NodeName]] && (a.tellAt.IsZero() || c.now.Before(a.tellAt))
		if !idle && !c.now.Before(a.at) {
			ripe = append(ripe, uid)
		}
	}
	slices.Sort(ripe) // equal events give equal effects
	for _, uid := range ripe {
		a := c.assigned[uid]
		if c.launches[uid] != nil || c.holder(uid) != nil {
			delete(c.assigned, uid) // comes back with the end of that task
			continue
		}
		a.looked = true
		if a.why = c.place(c.nodes[a.pod.Spec.NodeName], a.pod); a.why != "" {
			c.tellAssigned(a, a.why)
		}
	}
}

// place starts the launch of an assigned pod, or tells why it cannot be.
func (c *Core) place(agentID string, pod *corev1.Pod) (why string) {
	agent := c.agents[agentID]
	switch {
	case agent == nil:
		return "no agent of this name has made an offer"
	case agent.gone:
		return "Mesos has lost the agent, which may come back"
	}
	need, err := c.need(pod)
	if err != nil {
		return err.Error()
	}
	view := c.view(agentID)
	role, why := procure.Choose(view, need)
	if why != "" {
		return c.limited(why, need)
	}
	uid := pod.UID
	c.pool.Claim(offers.Claim{UID: uid, AgentID: agentID, Role: role, Need: procure.Settle(view, role, need.On(view.Limits))})
	c.dirty[agentID] = true
	delete(c.assigned, uid)
	c.join(uid, &launch{assigned: true, pod: pod, node: pod.Spec.NodeName, agentID: agentID, role: role, deadline: c.now.Add(c.cfg.OfferWait)})
	return ""
}

// tellAssigned says on the pod what it waits for, once for each reason.
func (c *Core) tellAssigned(a *assignment, why string) {
	switch {
	case why == a.told:
		a.tellAt = time.Time{}
		return
	case a.tellAt.IsZero():
		a.tellAt = c.now.Add(tellAfter)
	}
	if c.now.Before(a.tellAt) {
		return
	}
	a.tellAt, a.told = time.Time{}, why
	c.do(PodEvent{Pod: a.pod, Type: corev1.EventTypeWarning, Reason: "FailedScheduling",
		Note: fmt.Sprintf("cannot start on node %s yet: %s; it is tried again with each offer", a.pod.Spec.NodeName, why)})
}

// failAssigned fails the pods that wait to start anew on an agent that is gone. Pods with a preset nodeName never ran
// there: another agent may take the name.
func (c *Core) failAssigned(node, agentID, why string) {
	for _, uid := range sorted(c.assigned) {
		pod := c.assigned[uid].pod
		task := c.tasks.Get(pod.Annotations[messages.AnnotationTaskID])
		if pod.Spec.NodeName != node || task == nil || task.AgentID != agentID {
			continue
		}
		task.GivenUp = true
		delete(c.assigned, uid)
		c.failPod(pod, "AgentRemoved", "Mesos task "+task.ID+": "+tasks.Name(task.State)+"; "+why, "the pod waited to start anew, and "+why)
	}
}

// launched notes the time of a launch on an assigned node.
func (c *Core) launched(uid types.UID) {
	p := c.pace[uid]
	if p == nil {
		p = &pace{}
		c.pace[uid] = p
	}
	p.last, p.counted = c.now, false
}

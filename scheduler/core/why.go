package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// Stage is how far a pod has come.
type Stage string

// The stages, in the order of a pod's life.
const (
	// StageQueued: kube-scheduler has yet to look at it, or holds it itself.
	StageQueued Stage = "queued"
	// StageHeld: it is kept from kube-scheduler, since an earlier attempt may still run or nothing is placed at all.
	StageHeld Stage = "held"
	// StageWaiting: it fits nowhere, or not yet on the node that it has.
	StageWaiting Stage = "waiting"
	// StageLaunching: it has its place, and its launch is on the way.
	StageLaunching Stage = "launching"
	// StageStarting: its task is there, and its containers are not all started.
	StageStarting Stage = "starting"
	// StageRunning: its containers run.
	StageRunning Stage = "running"
	// StageAway: nobody sees its task now, which may still run.
	StageAway Stage = "away"
	// StageEnding: it is being deleted.
	StageEnding Stage = "ending"
	// StageSucceeded and StageFailed are its ends.
	StageSucceeded Stage = "succeeded"
	StageFailed    Stage = "failed"
)

// Stages are all of them, in that order.
var Stages = []Stage{StageQueued, StageHeld, StageWaiting, StageLaunching, StageStarting, StageRunning, StageAway, StageEnding, StageSucceeded, StageFailed}

// PodView is one pod in a View.
type PodView struct {
	// Pod is shared with the core.
	Pod   *corev1.Pod
	Stage Stage
	// Why says what the pod waits for, or of what it ended; empty when there is nothing to say.
	Why string
	// Tasks are its live tasks, the oldest first: one, but while an earlier attempt ends.
	Tasks []TaskView
}

func (c *Core) podView(pod *corev1.Pod) PodView {
	v := PodView{Pod: pod}
	for _, task := range c.tasks.OfPod(pod.UID) {
		v.Tasks = append(v.Tasks, viewOf(task))
	}
	v.Stage, v.Why = c.stage(pod)
	return v
}

// stage tells how far a pod is, and why it is no further.
func (c *Core) stage(pod *corev1.Pod) (Stage, string) {
	task, l := c.tasks.Current(pod.UID), c.launches[pod.UID]
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return StageSucceeded, ""
	case pod.Status.Phase == corev1.PodFailed:
		return StageFailed, cause(pod)
	case pod.DeletionTimestamp != nil && task != nil:
		return StageEnding, "its task is " + tasks.Name(task.State)
	case pod.DeletionTimestamp != nil:
		return StageEnding, ""
	case l != nil:
		return StageLaunching, c.launchWaits(l)
	case task != nil && tasks.KindOf(task.State) == tasks.Away:
		return StageAway, "its task is " + tasks.Name(task.State) + ": it may still run on agent " + task.AgentID
	case pod.Spec.NodeName == "":
		return c.unplaced(pod)
	case c.assigned[pod.UID] != nil:
		return StageWaiting, c.assignedWaits(c.assigned[pod.UID])
	case pod.Status.Phase == corev1.PodRunning:
		return StageRunning, containersWait(pod)
	}
	return StageStarting, containersWait(pod)
}

// unplaced tells what a pod without a node waits for.
func (c *Core) unplaced(pod *corev1.Pod) (Stage, string) {
	if h := c.gate.held[pod.UID]; h != nil {
		return StageHeld, h.why
	}
	if !c.gateOpen() {
		return StageHeld, "the scheduler has started and " + c.closed()
	}
	if w, waits := c.waiting[pod.UID]; waits {
		return StageWaiting, w.why
	}
	for i := range pod.Status.Conditions {
		if is := &pod.Status.Conditions[i]; is.Type == corev1.PodScheduled && is.Status == corev1.ConditionFalse {
			return StageQueued, is.Message
		}
	}
	return StageQueued, ""
}

// closed says why nothing is placed.
func (c *Core) closed() string {
	switch {
	case !c.connected:
		return "it is not connected to the Mesos master"
	case !c.podsSynced:
		return "it has yet to list the pods"
	}
	return "the tasks of its pods are being compared with Mesos"
}

func (c *Core) launchWaits(l *launch) string {
	task := c.tasks.Get(l.task)
	switch {
	case l.task == "" && len(c.pool.HoldsIn(l.agentID, l.role)) == 0:
		return "its place is reserved, and waits for the next offer of the agent"
	case l.task == "":
		return "its place is reserved, and the launch waits for others to the same agent"
	case task != nil:
		return "its task is " + tasks.Name(task.State) + ", and its executor has yet to bind it"
	}
	return "its executor has yet to bind it"
}

func (c *Core) assignedWaits(a *assignment) string {
	switch {
	case a.why != "":
		return fmt.Sprintf("cannot start on node %s yet: %s", a.pod.Spec.NodeName, a.why)
	case !c.open():
		return c.closed()
	case c.now.Before(a.at):
		return "starts anew after a pause"
	}
	return ""
}

// cause is what the pod's status says of its failure, with the container that failed.
func cause(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		if is := &pod.Status.Conditions[i]; is.Type == messages.ConditionTask && is.Message != "" {
			return is.Reason + ": " + is.Message
		}
	}
	for _, of := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range of {
			if end := of[i].State.Terminated; end != nil && end.ExitCode != 0 {
				return fmt.Sprintf("container %s: %s, exit code %d", of[i].Name, end.Reason, end.ExitCode)
			}
		}
	}
	if pod.Status.Message != "" && pod.Status.Reason != "" {
		return pod.Status.Reason + ": " + pod.Status.Message
	}
	return pod.Status.Reason + pod.Status.Message
}

// containersWait says what the kubelet reports of containers that do not run.
func containersWait(pod *corev1.Pod) string {
	for _, of := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range of {
			if waits := of[i].State.Waiting; waits != nil && waits.Reason != "" && waits.Reason != "PodInitializing" {
				text := "container " + of[i].Name + ": " + waits.Reason
				if waits.Message != "" {
					text += ": " + waits.Message
				}
				return text
			}
		}
	}
	return ""
}

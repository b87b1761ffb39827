package core

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/tasks"
)

// Ours tells that a scheduler of these names places the pod, or that a task of this framework runs it: the names may have
// changed since its launch. A mirror of a static pod is nobody's, whatever it says.
func Ours(schedulerNames []string, pod *corev1.Pod) bool {
	if pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return false
	}
	return slices.Contains(schedulerNames, pod.Spec.SchedulerName) || pod.Annotations[messages.AnnotationTaskID] != ""
}

func (c *Core) ours(pod *corev1.Pod) bool { return Ours(c.cfg.SchedulerNames, pod) }

// onPodsSynced recovers the tasks that pods name, and starts the first reconciliation.
func (c *Core) onPodsSynced(ev PodsSynced) {
	if c.podsSynced {
		c.note("", "the pods are listed already")
		return
	}
	c.podsSynced = true
	c.gate.tellAt = c.now.Add(tellAfter)
	for _, pod := range ev.Pods {
		// An earlier attempt may have ended before its task's id was written onto the pod. Its executor would take the same
		// id for a repeated launch and drop it, so the numbers go on from the clock.
		if c.ours(pod) && pod.Annotations[messages.AnnotationTaskID] == "" && !tasks.Ended(pod) {
			c.tasks.Floor(pod.UID, int(c.now.Unix()))
		}
		c.onPodChanged(pod)
	}
	c.reconcile("pods are listed")
}

func (c *Core) onPodChanged(pod *corev1.Pod) {
	if !c.ours(pod) {
		return
	}
	uid := pod.UID
	c.pods[uid] = pod
	c.gate.touched[uid] = true
	if pod.Spec.NodeName != "" {
		if task := c.tasks.Recover(pod); task != nil {
			c.dirty[task.AgentID] = true
			if c.connected && c.reconciliation.over {
				c.do(Reconcile{Tasks: map[string]string{task.ID: task.AgentID}, Why: "a pod names a task that is not known"})
			}
		}
		c.onBound(pod)
	}
	if pod.Spec.NodeName != "" || tasks.Ended(pod) || pod.DeletionTimestamp != nil {
		delete(c.waiting, uid)
	}
	if pod.DeletionTimestamp != nil {
		c.onDeleting(pod, "the pod is being deleted")
	}
	if task := c.tasks.Get(pod.Annotations[messages.AnnotationTaskID]); task != nil && task.UID == uid {
		c.judge(pod, task)
	} else {
		c.assign(pod)
	}
	if !c.placeable(pod) {
		c.unassign(uid)
	}
}

// onBound answers the Bind, whichever node the pod is bound to: a pod that is bound cannot be bound again. Tasks other
// than the one that bound it are ended.
func (c *Core) onBound(pod *corev1.Pod) {
	bound := pod.Annotations[messages.AnnotationTaskID]
	if l := c.launches[pod.UID]; l != nil && (!l.assigned || l.task != "" && l.task == bound) {
		why := "the pod is seen bound to " + pod.Spec.NodeName
		if l.node != "" && l.node != pod.Spec.NodeName {
			why += ", not to " + l.node
		}
		c.resolve(pod.UID, nil, why)
	}
	for _, task := range c.tasks.OfPod(pod.UID) {
		if l := c.launches[pod.UID]; l != nil && l.assigned && l.task == task.ID {
			continue // its executor has yet to say so on the pod
		}
		if task.ID != bound && !task.Killing {
			c.kill(task, -1, "the pod is bound by another task")
		}
	}
}

// onDeleting gives a launch up and ends the pod's tasks.
func (c *Core) onDeleting(pod *corev1.Pod, why string) {
	c.resolve(pod.UID, fmt.Errorf("launch: %s: %w", why, errdefs.ErrConflict), why)
	grace := time.Duration(-1)
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil && *seconds >= 0 {
		grace = time.Duration(*seconds) * time.Second
	}
	for _, task := range c.tasks.OfPod(pod.UID) {
		if !task.Killing || task.Grace != grace {
			c.kill(task, grace, why)
		}
	}
}

func (c *Core) onPodGone(pod *corev1.Pod) {
	if c.pods[pod.UID] == nil && !c.ours(pod) {
		return
	}
	uid := pod.UID
	delete(c.pods, uid)
	delete(c.gate.told, uid)
	c.gate.touched[uid] = true
	delete(c.waiting, uid)
	c.unassign(uid)
	delete(c.pace, uid)
	c.onDeleting(pod, "the pod is gone")
	c.release(uid)
	c.tasks.Forget(uid)
}

// kill asks for a task's end, now and again until it comes.
func (c *Core) kill(task *tasks.Task, grace time.Duration, why string) {
	task.Killing, task.Grace, task.NextKill = true, grace, c.now.Add(c.cfg.KillRetry)
	c.killing[task.ID] = task
	c.gate.touched[task.UID] = true
	if !c.connected {
		task.NextKill = c.now // With the next connection.
	}
	c.floors.killing.lower(task.NextKill)
	if !c.connected {
		return
	}
	c.do(Kill{TaskID: task.ID, AgentID: task.AgentID, Grace: grace, Why: why})
}

// dueKills repeats what Mesos may have lost: KILL has no answer but the task's end.
func (c *Core) dueKills() {
	if !c.connected {
		return
	}
	for _, id := range dueAbove(&c.floors.killing, c.killing, c.now, func(t *tasks.Task) time.Time { return t.NextKill }) {
		task := c.killing[id]
		c.kill(task, task.Grace, "KILL was asked for and the task has not ended")
	}
}

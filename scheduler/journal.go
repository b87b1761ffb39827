package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/tasks"
	"github.com/mesopod/mesopod/scheduler/web"
)

// journalSize is how many events and effects are kept for people: some MiB at most, whatever the size of the cluster.
const journalSize = 16384

// chronicle writes the journal. The loop owns it; pods are asked for between steps.
type chronicle struct {
	journal *web.Journal
	pod     func(types.UID) *corev1.Pod
	host    func(agentID string) string
	// binds are the requests that are not answered, with the pod and its node.
	binds map[uint64]web.Entry
}

func newChronicle(c *core.Core) *chronicle {
	return &chronicle{journal: web.NewJournal(journalSize), pod: c.Pod, host: c.Host, binds: map[uint64]web.Entry{}}
}

// event notes an event before the core takes it; what comes so often that it would hide the rest is left out.
func (c *chronicle) event(now time.Time, event core.Event) {
	e := web.Entry{Time: now, Kind: web.Event, Name: kindOf(event)}
	switch ev := event.(type) {
	case core.Subscribed:
		e.What = "framework " + ev.FrameworkID
	case core.Disconnected:
		e.Why = fmt.Sprint(ev.Err)
	case core.Offers:
		var hosts []string
		for i := range ev.Offers {
			hosts = append(hosts, ev.Offers[i].Hostname)
		}
		e.What = fmt.Sprintf("%d of %s", len(ev.Offers), some(hosts))
	case core.InverseOffers:
		e.What = fmt.Sprint(len(ev.Offers))
	case core.Rescinded:
		e.What = ev.OfferID
	case core.StatusUpdate:
		status := &ev.Status
		c.ofTask(&e, status.TaskID.Value)
		e.Agent, e.What, e.Why = c.host(status.GetAgentID().GetValue()), tasks.Name(status.GetState()), status.GetMessage()
		if status.Reason != nil {
			e.What += " " + strings.TrimPrefix(status.GetReason().String(), "REASON_")
		}
	case core.ExecutorFailed:
		e.Agent, e.What = c.host(ev.AgentID), fmt.Sprintf("wait status %d", ev.Status)
	case core.AgentRemoved:
		e.Agent = c.host(ev.AgentID)
	case core.AgentFound:
		e.Agent, e.What = ev.Agent.Hostname, ev.Agent.Total.String()
	case core.Surveyed:
		e.What = fmt.Sprintf("%d agents registered, %d unreachable, %d executors", len(ev.Registered), len(ev.Unreachable), len(ev.Executors))
	case core.PodsSynced:
		e.What = fmt.Sprintf("%d pods", len(ev.Pods))
	case core.PodChanged:
		if e.What = changes(c.pod(ev.Pod.UID), ev.Pod); e.What == "" {
			return
		}
		ofPod(&e, ev.Pod)
	case core.PodGone:
		ofPod(&e, ev.Pod)
	case core.NodeStored:
		e.Agent = ev.Node
	case core.NodeGone:
		e.Agent = ev.Node
	case core.Bind:
		ofPod(&e, ev.Pod)
		e.Agent, e.What = ev.Node, "kube-scheduler chose the node"
		c.binds[ev.Request] = e
	case core.Waiting:
		ofPod(&e, ev.Pod)
		e.Why = ev.Why
	case core.CallFailed:
		c.of(&e, ev.Effect)
		e.What, e.Why = kindOf(ev.Effect)+" "+e.What, fmt.Sprint(ev.Err)
	case core.StaticPods:
		e.What = fmt.Sprintf("%d static pods", len(ev.Pods))
	case core.FrameworkIDStored:
		e.What = ev.FrameworkID
	default:
		return
	}
	c.journal.Add(e)
}

// effect notes an effect; those that others stand for are left out.
func (c *chronicle) effect(now time.Time, effect core.Effect) {
	e := web.Entry{Time: now, Kind: web.Effect, Name: kindOf(effect)}
	switch ev := effect.(type) {
	case core.Accept:
		for i := range ev.Tasks {
			one := e
			c.ofTask(&one, ev.Tasks[i].TaskID.Value)
			one.Agent, one.Why = ev.Node, ev.Why
			one.What = fmt.Sprintf("launch on offers %s", strings.Join(ev.OfferIDs, ", "))
			c.journal.Add(one)
		}
		return
	case core.GateChanged:
		for uid, why := range ev.Held {
			one := e
			one.What, one.Why = "held back", why
			if why == "" {
				one.What = "let go"
			}
			one.UID = string(uid)
			if pod := c.pod(uid); pod != nil {
				one.Pod = podKey(pod)
			}
			c.journal.Add(one)
		}
		e.What = fmt.Sprintf("open: %t", ev.Open)
		if len(ev.Held) > 0 {
			return
		}
	case core.ReserveDone, core.PoolChanged, core.Acknowledge:
		return
	default:
		if !c.of(&e, effect) {
			return
		}
	}
	c.journal.Add(e)
}

// of fills in what an effect is about; false for those that are not noted.
func (c *chronicle) of(e *web.Entry, effect core.Effect) bool {
	switch ev := effect.(type) {
	case core.Accept:
		e.Agent, e.Why, e.What = ev.Node, ev.Why, fmt.Sprintf("%d tasks", len(ev.Tasks))
	case core.Decline:
		e.What, e.Why = fmt.Sprintf("%d offers for %gs", len(ev.OfferIDs), ev.RefuseSeconds), ev.Why
	case core.AcceptInverse:
		e.What, e.Why = fmt.Sprintf("%d offers", len(ev.OfferIDs)), ev.Why
	case core.Revive:
		e.Why = ev.Why
	case core.Kill:
		c.ofTask(e, ev.TaskID)
		e.Agent, e.Why = c.host(ev.AgentID), ev.Why
		if ev.Grace >= 0 {
			e.What = "grace " + ev.Grace.String()
		}
	case core.Reconcile:
		e.What, e.Why = fmt.Sprintf("%d tasks", len(ev.Tasks)), ev.Why
	case core.Survey:
		e.Why = ev.Why
	case core.LookUpAgent:
		e.Agent, e.Why = c.host(ev.AgentID), ev.Why
	case core.StoreFrameworkID:
		e.What, e.Why = ev.FrameworkID, ev.Why
	case core.StoreNode:
		e.Agent, e.Why = ev.Node.Name, ev.Why
	case core.DeleteNode:
		e.Agent, e.Why = ev.Node, ev.Why
	case core.TaintNode:
		e.Agent, e.What, e.Why = ev.Node, fmt.Sprintf("%s, on: %t", ev.Key, ev.On), ev.Why
	case core.KeepAlive:
		e.Agent, e.What, e.Why = ev.Node, fmt.Sprintf("on: %t", ev.On), ev.Why
	case core.PodEvent:
		ofPod(e, ev.Pod)
		e.What, e.Why = ev.Reason, ev.Note
	case core.NodeEvent:
		e.Agent, e.What, e.Why = ev.Node, ev.Reason, ev.Note
	case core.FailPod:
		ofPod(e, ev.Pod)
		e.What, e.Why = ev.Reason, ev.Why
	case core.DeletePod:
		ofPod(e, ev.Pod)
		e.Why = ev.Why
	case core.BindDone:
		asked := c.binds[ev.Request]
		delete(c.binds, ev.Request)
		e.UID, e.Pod, e.Agent = asked.UID, asked.Pod, asked.Agent
		e.What, e.Why = "bound", ev.Why
		if ev.Err != nil {
			e.What = "failed"
		}
	case core.Note:
		e.Why = ev.Why
		c.ofTask(e, ev.TaskID)
	case core.Stop:
		e.What, e.Why = fmt.Sprint(ev.Err), ev.Why
	case core.Acknowledge:
		c.ofTask(e, ev.TaskID)
	default:
		return false
	}
	return true
}

// ofTask fills in the task and its pod, as far as that is known.
func (c *chronicle) ofTask(e *web.Entry, id string) {
	e.Task = id
	uid, _, err := messages.ParseTaskID(id)
	if err != nil {
		return
	}
	e.UID = string(uid)
	if pod := c.pod(uid); pod != nil {
		e.Pod = podKey(pod)
		return
	}
	for _, asked := range c.binds { // kube-scheduler may know the pod before the core does
		if asked.UID == e.UID {
			e.Pod = asked.Pod
		}
	}
}

func ofPod(e *web.Entry, pod *corev1.Pod) { e.UID, e.Pod = string(pod.UID), podKey(pod) }

// changes are what of a pod's change matters to people; empty for none. before is nil for a pod that is new.
func changes(before, pod *corev1.Pod) string {
	if before == nil {
		before = &corev1.Pod{}
	}
	var all []string
	say := func(changed bool, format string, args ...any) {
		if changed {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	say(before.Status.Phase != pod.Status.Phase, "%s", pod.Status.Phase)
	say(before.Spec.NodeName != pod.Spec.NodeName, "on node %s", pod.Spec.NodeName)
	say(isReady(before) != isReady(pod), "ready: %t", isReady(pod))
	say((before.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil), "is being deleted")
	return strings.Join(all, ", ")
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// some are the first names of a list that may be long.
func some(names []string) string {
	const most = 3
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

package scheduler

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/scheduler/core"
)

// describeEffect is the effect's line in the log: verb, noun, keys, and why.
func describeEffect(effect core.Effect) string {
	switch e := effect.(type) {
	case core.Accept:
		tasks := make([]string, len(e.Tasks))
		for i := range e.Tasks {
			tasks[i] = e.Tasks[i].TaskID.Value
		}
		return fmt.Sprintf("accept offers agent=%s role=%s offer=%s task=%s why=%q", e.AgentID, e.Role, strings.Join(e.OfferIDs, ","), strings.Join(tasks, ","), e.Why)
	case core.Decline:
		return fmt.Sprintf("decline offers offer=%s refuse=%gs why=%q", strings.Join(e.OfferIDs, ","), e.RefuseSeconds, e.Why)
	case core.AcceptInverse:
		return fmt.Sprintf("accept inverse offer=%s refuse=%gs why=%q", strings.Join(e.OfferIDs, ","), e.RefuseSeconds, e.Why)
	case core.Revive:
		return fmt.Sprintf("revive offers role=%s why=%q", strings.Join(e.Roles, ","), e.Why)
	case core.Suppress:
		return fmt.Sprintf("suppress offers role=%s why=%q", strings.Join(e.Roles, ","), e.Why)
	case core.Acknowledge:
		return fmt.Sprintf("acknowledge update task=%s agent=%s why=%q", e.TaskID, e.AgentID, e.Why)
	case core.Kill:
		return fmt.Sprintf("kill task=%s agent=%s grace=%s why=%q", e.TaskID, e.AgentID, e.Grace, e.Why)
	case core.Message:
		return fmt.Sprintf("send message agent=%s executor=%s data=%s why=%q", e.AgentID, e.ExecutorID, e.Data, e.Why)
	case core.Reconcile:
		return fmt.Sprintf("reconcile tasks=%d why=%q", len(e.Tasks), e.Why)
	case core.LookUpAgent:
		return fmt.Sprintf("look up agent=%s why=%q", e.AgentID, e.Why)
	case core.LookUpLimits:
		return fmt.Sprintf("look up quotas why=%q", e.Why)
	case core.LimitsChanged:
		return fmt.Sprintf("tell quotas limits=%d", len(e.Limits))
	case core.StoreFrameworkID:
		return fmt.Sprintf("store framework=%s why=%q", e.FrameworkID, e.Why)
	case core.StoreNode:
		return fmt.Sprintf("store node=%s why=%q", e.Node.Name, e.Why)
	case core.DeleteNode:
		return fmt.Sprintf("delete node=%s why=%q", e.Node, e.Why)
	case core.KeepAlive:
		return fmt.Sprintf("keep alive node=%s on=%t why=%q", e.Node, e.On, e.Why)
	case core.PodEvent:
		return fmt.Sprintf("record event pod=%s type=%s reason=%s why=%q", podKey(e.Pod), e.Type, e.Reason, e.Note)
	case core.NodeEvent:
		return fmt.Sprintf("record event node=%s type=%s reason=%s why=%q", e.Node, e.Type, e.Reason, e.Note)
	case core.FailPod:
		return fmt.Sprintf("fail pod=%s reason=%s why=%q", podKey(e.Pod), e.Reason, e.Why)
	case core.TaintNode:
		return fmt.Sprintf("taint node=%s key=%s on=%t why=%q", e.Node, e.Key, e.On, e.Why)
	case core.Survey:
		return fmt.Sprintf("survey why=%q", e.Why)
	case core.DeletePod:
		return fmt.Sprintf("delete pod=%s why=%q", podKey(e.Pod), e.Why)
	case core.ReserveDone:
		return fmt.Sprintf("answer reserve request=%d refusal=%q", e.Request, e.Refusal)
	case core.BindDone:
		return fmt.Sprintf("answer bind request=%d err=%v why=%q", e.Request, e.Err, e.Why)
	case core.GateChanged:
		return fmt.Sprintf("change gate open=%t pods=%d", e.Open, len(e.Held))
	case core.PoolChanged:
		return fmt.Sprintf("publish pool nodes=%d", len(e.Views))
	case core.Stop:
		return fmt.Sprintf("stop scheduler err=%q why=%q", e.Err, e.Why)
	case core.Note:
		return fmt.Sprintf("note task=%s why=%q", e.TaskID, e.Why)
	}
	return fmt.Sprintf("effect %T", effect)
}

// describeEvent is the event's line in the log.
func describeEvent(event core.Event) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", event), "core.")
	switch e := event.(type) {
	case core.Subscribed:
		return fmt.Sprintf("event=%s framework=%s", kind, e.FrameworkID)
	case core.Disconnected:
		return fmt.Sprintf("event=%s reason=%q", kind, e.Err)
	case core.Offers:
		ids := make([]string, len(e.Offers))
		for i := range e.Offers {
			ids[i] = e.Offers[i].ID.Value
		}
		return fmt.Sprintf("event=%s offer=%s", kind, strings.Join(ids, ","))
	case core.InverseOffers:
		return fmt.Sprintf("event=%s offers=%d", kind, len(e.Offers))
	case core.Rescinded:
		return fmt.Sprintf("event=%s offer=%s", kind, e.OfferID)
	case core.StatusUpdate:
		return fmt.Sprintf("event=%s task=%s state=%s reason=%s message=%q", kind, e.Status.TaskID.Value, e.Status.GetState(), e.Status.GetReason(), e.Status.GetMessage())
	case core.ExecutorFailed:
		return fmt.Sprintf("event=%s agent=%s executor=%s status=%d", kind, e.AgentID, e.ExecutorID, e.Status)
	case core.StaticPods:
		return fmt.Sprintf("event=%s pods=%d", kind, len(e.Pods))
	case core.AgentRemoved:
		return fmt.Sprintf("event=%s agent=%s", kind, e.AgentID)
	case core.AgentFound:
		return fmt.Sprintf("event=%s agent=%s host=%s total=%s limits=%t", kind, e.Agent.ID, e.Agent.Hostname, e.Agent.Total, e.Agent.Limits)
	case core.LimitsFound:
		return fmt.Sprintf("event=%s limits=%d", kind, len(e.Limits))
	case core.Surveyed:
		return fmt.Sprintf("event=%s registered=%d recovered=%d unreachable=%d executors=%d nodes=%d complete=%t", kind,
			len(e.Registered), len(e.Recovered), len(e.Unreachable), len(e.Executors), len(e.Nodes), e.Complete)
	case core.PodsSynced:
		return fmt.Sprintf("event=%s pods=%d", kind, len(e.Pods))
	case core.PodChanged:
		return fmt.Sprintf("event=%s pod=%s phase=%s node=%s", kind, podKey(e.Pod), e.Pod.Status.Phase, e.Pod.Spec.NodeName)
	case core.PodGone:
		return fmt.Sprintf("event=%s pod=%s", kind, podKey(e.Pod))
	case core.NamespaceRoles:
		return fmt.Sprintf("event=%s namespace=%s roles=%q", kind, e.Namespace, e.Roles)
	case core.FrameworkIDStored:
		return fmt.Sprintf("event=%s framework=%s", kind, e.FrameworkID)
	case core.NodeStored:
		return fmt.Sprintf("event=%s node=%s agent=%s", kind, e.Node, e.AgentID)
	case core.NodeCordoned:
		return fmt.Sprintf("event=%s node=%s on=%t", kind, e.Node, e.On)
	case core.NodeGone:
		return fmt.Sprintf("event=%s node=%s agent=%s", kind, e.Node, e.AgentID)
	case core.Reserve:
		return fmt.Sprintf("event=%s request=%d pod=%s node=%s", kind, e.Request, podKey(e.Pod), e.Node)
	case core.Unreserve:
		return fmt.Sprintf("event=%s uid=%s", kind, e.UID)
	case core.Bind:
		return fmt.Sprintf("event=%s request=%d pod=%s node=%s", kind, e.Request, podKey(e.Pod), e.Node)
	case core.Waiting:
		return fmt.Sprintf("event=%s pod=%s why=%q", kind, podKey(e.Pod), e.Why)
	case core.CallFailed:
		return fmt.Sprintf("event=%s effect=%T err=%q", kind, e.Effect, e.Err)
	}
	return "event=" + kind
}

func podKey(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.Namespace + "/" + pod.Name
}

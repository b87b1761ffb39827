package core_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mesopod/mesopod/scheduler/core"
)

// tell puts an effect into one line.
func tell(effect core.Effect) string {
	what, why := "", ""
	switch e := effect.(type) {
	case core.Accept:
		what, why = fmt.Sprintf("accept %s offers=%v refuse=%g", e.AgentID, e.OfferIDs, e.RefuseSeconds), e.Why
		for _, task := range e.Tasks {
			what += fmt.Sprintf(" %s(%g,%g)", task.TaskID.Value, task.Resources[0].Scalar.Value, task.Resources[1].Scalar.Value)
		}
		if share := e.Tasks[0].Executor.Resources; share[0].Scalar.Value != 0.5 || share[1].Scalar.Value != 256 {
			what += fmt.Sprintf(" executor=(%g,%g)", share[0].Scalar.Value, share[1].Scalar.Value)
		}
	case core.Decline:
		what, why = fmt.Sprintf("decline %v refuse=%g", e.OfferIDs, e.RefuseSeconds), e.Why
	case core.AcceptInverse:
		what, why = fmt.Sprintf("accept-inverse %v refuse=%g", e.OfferIDs, e.RefuseSeconds), e.Why
	case core.Revive:
		what, why = "revive", e.Why
	case core.Acknowledge:
		what, why = fmt.Sprintf("acknowledge %s %s agent=%s", e.TaskID, e.UUID, e.AgentID), e.Why
	case core.Kill:
		what, why = fmt.Sprintf("kill %s agent=%s", e.TaskID, e.AgentID), e.Why
		if e.Grace >= 0 {
			what += " grace=" + e.Grace.String()
		}
	case core.Message:
		what, why = fmt.Sprintf("message %s %s", e.AgentID, e.Data), e.Why
	case core.Reconcile:
		what, why = fmt.Sprintf("reconcile %v", e.Tasks), e.Why
	case core.Survey:
		what, why = "survey", e.Why
	case core.TaintNode:
		what, why = fmt.Sprintf("taint-node %s on=%t", e.Node, e.On), e.Why
	case core.LookUpAgent:
		what, why = "look-up-agent "+e.AgentID, e.Why
	case core.StoreFrameworkID:
		what, why = "store-framework-id "+e.FrameworkID, e.Why
	case core.StoreNode:
		what, why = fmt.Sprintf("store-node %s cpu=%s mem=%s", e.Node.Name, e.Node.Status.Allocatable.Cpu(), e.Node.Status.Allocatable.Memory()), e.Why
	case core.DeleteNode:
		what, why = "delete-node "+e.Node, e.Why
	case core.KeepAlive:
		what, why = fmt.Sprintf("keep-alive %s on=%t", e.Node, e.On), e.Why
	case core.PodEvent:
		what, why = fmt.Sprintf("pod-event %s %s %s", e.Pod.Name, e.Type, e.Reason), e.Note
	case core.NodeEvent:
		what, why = fmt.Sprintf("node-event %s %s %s", e.Node, e.Type, e.Reason), e.Note
	case core.FailPod:
		what, why = fmt.Sprintf("fail-pod %s %s %q", e.Pod.Name, e.Reason, e.Message), e.Why
	case core.DeletePod:
		what, why = "delete-pod "+e.Pod.Name, e.Why
	case core.ReserveDone:
		what, why = fmt.Sprintf("reserve-done %d", e.Request), e.Refusal
	case core.BindDone:
		what, why = fmt.Sprintf("bind-done %d err=%v", e.Request, e.Err), e.Why
	case core.GateChanged:
		what = fmt.Sprintf("gate open=%t", e.Open)
		for _, uid := range slices.Sorted(maps.Keys(e.Held)) {
			if e.Held[uid] == "" {
				what += fmt.Sprintf(" %s=free", uid)
			} else {
				what += fmt.Sprintf(" %s=held(%s)", uid, e.Held[uid])
			}
		}
	case core.PoolChanged:
		what = "pool"
		for _, node := range slices.Sorted(maps.Keys(e.Views)) {
			view := e.Views[node]
			if view == nil {
				what += " " + node + "=nothing"
				continue
			}
			what += fmt.Sprintf(" %s=(%g,%d", node, float64(view.Free.CPUs)/1000, view.Free.MemMB)
			if view.NeedsExecutor {
				what += " after the executor"
			}
			what += ")"
		}
	case core.Stop:
		what, why = fmt.Sprintf("stop err=%v", e.Err), e.Why
	case core.Note:
		what, why = strings.TrimRight("note "+e.TaskID, " "), e.Why
	}
	if why == "" {
		return what
	}
	return fmt.Sprintf("%-60s why: %s", what, why)
}

// show prints a snapshot, its lists in order.
func show(v core.View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "framework %s connected=%t open=%t waiting=%d launching=%d offers=%d\n", v.FrameworkID, v.Connected, v.Open, v.Waiting, v.Launching, len(v.Offers))
	for _, a := range v.Agents {
		fmt.Fprintf(&b, "agent %s %s visible=%t gone=%t executor=%t offers=%d tasks=%d claims=%d %s\n", a.ID, a.Hostname, a.Visible, a.Gone, a.Executor, a.Offers, a.Tasks, a.Claims, a.Refused)
	}
	slices.SortFunc(v.Pods, func(x, y core.PodView) int { return strings.Compare(x.Pod.Name, y.Pod.Name) })
	for _, p := range v.Pods {
		fmt.Fprintf(&b, "pod %s %s %v why: %s\n", p.Pod.Name, p.Stage, p.Tasks, p.Why)
	}
	slices.SortFunc(v.Orphans, func(x, y core.TaskView) int { return strings.Compare(x.ID, y.ID) })
	for _, task := range v.Orphans {
		fmt.Fprintf(&b, "orphan %v\n", task)
	}
	return b.String()
}

package core_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

// tell puts an effect into one line.
func tell(effect core.Effect) string {
	what, why := "", ""
	switch e := effect.(type) {
	case core.Accept:
		what, why = fmt.Sprintf("accept %s offers=%v refuse=%g", e.AgentID, e.OfferIDs, e.RefuseSeconds), e.Why
		if e.Role != "*" {
			what += " role=" + e.Role
		}
		for _, task := range e.Tasks {
			what += " " + task.TaskID.Value + amounts(task.Resources, "*")
		}
		if share := amounts(e.Tasks[0].Executor.Resources, "*"); share != "(0.5,256)" {
			what += " executor=" + share
		}
	case core.Decline:
		what, why = fmt.Sprintf("decline %v refuse=%g", e.OfferIDs, e.RefuseSeconds), e.Why
	case core.AcceptInverse:
		what, why = fmt.Sprintf("accept-inverse %v refuse=%g", e.OfferIDs, e.RefuseSeconds), e.Why
	case core.Revive:
		what, why = told("revive", e.Roles), e.Why
	case core.Suppress:
		what, why = told("suppress", e.Roles), e.Why
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
	case core.LookUpLimits:
		what, why = "look-up-limits", e.Why
	case core.LimitsChanged:
		what = fmt.Sprintf("limits %+v", e.Limits)
	case core.Survey:
		what, why = "survey", e.Why
	case core.TaintNode:
		what, why = fmt.Sprintf("taint-node %s %s on=%t", e.Node, strings.TrimPrefix(e.Key, messages.AnnotationPrefix+"/"), e.On), e.Why
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
			what += " " + node + "="
			for i, in := range view.Roles {
				if i > 0 {
					what += "+"
				}
				if in.Role != "*" {
					what += in.Role
				}
				what += fmt.Sprintf("(%g,%d", float64(in.Free.CPUs)/1000, in.Free.MemMB)
				if view.NeedsExecutor {
					what += " after the executor"
				}
				what += ")"
			}
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

// told names roles, but for the one that everybody has.
func told(verb string, roles []string) string {
	if slices.Equal(roles, []string{"*"}) {
		return verb
	}
	return fmt.Sprintf("%s %s", verb, strings.Join(roles, ","))
}

// amounts is "(cpus,mem)" of unreserved resources allocated to the role, else each with its reservations and role.
func amounts(resources []mesos.Resource, role string) string {
	var plain, parts []string
	all := true
	for _, r := range resources {
		part := r.Name
		for _, reservation := range r.Reservations {
			part += "[" + reservation.GetRole() + "]"
			all = false
		}
		value := fmt.Sprintf("%g", r.GetScalar().GetValue())
		if to := r.AllocationInfo.GetRole(); to != role {
			part, all = part+"@"+to, false
		}
		plain, parts = append(plain, value), append(parts, part+"="+value)
	}
	if all {
		return "(" + strings.Join(plain, ",") + ")"
	}
	return "(" + strings.Join(parts, ",") + ")"
}

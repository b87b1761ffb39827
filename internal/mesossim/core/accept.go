package core

import (
	"fmt"
	"math"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/allocator"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// wants is what the allocator must know of a framework.
func (f *framework) wants(suppressed []string) allocator.Framework {
	return allocator.Framework{Roles: f.roles, Suppressed: suppressed, GPUs: f.caps.gpus, Regions: f.caps.regions,
		Revocable: f.caps.revocable, Shared: f.caps.shared, Refined: f.caps.refinement, Constraints: f.wanted}
}

// acceptance is an ACCEPT while it is carried out.
type acceptance struct {
	m         *master
	f         *framework
	node      *node
	role      string
	remaining resources.Bag
}

func (m *master) accept(f *framework, call *scheduler.Call_Accept) {
	offers, why := m.take(f, call.OfferIDs)
	if why != "" {
		for _, o := range offers {
			m.drop(o, 0)
		}
		for i := range call.Operations {
			for _, info := range launched(&call.Operations[i]) {
				state := mesos.TASK_LOST
				if f.caps.partitionAware {
					state = mesos.TASK_DROPPED
				}
				f.refuseTask(&info, state, mesos.REASON_INVALID_OFFERS, "Task launched with invalid offers: "+why)
			}
		}
		return
	}
	a := &acceptance{m: m, f: f, node: offers[0].node, role: offers[0].role}
	for _, o := range offers {
		m.forget(o)
		a.remaining = a.remaining.Plus(o.resources)
	}
	for i := range call.Operations {
		a.operate(&call.Operations[i])
	}
	m.alloc.Recover(m.c.now, allocator.Grant{Framework: f.id, Role: a.role, Agent: a.node.id, Resources: a.remaining}, refusal(call.Filters))
}

// take collects the offers of a call, those that are there also if others are not.
func (m *master) take(f *framework, ids []mesos.OfferID) (offers []*offer, why string) {
	if len(ids) == 0 {
		return nil, "No offers specified"
	}
	for _, id := range ids {
		o := f.offers[id.Value]
		switch {
		case o == nil:
			why = fmt.Sprintf("Offer %s is no longer valid", id.Value)
			continue
		case slices.Contains(offers, o):
			why = fmt.Sprintf("Duplicate offer %s in offer list", id.Value)
			continue
		case len(offers) > 0 && o.node != offers[0].node:
			why = fmt.Sprintf("Aggregated offers must belong to one single agent. Offer %s uses agent %s and offer %s uses agent %s",
				o.id, o.node.id, offers[0].id, offers[0].node.id)
		case len(offers) > 0 && o.role != offers[0].role:
			why = fmt.Sprintf("Aggregated offers must be allocated to the same role. Offer %s uses role %s but another is using role %s", o.id, o.role, offers[0].role)
		}
		offers = append(offers, o)
	}
	return offers, why
}

// launched are the tasks of an operation, each with its executor.
func launched(op *mesos.Offer_Operation) []mesos.TaskInfo {
	switch {
	case op.Type == mesos.Offer_Operation_LAUNCH && op.Launch != nil:
		return op.Launch.TaskInfos
	case op.Type == mesos.Offer_Operation_LAUNCH_GROUP && op.LaunchGroup != nil:
		tasks := slices.Clone(op.LaunchGroup.TaskGroup.Tasks)
		for i := range tasks {
			tasks[i].Executor = &op.LaunchGroup.Executor
		}
		return tasks
	}
	return nil
}

func (a *acceptance) operate(op *mesos.Offer_Operation) {
	switch {
	case op.Type == mesos.Offer_Operation_LAUNCH && op.Launch != nil:
		for i := range op.Launch.TaskInfos {
			info := op.Launch.TaskInfos[i]
			if op.ID != nil {
				a.f.refuseTask(&info, mesos.TASK_ERROR, mesos.REASON_TASK_INVALID, "The 'id' field cannot be set in a LAUNCH operation")
				continue
			}
			if why := a.launch(&info, nil); why != "" {
				a.f.refuseTask(&info, mesos.TASK_ERROR, mesos.REASON_TASK_INVALID, why)
			}
		}
	case op.Type == mesos.Offer_Operation_LAUNCH_GROUP && op.LaunchGroup != nil:
		a.launchGroup(launched(op))
	case op.Type == mesos.Offer_Operation_RESERVE && op.Reserve != nil:
		a.reserve(op.Reserve.Resources)
	case op.Type == mesos.Offer_Operation_UNRESERVE && op.Unreserve != nil:
		a.unreserve(op.Unreserve.Resources)
	case op.Type == mesos.Offer_Operation_CREATE && op.Create != nil:
		a.convert(op.Create.Volumes, plainDisk)
	case op.Type == mesos.Offer_Operation_DESTROY && op.Destroy != nil:
		for _, volume := range op.Destroy.Volumes {
			a.change(volume, plainDisk(volume))
		}
	}
}

// launchGroup starts all tasks of a group, or none.
func (a *acceptance) launchGroup(tasks []mesos.TaskInfo) {
	before := a.remaining
	var group []*task
	for i := range tasks {
		if why := a.launch(&tasks[i], &group); why != "" {
			a.remaining = before
			for _, t := range group {
				a.m.withdraw(a.f, t)
			}
			for k := range tasks {
				message := "A task within the task group is invalid"
				if k == i {
					message = why
				}
				a.f.refuseTask(&tasks[k], mesos.TASK_ERROR, mesos.REASON_TASK_GROUP_INVALID, message)
			}
			return
		}
	}
	a.m.tell(a.node, func(one *agent) { one.run(a.f.info, tasks, true) })
}

// launch starts a task, or answers why not. In a group it is only booked.
func (a *acceptance) launch(info *mesos.TaskInfo, group *[]*task) (why string) {
	if info.Executor != nil {
		executor := *info.Executor
		info.Executor = &executor
		if executor.FrameworkID == nil {
			info.Executor.FrameworkID = &mesos.FrameworkID{Value: a.f.id}
		}
	}
	needs, why := a.validate(info)
	if why != "" {
		return why
	}
	running := a.node.executors[executorKey{a.f.id, executorOf(info)}]
	executor := resources.Bag{}
	if info.Executor != nil {
		if running == nil {
			if executor, why = a.read(info.Executor.Resources, "Executor"); why != "" {
				return why
			}
		} else if !sameExecutor(running.info, info.Executor) {
			return fmt.Sprintf("ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID.\nExisting: %s\nTask's: %s", running.info, info.Executor)
		}
	}
	total := needs.Plus(executor)
	if !a.remaining.Contains(total) {
		return fmt.Sprintf("Task uses more resources %s than available %s", total, a.remaining)
	}
	a.remaining = a.remaining.Minus(total)
	if info.Executor != nil && running == nil {
		a.node.executors[executorKey{a.f.id, executorOf(info)}] = &runningExecutor{info.Executor, a.role, executor}
	}
	t := a.m.addTask(a.f, a.node, info, a.role, needs)
	if group != nil {
		*group = append(*group, t)
		return ""
	}
	f := a.f.info
	a.m.tell(a.node, func(one *agent) { one.run(f, []mesos.TaskInfo{*info}, false) })
	return ""
}

// sameExecutor compares as the master does: every field but labels and grace period, resources in any order.
func sameExecutor(a, b *mesos.ExecutorInfo) bool {
	x, y := *a, *b
	if x.Type == mesos.ExecutorInfo_UNKNOWN {
		x.Type = y.Type
	}
	if y.Type == mesos.ExecutorInfo_UNKNOWN {
		y.Type = x.Type
	}
	left, wrong := resources.Of(x.Resources)
	right, wrong2 := resources.Of(y.Resources)
	x.Resources, x.Labels, x.ShutdownGracePeriod = nil, nil, nil
	y.Resources, y.Labels, y.ShutdownGracePeriod = nil, nil, nil
	return x.Equal(y) && wrong == nil && wrong2 == nil && left.Equal(right)
}

// executorOf is the id of a task's executor: its own for a task with a command.
func executorOf(info *mesos.TaskInfo) string {
	if info.Executor != nil {
		return info.Executor.ExecutorID.Value
	}
	return info.TaskID.Value
}

// validate answers with what the task needs, or with the master's words for what is wrong with it.
func (a *acceptance) validate(info *mesos.TaskInfo) (needs resources.Bag, why string) {
	id := info.TaskID.Value
	switch {
	case id == "":
		return nil, "ID must not be empty"
	case id == "." || id == ".." || strings.ContainsAny(id, "/\\") || strings.IndexFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0:
		return nil, fmt.Sprintf("'%s' contains invalid characters", id)
	case a.f.tasks[id] != nil:
		return nil, "Task has duplicate ID: " + id
	case a.f.gone[id] != nil && !terminal(a.f.gone[id].latest):
		return nil, "Task reuses the ID of an unreachable task: " + id
	case info.AgentID.Value != a.node.id:
		return nil, fmt.Sprintf("Task uses invalid agent %s while agent %s is expected", info.AgentID.Value, a.node.id)
	case info.KillPolicy.GetGracePeriod() != nil && info.KillPolicy.GracePeriod.Nanoseconds < 0:
		return nil, "Task's 'kill_policy.grace_period' must be non-negative"
	case (info.Executor == nil) == (info.Command == nil):
		return nil, "Task should have at least one (but not both) of CommandInfo or ExecutorInfo present"
	case info.Executor != nil && info.Executor.ExecutorID.Value == "":
		return nil, "Executor: ID must not be empty"
	case info.Executor != nil && info.Executor.FrameworkID.GetValue() != a.f.id:
		return nil, fmt.Sprintf("ExecutorInfo has an invalid FrameworkID (Actual: %s vs Expected: %s)", info.Executor.FrameworkID.GetValue(), a.f.id)
	case info.Executor != nil && info.Executor.ShutdownGracePeriod != nil && info.Executor.ShutdownGracePeriod.Nanoseconds < 0:
		return nil, "ExecutorInfo's 'shutdown_grace_period' must be non-negative"
	case info.Executor != nil && info.Executor.Type != mesos.ExecutorInfo_DEFAULT && info.Executor.Command == nil:
		return nil, "'ExecutorInfo.command' must be set for 'CUSTOM' executor"
	case len(info.Limits) > 0 && !a.node.can(mesos.AgentInfo_Capability_TASK_RESOURCE_LIMITS):
		return nil, "Agent does not support resource limits"
	}
	needs, why = a.read(info.Resources, "Task")
	if why == "" && len(needs) == 0 {
		why = "Task uses no resources"
	}
	for name, limit := range info.Limits {
		if why == "" && !math.IsInf(limit.Value, 1) && math.Round(limit.Value*1000) < float64(needs.Scalar(name)) {
			why = fmt.Sprintf("Task's limit of %s is less than its request", name)
		}
	}
	return needs, why
}

// read reads resources and checks to whom they are allocated.
func (a *acceptance) read(list []mesos.Resource, whose string) (resources.Bag, string) {
	for i := range list {
		if got := list[i].AllocationInfo; got != nil && got.GetRole() != a.role {
			return nil, fmt.Sprintf("%s has resources allocated to role '%s', the offer is allocated to role '%s'", whose, got.GetRole(), a.role)
		}
	}
	b, err := resources.Of(list)
	if err != nil {
		return nil, fmt.Sprintf("%s uses invalid resources: %v", whose, err)
	}
	return b, ""
}

// refuseTask answers for a task that was not started.
func (f *framework) refuseTask(info *mesos.TaskInfo, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) {
	f.send(update(mesos.TaskStatus{
		TaskID: info.TaskID, AgentID: &info.AgentID, State: &state, Source: mesos.SOURCE_MASTER.Enum(), Reason: &reason,
		Message: &message, Timestamp: ptr(seconds(f.m.c.now)),
	}))
}

package agentconn

import (
	"maps"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/internal/agentsize"
)

func (c *Conn) call(kind executor.Call_Type) *executor.Call {
	return &executor.Call{
		Type:        kind,
		ExecutorID:  mesos.ExecutorID{Value: c.config.ExecutorID},
		FrameworkID: mesos.FrameworkID{Value: c.config.FrameworkID},
	}
}

func (c *Conn) subscribeCall(tasks []string, updates []ledger.Update) *executor.Call {
	call := c.call(executor.Call_SUBSCRIBE)
	call.Subscribe = &executor.Call_Subscribe{}
	for _, id := range tasks {
		// The agent looks at the id alone, yet its decoder refuses a task without name and agent.
		call.Subscribe.UnacknowledgedTasks = append(call.Subscribe.UnacknowledgedTasks, mesos.TaskInfo{
			Name: id, TaskID: mesos.TaskID{Value: id}, AgentID: mesos.AgentID{Value: c.config.AgentID},
		})
	}
	for _, update := range updates {
		call.Subscribe.UnacknowledgedUpdates = append(call.Subscribe.UnacknowledgedUpdates, executor.Call_Update{Status: c.status(update)})
	}
	return call
}

func (c *Conn) updateCall(update ledger.Update) *executor.Call {
	call := c.call(executor.Call_UPDATE)
	call.Update = &executor.Call_Update{Status: c.status(update)}
	return call
}

// status is the wire form of an update. The agent id is left out: the agent fills it in, and drops the update silently
// when it is wrong.
func (c *Conn) status(u ledger.Update) mesos.TaskStatus {
	status := mesos.TaskStatus{
		TaskID:     mesos.TaskID{Value: u.TaskID},
		State:      u.State.Enum(),
		Source:     mesos.SOURCE_EXECUTOR.Enum(),
		Reason:     u.Reason,
		Data:       u.Data,
		ExecutorID: &mesos.ExecutorID{Value: c.config.ExecutorID},
		UUID:       u.UUID,
		Healthy:    u.Healthy,
	}
	if u.Message != "" {
		status.Message = &u.Message
	}
	if !u.Timestamp.IsZero() {
		seconds := float64(u.Timestamp.UnixNano()) / float64(time.Second)
		status.Timestamp = &seconds
	}
	if len(u.PodIPs) > 0 {
		// Without addresses of ours the agent would write its own.
		info := mesos.NetworkInfo{}
		for _, ip := range u.PodIPs {
			info.IPAddresses = append(info.IPAddresses, mesos.NetworkInfo_IPAddress{IPAddress: &ip})
		}
		status.ContainerStatus = &mesos.ContainerStatus{NetworkInfos: []mesos.NetworkInfo{info}}
	}
	if len(u.Labels) > 0 {
		status.Labels = &mesos.Labels{}
		for _, key := range slices.Sorted(maps.Keys(u.Labels)) {
			value := u.Labels[key]
			status.Labels.Labels = append(status.Labels.Labels, mesos.Label{Key: key, Value: &value})
		}
	}
	return status
}

// agentOf reads SUBSCRIBED.
func agentOf(s *executor.Event_Subscribed) Agent {
	agent := Agent{Hostname: s.AgentInfo.Hostname, Resources: agentsize.Of(s.AgentInfo.Resources, s.FrameworkInfo.Roles), Executor: agentsize.All(s.ExecutorInfo.Resources)}
	if s.AgentInfo.ID != nil {
		agent.ID = s.AgentInfo.ID.Value
	}
	if s.ContainerID != nil {
		agent.ContainerID = s.ContainerID.Value
	}
	return agent
}

// killGrace is the grace period of a KILL, nil when it has no kill policy (EX-79).
func killGrace(kill *executor.Event_Kill) *time.Duration {
	if kill.KillPolicy == nil || kill.KillPolicy.GracePeriod == nil {
		return nil
	}
	grace := time.Duration(kill.KillPolicy.GracePeriod.Nanoseconds)
	return &grace
}

func killsSoftly(s *executor.Event_Subscribed) bool {
	return slices.ContainsFunc(s.FrameworkInfo.Capabilities, func(c mesos.FrameworkInfo_Capability) bool {
		return c.Type == mesos.FrameworkInfo_Capability_TASK_KILLING_STATE
	})
}

package procure

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/offers"
)

// Static is what the static pods take from an agent together: the size of its placeholder task (ADR 035).
type Static struct {
	// Claims are those of the pods, in order. Empty: there are none, and no task either.
	Claims []string
	Need   Need
	// Key tells two of these apart, as eight hexadecimal digits.
	Key string
	// cpus and mem are the sum of the limits, infinite if a pod has none.
	cpus, mem float64
}

// StaticOf sums pods up. A pod that nothing can be said about is left out, and so never runs.
func StaticOf(pods []messages.StaticPod, cfg Config) Static {
	var s Static
	var ports []uint16
	limited := false
	for _, p := range pods {
		need, err := SizeOf(p.Pod, cfg)
		if err != nil {
			continue
		}
		s.Claims = append(s.Claims, p.Claim)
		limit := max(need.MemLimitMB, need.MemMB)
		limited = limited || need.MemLimitMB > 0
		s.Need.Amounts = s.Need.Add(need.Amounts)
		s.Need.MemLimitMB += limit
		ports = append(ports, need.Ports.All()...)
		of := limits(p.Pod, need)
		s.cpus, s.mem = s.cpus+of["cpus"].Value, s.mem+of["mem"].Value
	}
	if len(s.Claims) == 0 {
		return Static{}
	}
	if !limited {
		s.Need.MemLimitMB = 0
	}
	s.Need.Ports = offers.NewPortSet(ports...)
	slices.Sort(s.Claims)
	// As ever since there are keys: a key that changes has Mesos' task of running pods replaced.
	amounts := struct{ CPUs, MemMB, DiskMB int64 }{s.Need.CPUs, s.Need.MemMB, s.Need.DiskMB}
	kept := fmt.Append(nil, s.Claims, amounts, s.Need.MemLimitMB, s.Need.Ports.All(), s.cpus, s.mem)
	if s.Need.GPUs > 0 {
		kept = fmt.Append(kept, s.Need.GPUs)
	}
	s.Key = fmt.Sprintf("%.4x", sha256.Sum256(kept))
	return s
}

// PlaceholderLaunch is one placeholder task and where it goes; see Launch.
type PlaceholderLaunch struct {
	TaskID, AgentID, Node string
	Static                Static
	Resources             []mesos.Resource
	Limits                bool
	Executor              *mesos.ExecutorInfo
}

// Placeholder is the TaskInfo of the task that holds an agent's resources for its static pods. The error is
// errdefs.ErrInvalid.
func Placeholder(cfg Config, l PlaceholderLaunch) (mesos.TaskInfo, error) {
	data, err := messages.EncodeLaunch(messages.Launch{TaskID: l.TaskID, Node: l.Node, StaticPods: l.Static.Claims, Bundle: cfg.Bundle.message()})
	if err != nil {
		return mesos.TaskInfo{}, err
	}
	task := mesos.TaskInfo{
		Name: "static pods of " + l.Node, TaskID: mesos.TaskID{Value: l.TaskID}, AgentID: mesos.AgentID{Value: l.AgentID},
		Resources: l.Resources,
		Executor:  l.Executor,
		Labels:    &mesos.Labels{},
		Data:      data,
	}
	for _, claim := range l.Static.Claims {
		name, _, _ := strings.Cut(claim, "@")
		task.Labels.Labels = append(task.Labels.Labels, mesos.Label{Key: "static-pod", Value: ptr(name)})
	}
	if l.Limits {
		task.Limits = map[string]mesos.Value_Scalar{"cpus": {Value: l.Static.cpus}, "mem": {Value: l.Static.mem}}
	}
	return task, nil
}

// EverFits tells whether an agent of that size in whole has room for the static pods beside its executor.
func (s Static) EverFits(total messages.Resources, cfg Config) bool {
	share := ExecutorShare(cfg)
	return float64(s.Need.CPUs+share.CPUs) <= math.Round(total.CPUs*1000) && float64(s.Need.MemMB+share.MemMB) <= total.MemMB &&
		(s.Need.DiskMB == 0 || float64(s.Need.DiskMB) <= total.DiskMB)
}

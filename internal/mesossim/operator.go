package mesossim

import (
	"net/http"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"

	"github.com/mesopod/mesopod/internal/mesossim/core"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

var newer = resources.Notation{Refined: true}

func (s *Sim) serveOperator(w http.ResponseWriter, r *http.Request) {
	var call master.Call
	if refused := readCall(r, &call); refused != nil {
		answerRefusal(w, refused)
		return
	}
	encoding, refused := accepted(r)
	if refused != nil {
		answerRefusal(w, refused)
		return
	}
	if answer := s.question(&call); answer != nil {
		data, err := encoding.encode(answer)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", string(encoding))
		_, _ = w.Write(data) // who asked may have gone
		return
	}
	s.do(func(now time.Time) (effects []core.Effect) {
		effects, refused = s.core.Operate(now, &call)
		return effects
	})
	if refused != nil {
		answerRefusal(w, refused)
		return
	}
	switch call.Type {
	case master.Call_RESERVE_RESOURCES, master.Call_UNRESERVE_RESOURCES, master.Call_CREATE_VOLUMES, master.Call_DESTROY_VOLUMES:
		w.WriteHeader(http.StatusAccepted)
	}
}

// question answers a call that changes nothing; nil if it is none.
func (s *Sim) question(call *master.Call) *master.Response {
	tasks := false
	switch call.Type {
	case master.Call_GET_HEALTH:
		return &master.Response{Type: master.Response_GET_HEALTH, GetHealth: &master.Response_GetHealth{Healthy: true}}
	case master.Call_GET_VERSION:
		return &master.Response{Type: master.Response_GET_VERSION, GetVersion: &master.Response_GetVersion{VersionInfo: mesos.VersionInfo{Version: core.Version}}}
	case master.Call_GET_FLAGS:
		return &master.Response{Type: master.Response_GET_FLAGS, GetFlags: &master.Response_GetFlags{}}
	case master.Call_GET_MAINTENANCE_SCHEDULE, master.Call_GET_MAINTENANCE_STATUS:
		s.mu.Lock()
		defer s.mu.Unlock()
		schedule, status := s.core.Maintenance()
		if call.Type == master.Call_GET_MAINTENANCE_STATUS {
			return &master.Response{Type: master.Response_GET_MAINTENANCE_STATUS, GetMaintenanceStatus: &master.Response_GetMaintenanceStatus{Status: status}}
		}
		return &master.Response{Type: master.Response_GET_MAINTENANCE_SCHEDULE, GetMaintenanceSchedule: &master.Response_GetMaintenanceSchedule{Schedule: schedule}}
	case master.Call_GET_STATE, master.Call_GET_TASKS:
		tasks = true
	case master.Call_GET_AGENTS, master.Call_GET_FRAMEWORKS, master.Call_GET_EXECUTORS, master.Call_GET_MASTER, master.Call_GET_ROLES:
	default:
		return nil
	}
	v := s.view(tasks)
	if v == nil {
		return nil
	}
	switch call.Type {
	case master.Call_GET_STATE:
		return &master.Response{Type: master.Response_GET_STATE, GetState: &master.Response_GetState{
			GetTasks: tasksOf(v), GetExecutors: executorsOf(v), GetFrameworks: frameworksOf(v), GetAgents: agentsOf(v)}}
	case master.Call_GET_TASKS:
		return &master.Response{Type: master.Response_GET_TASKS, GetTasks: tasksOf(v)}
	case master.Call_GET_AGENTS:
		return &master.Response{Type: master.Response_GET_AGENTS, GetAgents: agentsOf(v)}
	case master.Call_GET_FRAMEWORKS:
		return &master.Response{Type: master.Response_GET_FRAMEWORKS, GetFrameworks: frameworksOf(v)}
	case master.Call_GET_EXECUTORS:
		return &master.Response{Type: master.Response_GET_EXECUTORS, GetExecutors: executorsOf(v)}
	case master.Call_GET_ROLES:
		return &master.Response{Type: master.Response_GET_ROLES, GetRoles: rolesOf(v)}
	}
	start := float64(v.Start.UnixNano()) / 1e9
	return &master.Response{Type: master.Response_GET_MASTER, GetMaster: &master.Response_GetMaster{MasterInfo: v.Info, StartTime: &start, ElectedTime: &start}}
}

func (s *Sim) view(tasks bool) *core.MasterView {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.View(tasks)
}

func timeInfo(t time.Time) *mesos.TimeInfo {
	if t.IsZero() {
		return nil
	}
	return &mesos.TimeInfo{Nanoseconds: t.UnixNano()}
}

func agentsOf(v *core.MasterView) *master.Response_GetAgents {
	out := &master.Response_GetAgents{}
	for _, a := range v.Agents {
		out.Agents = append(out.Agents, master.Response_GetAgents_Agent{
			AgentInfo: *a.Info, Active: a.Active, Deactivated: &a.Deactivated, Version: core.Version, PID: &a.PID,
			RegisteredTime: timeInfo(a.Registered), ReregisteredTime: timeInfo(a.Reregistered),
			TotalResources: a.Total.Proto(newer), AllocatedResources: a.Used.Proto(newer), OfferedResources: a.Offered.Proto(newer),
			Capabilities: a.Capabilities, DrainInfo: a.Drain, EstimatedDrainStartTime: timeInfo(a.DrainStart),
		})
	}
	for _, info := range v.Recovered {
		out.RecoveredAgents = append(out.RecoveredAgents, *info)
	}
	return out
}

func frameworksOf(v *core.MasterView) *master.Response_GetFrameworks {
	out := &master.Response_GetFrameworks{}
	one := func(f core.FrameworkView) master.Response_GetFrameworks_Framework {
		return master.Response_GetFrameworks_Framework{
			FrameworkInfo: *f.Info, Active: f.Active, Connected: f.Connected, Recovered: f.Recovered, RegisteredTime: timeInfo(f.Registered),
			ReregisteredTime: timeInfo(f.Reregistered), UnregisteredTime: timeInfo(f.Unregistered),
			AllocatedResources: f.Used.Plus(f.Offered).Proto(newer), OfferedResources: f.Offered.Proto(newer),
		}
	}
	for _, f := range v.Frameworks {
		out.Frameworks = append(out.Frameworks, one(f))
	}
	for _, f := range v.Completed {
		out.CompletedFrameworks = append(out.CompletedFrameworks, one(f))
	}
	return out
}

func executorsOf(v *core.MasterView) *master.Response_GetExecutors {
	out := &master.Response_GetExecutors{}
	for _, f := range v.Frameworks {
		for _, e := range f.Executors {
			out.Executors = append(out.Executors, master.Response_GetExecutors_Executor{ExecutorInfo: *e.Info, AgentID: mesos.AgentID{Value: e.Agent}})
		}
	}
	return out
}

func tasksOf(v *core.MasterView) *master.Response_GetTasks {
	out := &master.Response_GetTasks{}
	for _, list := range [][]core.FrameworkView{v.Frameworks, v.Completed} {
		for _, f := range list {
			out.Tasks = append(out.Tasks, f.Tasks...)
			out.UnreachableTasks = append(out.UnreachableTasks, f.UnreachableTasks...)
			out.CompletedTasks = append(out.CompletedTasks, f.CompletedTasks...)
		}
	}
	return out
}

func rolesOf(v *core.MasterView) *master.Response_GetRoles {
	at := map[string]int{}
	out := &master.Response_GetRoles{}
	for _, f := range v.Frameworks {
		for _, name := range f.Roles {
			n, known := at[name]
			if !known {
				n = len(out.Roles)
				at[name] = n
				out.Roles = append(out.Roles, mesos.Role{Name: name, Weight: 1})
			}
			out.Roles[n].Frameworks = append(out.Roles[n].Frameworks, *f.Info.ID)
		}
	}
	return out
}

package mesossim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"

	"github.com/mesopod/mesopod/internal/mesossim/core"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// page is a JSON object of the older HTTP endpoints, which the web UI and people's scripts read.
type page = map[string]any

func (s *Sim) serveState(w http.ResponseWriter, r *http.Request) {
	v := s.view(true)
	if v == nil {
		panic(http.ErrAbortHandler)
	}
	agents, frameworks, completed, recovered := []page{}, []page{}, []page{}, []page{}
	for _, a := range v.Agents {
		agents = append(agents, agentPage(a))
	}
	for _, info := range v.Recovered {
		recovered = append(recovered, page{"id": info.ID.Value, "hostname": info.Hostname})
	}
	hosts := map[string]core.AgentView{}
	for _, a := range v.Agents {
		hosts[a.Info.ID.Value] = a
	}
	for _, f := range v.Frameworks {
		frameworks = append(frameworks, frameworkPage(f))
	}
	for _, f := range v.Completed {
		completed = append(completed, frameworkPage(f))
	}
	answerJSON(w, r, page{
		"version": core.Version, "id": v.ID, "pid": v.Info.GetPID(), "hostname": v.Info.GetHostname(), "leader": v.Info.GetPID(),
		"leader_info": page{"id": v.ID, "pid": v.Info.GetPID(), "hostname": v.Info.GetHostname(), "port": v.Info.GetPort()},
		"start_time":  unixTime(v.Start), "elected_time": unixTime(v.Start), "activated_slaves": len(v.Agents), "deactivated_slaves": 0,
		"unreachable_slaves": len(s.registry().Unreachable), "flags": page{},
		"slaves": agents, "recovered_slaves": recovered, "frameworks": frameworks, "completed_frameworks": completed,
		"unregistered_frameworks": []string{}, "orphan_tasks": []string{},
	})
}

func (s *Sim) registry() core.Registry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Registry()
}

func (s *Sim) serveTasks(w http.ResponseWriter, r *http.Request) {
	v := s.view(true)
	if v == nil {
		panic(http.ErrAbortHandler)
	}
	tasks := []page{}
	for _, list := range [][]core.FrameworkView{v.Frameworks, v.Completed} {
		for _, f := range list {
			for _, some := range [][]mesos.Task{f.Tasks, f.UnreachableTasks, f.CompletedTasks} {
				tasks = append(tasks, taskPages(some)...)
			}
		}
	}
	answerJSON(w, r, page{"tasks": tasks})
}

func (s *Sim) serveTeardown(w http.ResponseWriter, r *http.Request) {
	call := &master.Call{Type: master.Call_TEARDOWN, Teardown: &master.Call_Teardown{FrameworkID: mesos.FrameworkID{Value: r.FormValue("frameworkId")}}}
	var refused *core.Refusal
	s.do(func(now time.Time) (effects []core.Effect) {
		effects, refused = s.core.Operate(now, call)
		return effects
	})
	if refused != nil {
		answerRefusal(w, refused)
	}
}

func (s *Sim) serveRegistry(w http.ResponseWriter, r *http.Request) {
	registry := s.registry()
	admitted, unreachable, gone := []page{}, []page{}, []page{}
	for _, info := range registry.Admitted {
		admitted = append(admitted, page{"info": page{"id": page{"value": info.ID.Value}, "hostname": info.Hostname}})
	}
	for _, id := range registry.Unreachable {
		unreachable = append(unreachable, page{"id": page{"value": id}})
	}
	for _, id := range registry.Gone {
		gone = append(gone, page{"id": page{"value": id}})
	}
	answerJSON(w, r, page{"slaves": page{"slaves": admitted}, "unreachable": page{"slaves": unreachable}, "gone": page{"slaves": gone}})
}

func (s *Sim) serveMetrics(w http.ResponseWriter, r *http.Request) {
	v := s.view(false)
	if v == nil {
		panic(http.ErrAbortHandler)
	}
	answerJSON(w, r, page{"master/elected": 1.0, "master/slaves_active": len(v.Agents), "master/frameworks_active": len(v.Frameworks)})
}

func unixTime(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}

// amounts shows resources as the older endpoints do: sums by name, and ranges as text.
func amounts(b resources.Bag) page {
	out := page{"cpus": 0.0, "mem": 0.0, "disk": 0.0, "gpus": 0.0}
	for name, milli := range b.Scalars() {
		out[name] = float64(milli) / 1000
	}
	for _, item := range b {
		if len(item.Spans) > 0 {
			var spans []string
			for _, span := range item.Spans {
				spans = append(spans, fmt.Sprintf("%d-%d", span.Begin, span.End))
			}
			out[item.Name()] = "[" + strings.Join(spans, ", ") + "]"
		}
	}
	return out
}

// jsonOf is a message in Mesos' JSON, within a page.
func jsonOf(m any) json.RawMessage {
	data, err := json.Marshal(m)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

func agentPage(a core.AgentView) page {
	attributes := page{}
	for _, one := range a.Info.Attributes {
		switch {
		case one.Text != nil:
			attributes[one.Name] = one.Text.Value
		case one.Scalar != nil:
			attributes[one.Name] = one.Scalar.Value
		}
	}
	var capabilities []string
	for _, c := range a.Capabilities {
		capabilities = append(capabilities, c.Type.String())
	}
	p := page{
		"id": a.Info.ID.Value, "hostname": a.Info.Hostname, "port": a.Info.GetPort(), "pid": a.PID, "version": core.Version, "active": a.Active,
		"deactivated": a.Deactivated, "registered_time": unixTime(a.Registered), "attributes": attributes, "capabilities": capabilities,
		"resources": amounts(a.Total), "used_resources": amounts(a.Used), "offered_resources": amounts(a.Offered),
		"unreserved_resources": amounts(a.Total.Only(func(i resources.Item) bool { return i.Role() == resources.Unreserved })),
	}
	if a.Drain != nil {
		p["drain_info"], p["estimated_drain_start_time_seconds"] = jsonOf(a.Drain), unixTime(a.DrainStart)
	}
	if a.Info.Domain != nil {
		p["domain"] = jsonOf(a.Info.Domain)
	}
	return p
}

func frameworkPage(f core.FrameworkView) page {
	var capabilities []string
	for _, c := range f.Info.Capabilities {
		capabilities = append(capabilities, c.Type.String())
	}
	executors, offers := []page{}, []page{}
	for _, e := range f.Executors {
		executors = append(executors, page{"executor_id": e.Info.ExecutorID.Value, "name": e.Info.GetName(), "framework_id": f.Info.ID.Value,
			"slave_id": e.Agent, "resources": amounts(resources.Must(e.Info.Resources))})
	}
	for _, o := range f.Offers {
		offers = append(offers, page{"id": o.ID, "framework_id": f.Info.ID.Value, "slave_id": o.Agent, "resources": amounts(o.Resources),
			"allocation_info": page{"role": o.Role}})
	}
	p := page{
		"id": f.Info.ID.Value, "name": f.Info.Name, "user": f.Info.User, "hostname": f.Info.GetHostname(), "webui_url": f.Info.GetWebUiURL(),
		"principal": f.Info.GetPrincipal(), "failover_timeout": f.Info.GetFailoverTimeout(), "checkpoint": f.Info.GetCheckpoint(),
		"active": f.Active, "connected": f.Connected, "recovered": f.Recovered, "capabilities": capabilities, "roles": f.Roles,
		"registered_time": unixTime(f.Registered), "unregistered_time": unixTime(f.Unregistered), "executors": executors, "offers": offers,
		"used_resources": amounts(f.Used), "offered_resources": amounts(f.Offered), "resources": amounts(f.Used.Plus(f.Offered)),
		"tasks": taskPages(f.Tasks), "unreachable_tasks": taskPages(f.UnreachableTasks), "completed_tasks": taskPages(f.CompletedTasks),
	}
	if !f.Reregistered.IsZero() {
		p["reregistered_time"] = unixTime(f.Reregistered)
	}
	return p
}

func taskPages(tasks []mesos.Task) []page {
	pages := make([]page, 0, len(tasks))
	for i := range tasks {
		t := &tasks[i]
		statuses := []page{}
		for k := range t.Statuses {
			statuses = append(statuses, statusPage(&t.Statuses[k]))
		}
		executor := ""
		if t.ExecutorID != nil {
			executor = t.ExecutorID.Value
		}
		p := page{
			"id": t.TaskID.Value, "name": t.Name, "framework_id": t.FrameworkID.Value, "executor_id": executor, "slave_id": t.AgentID.Value,
			"state": t.GetState().String(), "resources": amounts(resources.Must(t.Resources)), "role": resources.Unreserved, "statuses": statuses,
			"user": t.GetUser(),
		}
		if len(t.Resources) > 0 && t.Resources[0].AllocationInfo != nil {
			p["role"] = t.Resources[0].AllocationInfo.GetRole()
		}
		if t.Labels != nil {
			p["labels"] = labelPages(t.Labels)
		}
		if t.Discovery != nil {
			p["discovery"] = jsonOf(t.Discovery)
		}
		if t.Container != nil {
			p["container"] = jsonOf(t.Container)
		}
		pages = append(pages, p)
	}
	return pages
}

func labelPages(l *mesos.Labels) []page {
	pages := []page{}
	for _, one := range l.Labels {
		p := page{"key": one.Key}
		if one.Value != nil {
			p["value"] = *one.Value
		}
		pages = append(pages, p)
	}
	return pages
}

func statusPage(status *mesos.TaskStatus) page {
	p := page{"state": status.GetState().String(), "timestamp": status.GetTimestamp()}
	if status.Labels != nil {
		p["labels"] = labelPages(status.Labels)
	}
	if status.ContainerStatus != nil {
		p["container_status"] = jsonOf(status.ContainerStatus)
	}
	if status.Healthy != nil {
		p["healthy"] = *status.Healthy
	}
	return p
}

package mesossim

import (
	"net/http"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	agentcall "github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"github.com/mesopod/mesopod/internal/mesossim/core"
	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

// handler is what an agent with real executors answers, with the id of its process in the path or without.
func (a *agentShell) handler() http.Handler {
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/slave(1)"} {
		mux.HandleFunc(prefix+"/api/v1/executor", a.serveExecutor)
		mux.HandleFunc(prefix+"/api/v1", func(w http.ResponseWriter, r *http.Request) { a.sim.serveAgentOperator(w, r, a.cfg.Name) })
		mux.HandleFunc("GET "+prefix+"/state", func(w http.ResponseWriter, r *http.Request) { a.sim.serveAgentState(w, r, a.cfg.Name) })
		mux.HandleFunc("GET "+prefix+"/flags", serveFlags)
		mux.HandleFunc("GET "+prefix+"/health", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("GET "+prefix+"/monitor/statistics", func(w http.ResponseWriter, r *http.Request) { answerJSON(w, r, []page{}) })
	}
	mux.HandleFunc("GET /files/browse", a.serveBrowse)
	mux.HandleFunc("GET /files/read", a.serveRead)
	mux.HandleFunc("GET /files/download", a.serveDownload)
	mux.HandleFunc("GET /metrics/snapshot", func(w http.ResponseWriter, r *http.Request) { answerJSON(w, r, page{"slave/registered": 1.0}) })
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, r *http.Request) { answerJSON(w, r, page{"version": core.Version}) })
	return mux
}

// serveFlags tells the isolators, which decide whether a scheduler may use task limits.
func serveFlags(w http.ResponseWriter, r *http.Request) {
	answerJSON(w, r, page{"flags": page{"isolation": "posix/cpu,posix/mem", "launcher": "posix"}})
}

// serveScripted answers for an agent without processes.
func (s *Sim) serveScripted(w http.ResponseWriter, r *http.Request) {
	process, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	name := "sim" + strings.TrimSuffix(strings.TrimPrefix(process, "slave("), ")")
	switch rest {
	case "flags":
		serveFlags(w, r)
	case "state":
		s.serveAgentState(w, r, name)
	case "api/v1":
		s.serveAgentOperator(w, r, name)
	default:
		http.NotFound(w, r)
	}
}

func (a *agentShell) link() string { return ExecutorLink + ":" + a.cfg.Name }

func (a *agentShell) serveExecutor(w http.ResponseWriter, r *http.Request) {
	s, name := a.sim, a.cfg.Name
	var call executor.Call
	if refused := readCall(r, &call); refused != nil {
		answerRefusal(w, refused)
		return
	}
	times, answered := s.onCall(w, r, a.link(), call.Type.String())
	if answered {
		return
	}
	s.mu.Lock()
	refused := s.core.RefuseExecutor(name, &call)
	s.mu.Unlock()
	encoding, unacceptable := accepted(r)
	if refused == nil && call.Type == executor.Call_SUBSCRIBE {
		refused = unacceptable
	}
	switch {
	case refused != nil:
		answerRefusal(w, refused)
	case call.Type == executor.Call_SUBSCRIBE:
		one := s.open(a.link(), encoding)
		defer s.gone(one, func(now time.Time) []core.Effect { return s.core.ExecutorGone(now, name, one.id) })
		s.do(func(now time.Time) []core.Effect { return s.core.ExecutorSubscribe(now, name, one.id, &call) })
		one.serve(w, r)
	default:
		for range times {
			s.do(func(now time.Time) []core.Effect { return s.core.ExecutorCall(now, name, &call) })
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *Sim) viewAgent(name string) (core.OwnView, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.ViewAgent(name)
}

func (s *Sim) serveAgentState(w http.ResponseWriter, r *http.Request, name string) {
	v, known := s.viewAgent(name)
	if !known {
		http.NotFound(w, r)
		return
	}
	frameworks := []page{}
	for _, f := range v.Frameworks {
		executors, completed := []page{}, []page{}
		for _, e := range f.Executors {
			p := page{"id": e.Info.ExecutorID.Value, "name": e.Info.GetName(), "source": e.Info.GetSource(), "container": e.Container,
				"directory": s.sandbox(name, v.ID, f.Info.ID.Value, e.Info.ExecutorID.Value, e.Container),
				"resources": amounts(resources.Must(e.Info.Resources)), "tasks": taskPages(e.Tasks), "queued_tasks": taskPages(e.Queued),
				"completed_tasks": []page{}}
			if e.Ended {
				completed = append(completed, p)
			} else {
				executors = append(executors, p)
			}
		}
		frameworks = append(frameworks, page{"id": f.Info.ID.Value, "name": f.Info.Name, "user": f.Info.User, "executors": executors, "completed_executors": completed})
	}
	answerJSON(w, r, page{
		"version": core.Version, "id": v.ID, "pid": v.Config.Process + "@" + v.Config.Address, "hostname": v.Config.Hostname, "master_hostname": s.Master(),
		"flags": page{"isolation": "posix/cpu,posix/mem"}, "resources": amounts(v.Config.Resources), "frameworks": frameworks, "completed_frameworks": []page{},
	})
}

// sandbox is the folder of a container; empty where there is none.
func (s *Sim) sandbox(name, agentID, framework, executorID, container string) string {
	if a := s.agents[name]; a != nil && container != "" {
		return a.sandbox(agentID, framework, executorID, container)
	}
	return ""
}

func (s *Sim) serveAgentOperator(w http.ResponseWriter, r *http.Request, name string) {
	var call agentcall.Call
	if refused := readCall(r, &call); refused != nil {
		answerRefusal(w, refused)
		return
	}
	encoding, refused := accepted(r)
	if refused != nil {
		answerRefusal(w, refused)
		return
	}
	answer := s.agentQuestion(&call, name)
	if answer == nil {
		answerRefusal(w, &core.Refusal{Code: http.StatusNotImplemented, Text: "Call " + call.Type.String() + " is not simulated"})
		return
	}
	data, err := encoding.encode(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(encoding))
	_, _ = w.Write(data) // who asked may have gone
}

func (s *Sim) agentQuestion(call *agentcall.Call, name string) *agentcall.Response {
	v, known := s.viewAgent(name)
	if !known {
		return nil
	}
	switch call.Type {
	case agentcall.Call_GET_HEALTH:
		return &agentcall.Response{Type: agentcall.Response_GET_HEALTH, GetHealth: &agentcall.Response_GetHealth{Healthy: v.Up}}
	case agentcall.Call_GET_VERSION:
		return &agentcall.Response{Type: agentcall.Response_GET_VERSION, GetVersion: &agentcall.Response_GetVersion{VersionInfo: mesos.VersionInfo{Version: core.Version}}}
	case agentcall.Call_GET_TASKS:
		tasks := &agentcall.Response_GetTasks{}
		for _, f := range v.Frameworks {
			for _, e := range f.Executors {
				tasks.LaunchedTasks = append(tasks.LaunchedTasks, e.Tasks...)
				tasks.QueuedTasks = append(tasks.QueuedTasks, e.Queued...)
			}
		}
		return &agentcall.Response{Type: agentcall.Response_GET_TASKS, GetTasks: tasks}
	}
	return nil
}

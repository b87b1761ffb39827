package mesossim

import (
	"net/http"
	"strings"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/constraints"
	"github.com/mesopod/mesopod/internal/mesossim/core"
)

// masterHandler is what one of the masters answers.
func (s *Sim) masterHandler(n int) http.Handler {
	led := http.NewServeMux()
	for _, prefix := range []string{"", "/master"} {
		led.HandleFunc(prefix+"/api/v1/scheduler", s.serveScheduler)
		led.HandleFunc(prefix+"/api/v1", s.serveOperator)
		led.HandleFunc("GET "+prefix+"/state", s.serveState)
		led.HandleFunc("GET "+prefix+"/state-summary", s.serveState)
		led.HandleFunc("GET "+prefix+"/tasks", s.serveTasks)
		led.HandleFunc("GET "+prefix+"/frameworks", s.serveState)
		led.HandleFunc("GET "+prefix+"/slaves", s.serveState)
		led.HandleFunc("POST "+prefix+"/teardown", s.serveTeardown)
	}
	led.HandleFunc("GET /registrar(1)/registry", s.serveRegistry)
	all := http.NewServeMux()
	all.HandleFunc("/sim/", s.serveAdmin)
	all.HandleFunc("GET /version", func(w http.ResponseWriter, r *http.Request) {
		answerJSON(w, r, map[string]string{"version": core.Version, "build_user": "mesossim"})
	})
	for _, path := range []string{"/health", "/master/health"} {
		all.HandleFunc("GET "+path, func(http.ResponseWriter, *http.Request) {})
	}
	all.HandleFunc("GET /metrics/snapshot", s.serveMetrics)
	for _, path := range []string{"/redirect", "/master/redirect"} {
		all.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "//"+s.Master())
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
	}
	all.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		leader, lives := int(s.leader.Load()), s.core.Leads()
		s.mu.Unlock()
		switch {
		case strings.HasPrefix(r.URL.Path, "/slave("):
			s.serveScripted(w, r)
		case leader == n && lives:
			led.ServeHTTP(w, r)
		case leader == n:
			// Its process is dead.
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Location", "//"+s.MasterAt(leader)+r.URL.RequestURI())
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	return all
}

func (s *Sim) serveScheduler(w http.ResponseWriter, r *http.Request) {
	var call scheduler.Call
	body, refused := readBody(r, &call)
	if refused != nil {
		answerRefusal(w, refused)
		return
	}
	times, answered := s.onCall(w, r, SchedulerLink, call.Type.String())
	if answered {
		return
	}
	id := r.Header.Get(streamHeader)
	s.mu.Lock()
	refused = s.core.Refuse(&call, id)
	s.mu.Unlock()
	wanted, err := readConstraints(r, call.Type, body)
	if refused == nil && err != nil {
		refused = &core.Refusal{Code: http.StatusBadRequest, Text: "Invalid offer constraints: " + err.Error()}
	}
	encoding := codec("")
	if refused == nil {
		encoding, refused = accepted(r)
	}
	if refused != nil && (refused.Code != http.StatusNotAcceptable || call.Type == scheduler.Call_SUBSCRIBE) {
		answerRefusal(w, refused)
		return
	}
	if call.Type == scheduler.Call_SUBSCRIBE {
		s.subscribe(w, r, encoding, &call, wanted)
		return
	}
	for range times {
		s.do(func(now time.Time) (effects []core.Effect) {
			effects, refused = s.core.Call(now, &call, wanted)
			return effects
		})
	}
	switch {
	case refused != nil && refused.Code != http.StatusNotAcceptable:
		answerRefusal(w, refused)
	case call.Type == scheduler.Call_UPDATE_FRAMEWORK:
		w.WriteHeader(http.StatusOK)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *Sim) subscribe(w http.ResponseWriter, r *http.Request, encoding codec, call *scheduler.Call, wanted constraints.Set) {
	one := s.open(SchedulerLink, encoding)
	w.Header().Set(streamHeader, one.id)
	defer s.gone(one, func(now time.Time) []core.Effect { return s.core.SchedulerGone(now, one.id) })
	s.do(func(now time.Time) []core.Effect { return s.core.Subscribe(now, one.id, call, wanted) })
	one.serve(w, r)
}

// StopMaster ends the leading master: its connections break.
func (s *Sim) StopMaster() {
	s.do(s.core.StopMaster)
}

// StartMaster makes one of the masters the leader. With keepRegistry it knows the agents that were there.
func (s *Sim) StartMaster(n int, keepRegistry bool) {
	s.do(func(now time.Time) []core.Effect {
		s.leader.Store(int32(n))
		return s.core.StartMaster(now, keepRegistry)
	})
}

// CutAgent cuts the link between an agent and the master without a sign, or mends it.
func (s *Sim) CutAgent(name string, cut bool) {
	s.do(func(now time.Time) []core.Effect { return s.core.CutAgent(now, name, cut) })
}

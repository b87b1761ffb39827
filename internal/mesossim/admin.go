package mesossim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// serveAdmin orders faults at run time:
//
//	GET    /sim/faults            those in force
//	POST   /sim/faults            a Fault in JSON; the answer has its id
//	DELETE /sim/faults[/ID]       one of them, or all
//	POST   /sim/master            {"action": "stop"}, or {"action": "start", "leader": 0, "keep_registry": true}
//	POST   /sim/agents/NAME       {"action": "stop" | "start" | "cut" | "mend"}
func (s *Sim) serveAdmin(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, "/sim/"), "/"), "/")
	last := parts[len(parts)-1]
	switch what := r.Method + " " + parts[0]; {
	case what == "GET faults":
		answerJSON(w, r, s.Faults())
	case what == "POST faults":
		var f Fault
		if !readAdmin(w, r, &f) {
			return
		}
		id, err := s.Inject(f)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answerJSON(w, r, page{"id": id})
	case what == "DELETE faults" && len(parts) == 1:
		s.Heal("")
		answerJSON(w, r, page{})
	case what == "DELETE faults":
		s.Heal(last)
		answerJSON(w, r, page{})
	case what == "POST master":
		s.adminMaster(w, r)
	case what == "POST agents" && len(parts) == 2:
		s.adminAgent(w, r, last)
	default:
		http.NotFound(w, r)
	}
}

func readAdmin(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func (s *Sim) adminMaster(w http.ResponseWriter, r *http.Request) {
	var order struct {
		Action       string `json:"action"`
		Leader       int    `json:"leader"`
		KeepRegistry bool   `json:"keep_registry"`
	}
	if !readAdmin(w, r, &order) {
		return
	}
	switch {
	case order.Action == "stop":
		s.StopMaster()
	case order.Action == "start" && order.Leader >= 0 && order.Leader < len(s.listeners):
		s.StartMaster(order.Leader, order.KeepRegistry)
	default:
		http.Error(w, fmt.Sprintf("want stop, or start with a leader of 0 to %d", len(s.listeners)-1), http.StatusBadRequest)
		return
	}
	answerJSON(w, r, page{})
}

func (s *Sim) adminAgent(w http.ResponseWriter, r *http.Request, name string) {
	var order struct {
		Action string `json:"action"`
	}
	if !readAdmin(w, r, &order) {
		return
	}
	if _, known := s.viewAgent(name); !known {
		http.NotFound(w, r)
		return
	}
	var err error
	switch order.Action {
	case "stop":
		err = s.StopAgent(name)
	case "start":
		err = s.StartAgent(name)
	case "cut":
		s.CutAgent(name, true)
	case "mend":
		s.CutAgent(name, false)
	default:
		err = fmt.Errorf("action %q is none of stop, start, cut, mend", order.Action)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answerJSON(w, r, page{})
}

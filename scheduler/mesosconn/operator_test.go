package mesosconn

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// operatorAt answers calls of the operator API.
func operatorAt(t *testing.T, answer func(http.ResponseWriter, *master.Call)) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call master.Call
		body, err := io.ReadAll(r.Body)
		if err != nil || call.Unmarshal(body) != nil || r.URL.Path != operatorPath {
			http.Error(w, "malformed", http.StatusBadRequest)
			return
		}
		answer(w, &call)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func newOperator(t *testing.T, masters ...string) *Operator {
	o, err := NewOperator(Config{Master: strings.Join(masters, ",")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

// A dead master is passed over and a redirect followed; the leader's word counts, whatever it is.
func TestOperatorFindsTheLeader(t *testing.T) {
	var got master.Call
	leader := operatorAt(t, func(w http.ResponseWriter, call *master.Call) { got = *call; w.WriteHeader(http.StatusAccepted) })
	follower := operatorAt(t, func(w http.ResponseWriter, _ *master.Call) {
		w.Header().Set("Location", "//"+leader+operatorPath)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	o := newOperator(t, "127.0.0.1:1", follower)
	if err := o.Teardown(t.Context(), "F1"); err != nil || got.Type != master.Call_TEARDOWN || got.Teardown.FrameworkID.Value != "F1" {
		t.Errorf("teardown: %v, call %v", err, got)
	}
	if err := o.Drain(t.Context(), "A1", 90*time.Second); err != nil || got.DrainAgent.AgentID.Value != "A1" || got.DrainAgent.MaxGracePeriod.Seconds != 90 {
		t.Errorf("drain: %v, call %v", err, got)
	}
	if err := o.Reactivate(t.Context(), "A1"); err != nil || got.ReactivateAgent.AgentID.Value != "A1" {
		t.Errorf("reactivate: %v, call %v", err, got)
	}
	no := operatorAt(t, func(w http.ResponseWriter, _ *master.Call) { http.Error(w, "not you", http.StatusForbidden) })
	if err := newOperator(t, no, leader).Teardown(t.Context(), "F1"); !errors.Is(err, errdefs.ErrRefused) || !strings.Contains(err.Error(), "not you") {
		t.Errorf("got %v, want what the master refused", err)
	}
	if err := newOperator(t, "127.0.0.1:1").Teardown(t.Context(), "F1"); !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestDrained(t *testing.T) {
	agent := func(id string, drain *mesos.DrainInfo) master.Response_GetAgents_Agent {
		return master.Response_GetAgents_Agent{AgentInfo: mesos.AgentInfo{ID: &mesos.AgentID{Value: id}}, DrainInfo: drain}
	}
	at := operatorAt(t, func(w http.ResponseWriter, _ *master.Call) {
		data, err := (&master.Response{Type: master.Response_GET_AGENTS, GetAgents: &master.Response_GetAgents{Agents: []master.Response_GetAgents_Agent{
			agent("active", nil), agent("draining", &mesos.DrainInfo{State: mesos.DrainState_DRAINING}), agent("drained", &mesos.DrainInfo{State: mesos.DrainState_DRAINED}),
		}}}).Marshal()
		if err != nil {
			panic(err)
		}
		_, _ = w.Write(data) // a client that went away is the test's own doing
	})
	o := newOperator(t, at)
	for id, want := range map[string]error{"active": errdefs.ErrConflict, "gone": errdefs.ErrNotFound, "draining": nil, "drained": nil} {
		drained, err := o.Drained(t.Context(), id)
		if !errors.Is(err, want) || drained != (id == "drained") {
			t.Errorf("agent %s: drained %t, %v", id, drained, err)
		}
	}
}

// A master that authenticates operators gets principal and secret, also by way of a follower; without them it refuses.
func TestOperatorAuthenticates(t *testing.T) {
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, secret, _ := r.BasicAuth(); user != "ops" || secret != "s3cret" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(leader.Close)
	follower := operatorAt(t, func(w http.ResponseWriter, _ *master.Call) {
		w.Header().Set("Location", "//"+strings.TrimPrefix(leader.URL, "http://")+operatorPath)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	o, err := NewOperator(Config{Master: follower, Framework: Framework{Principal: "ops"}, SecretFile: secretFile(t, "s3cret\n")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	if err := o.Teardown(t.Context(), "F1"); err != nil {
		t.Errorf("teardown: %v", err)
	}
	if err := newOperator(t, follower).Teardown(t.Context(), "F1"); !errors.Is(err, errdefs.ErrRefused) {
		t.Errorf("without credentials: %v, want refused", err)
	}
	if _, err := NewOperator(Config{Master: follower, SecretFile: secretFile(t, "s3cret")}); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("a secret without a principal: %v, want invalid", err)
	}
}

package agentconn

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/ledger"
)

// What matters about an agent is read from its own words; an agent that does not tell is an error, not a guess.
func TestAbout(t *testing.T) {
	for name, c := range map[string]struct {
		state string
		want  About
		fails bool
	}{
		"quotas":        {`{"version":"1.11.0","flags":{"cgroups_enable_cfs":"true","isolation":"cgroups/cpu,cgroups/mem"}}`, About{true, true}, false},
		"all isolators": {`{"version":"2.0.0-rc1","flags":{"cgroups_enable_cfs":"false","isolation":"cgroups/all"}}`, About{true, true}, false},
		"by limits":     {`{"version":"1.10.0","flags":{"cgroups_enable_cfs":"false","isolation":"cgroups/cpu,cgroups/mem"}}`, About{true, true}, false},
		"posix":         {`{"version":"1.11.0","flags":{"cgroups_enable_cfs":"true","isolation":"posix/cpu,posix/mem"}}`, About{false, true}, false},
		"old":           {`{"version":"1.9.0","flags":{"cgroups_enable_cfs":"true","isolation":"cgroups/cpu"}}`, About{true, false}, false},
		"old, switched": {`{"version":"1.9.0","flags":{"isolation":"cgroups/cpu"}}`, About{false, false}, false},
		"no version":    {`{"version":"unreleased","flags":{"isolation":"posix/cpu"}}`, About{}, false},
		"no flags":      {`{"version":"1.11.0"}`, About{}, true},
		"secretive":     {``, About{}, true},
		"no agent":      {`<html>`, About{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/slave(1)/state" || c.state == "" {
					w.WriteHeader(http.StatusUnauthorized)
				}
				_, _ = w.Write([]byte(c.state))
			}))
			defer server.Close()
			conn, err := New(Config{URL: server.URL + "/slave(1)/api/v1/executor", FrameworkID: "fw", ExecutorID: "ex", AgentID: "S0"}, Deps{
				Subscribed: func(context.Context, Agent) {}, Post: func(context.Context, core.Event) {},
				Unacknowledged: func(context.Context) ([]string, []ledger.Update) { return nil, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.pages.CloseIdleConnections()
			got, err := conn.About(t.Context())
			if (err != nil) != c.fails || got != c.want {
				t.Errorf("About = %+v, %v, want %+v, error %t", got, err, c.want, c.fails)
			}
		})
	}
}

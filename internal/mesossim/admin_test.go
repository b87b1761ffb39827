package mesossim

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mesopod/mesopod/internal/mesossim/core"
)

func TestMain(m *testing.M) {
	// glog starts its flusher at import and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// client keeps no connections, so that none is left when the test ends.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func startSim(t *testing.T, cfg Config) *Sim {
	t.Helper()
	sim, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sim.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return sim
}

// ask makes a request and gives the status, 0 for a connection that broke, and the answer.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// TestAdmin: faults are ordered, shown and healed over HTTP, masters and agents stopped and started; what is wrong is refused.
func TestAdmin(t *testing.T) {
	sim := startSim(t, Config{Masters: []string{"127.0.0.1:0", "127.0.0.1:0"}, Scripted: 1, Timing: core.Config{AgentTimeout: 50 * time.Millisecond}})
	url := func(master int, path string) string { return "http://" + sim.MasterAt(master) + path }
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/sim/faults", `{"link":"scheduler","kind":"drop","id":"x"}`, 200},
		{"POST", "/sim/faults", `{"link":"scheduler","kind":"strange"}`, 400},
		{"POST", "/sim/faults", `{`, 400},
		{"POST", "/sim/faults", `{"link":"scheduler","kind":"delay","delay":"soon"}`, 400},
		{"GET", "/sim/nothing", ``, 404},
		{"POST", "/sim/master", `{"action":"start","leader":7}`, 400},
		{"POST", "/sim/master", `{"action":"dance"}`, 400},
		{"POST", "/sim/agents/nobody", `{"action":"cut"}`, 404},
		{"POST", "/sim/agents/sim1", `{"action":"dance"}`, 400},
	} {
		if code, text := ask(t, c.method, url(0, c.path), c.body); code != c.want {
			t.Errorf("%s %s %s: %d %s, want %d", c.method, c.path, c.body, code, text, c.want)
		}
	}
	var shown []Fault
	_, text := ask(t, "GET", url(0, "/sim/faults"), "")
	if err := json.Unmarshal([]byte(text), &shown); err != nil || len(shown) != 1 || shown[0].ID != "x" || shown[0].Kind != Drop {
		t.Errorf("faults %s: %v", text, err)
	}
	for _, path := range []string{"/sim/faults/x", "/sim/faults"} {
		if code, _ := ask(t, "DELETE", url(0, path), ""); code != 200 || len(sim.Faults()) != 0 {
			t.Errorf("DELETE %s: %d, left %v", path, code, sim.Faults())
		}
	}
	// The second master redirects, takes over when it is told to, and the first redirects then.
	if code, _ := ask(t, "GET", url(1, "/master/state"), ""); code != 307 {
		t.Errorf("the other master answers %d", code)
	}
	ask(t, "POST", url(0, "/sim/master"), `{"action":"stop"}`)
	if code, _ := ask(t, "GET", url(0, "/master/state"), ""); code != 0 {
		t.Errorf("the dead master answers %d", code)
	}
	ask(t, "POST", url(1, "/sim/master"), `{"action":"start","leader":1,"keep_registry":true}`)
	for master, want := range []int{307, 200} {
		if code, _ := ask(t, "GET", url(master, "/master/state"), ""); code != want {
			t.Errorf("master %d answers %d, want %d", master, code, want)
		}
	}
	agents := func(n int) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for end := time.After(10 * time.Second); len(sim.view(false).Agents) != n; {
			select {
			case <-tick.C:
			case <-end:
				t.Fatalf("%d agents, want %d", len(sim.view(false).Agents), n)
			}
		}
	}
	agents(1)
	ask(t, "POST", url(1, "/sim/agents/sim1"), `{"action":"cut"}`)
	agents(0)
	ask(t, "POST", url(1, "/sim/agents/sim1"), `{"action":"mend"}`)
	agents(1)
}

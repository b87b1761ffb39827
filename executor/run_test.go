package executor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/executor/store"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
`

func newExecutor(t *testing.T, handler http.HandlerFunc, change func(*Env)) *Executor {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	config, err := parse(t, goodConfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	config.KubeletKubeconfig = config.Kubeconfig
	if err := os.WriteFile(config.Kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	env, err := envFrom(lookup(agentEnv()))
	if err != nil {
		t.Fatal(err)
	}
	config.StateDir, env.StateFile = t.TempDir(), filepath.Join(t.TempDir(), "state")
	env.AgentURL = server.URL + "/slave(1)/api/v1/executor"
	if change != nil {
		change(&env)
	}
	e, err := New(config, env)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func run(t *testing.T, ctx context.Context, e *Executor) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the executor does not end")
		return nil
	}
}

// An agent without work for us says SHUTDOWN in place of SUBSCRIBED: a clean end, with nothing started.
func TestShutdownBeforeSubscribed(t *testing.T) {
	e := newExecutor(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := (&executor.Event{Type: executor.Event_SHUTDOWN}).Marshal()
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(append([]byte(strconv.Itoa(len(body))+"\n"), body...)) // the executor may be gone
	}, nil)
	if err := run(t, t.Context(), e); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A signal ends an executor that the agent keeps waiting, too.
func TestSignalBeforeSubscribed(t *testing.T) {
	asked := make(chan struct{}, 100)
	e := newExecutor(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		w.WriteHeader(http.StatusServiceUnavailable)
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if err := run(t, ctx, e); err != nil {
		t.Errorf("Run: %v", err)
	}
	if text, err := os.ReadFile(e.env.StateFile); err != nil || string(text) != e.config.StateDir+"\n" {
		t.Errorf("the keeper is told the state folder %q, error %v", text, err)
	}
}

// EX-120 over a restart: what an earlier executor of the container knew goes along with the first SUBSCRIBE; that of
// another container does not.
func TestSubscribesWithLedger(t *testing.T) {
	for container, tasks := range map[string]int{"c1": 1, "c0": 0} {
		subscribed := make(chan *executor.Call_Subscribe, 100)
		e := newExecutor(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			var call executor.Call
			if err = errors.Join(err, call.Unmarshal(body)); err != nil {
				t.Error(err)
			}
			subscribed <- call.Subscribe
			w.WriteHeader(http.StatusServiceUnavailable)
		}, nil)
		before, known, err := store.Open(filepath.Join(e.config.StateDir, "ledger"), ledger.Owner{
			Framework: "fw", Agent: "S0", Executor: "ex", Container: container})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(known.AcceptTask("u.1"), known.Record(ledger.Update{TaskID: "u.1", UUID: make([]byte, ledger.UUIDBytes), State: mesos.TASK_STARTING}),
			before.Append(known.Journal()), before.Close()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var first *executor.Call_Subscribe
		go func() { first = <-subscribed; cancel() }()
		if err := run(t, ctx, e); err != nil {
			t.Errorf("Run: %v", err)
		}
		if len(first.UnacknowledgedTasks) != tasks || len(first.UnacknowledgedUpdates) != tasks {
			t.Errorf("a ledger of container %s: subscribes with %v", container, first)
		}
	}
}

// An agent that does not know us makes the end a failure.
func TestRefusedBeforeSubscribed(t *testing.T) {
	e := newExecutor(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadRequest) }, nil)
	var exit *ExitError
	if err := run(t, t.Context(), e); !errors.As(err, &exit) || exit.Code != agentLostCode {
		t.Errorf("Run: %v", err)
	}
}

package executor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
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
	config, err := parse([]byte(goodConfig))
	if err != nil {
		t.Fatal(err)
	}
	config.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config.Kubeconfig, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	env, err := envFrom(lookup(agentEnv()))
	if err != nil {
		t.Fatal(err)
	}
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
}

// An agent that does not know us makes the end a failure.
func TestRefusedBeforeSubscribed(t *testing.T) {
	e := newExecutor(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadRequest) }, nil)
	var exit *ExitError
	if err := run(t, t.Context(), e); !errors.As(err, &exit) || exit.Code != 1 {
		t.Errorf("Run: %v", err)
	}
}

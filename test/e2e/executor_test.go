package e2e

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"sigs.k8s.io/yaml"
)

// scriptedAgent is the agent's side of the executor API, as much of it as one executor needs.
type scriptedAgent struct {
	listener   net.Listener
	server     *http.Server
	subscribed chan *executor.Call
	updates    chan *executor.Call
	events     chan *executor.Event
}

func newScriptedAgent(t *testing.T) *scriptedAgent {
	t.Helper()
	// On the bridge, where an executor in the agent's namespace reaches it.
	listener, err := net.Listen("tcp", "10.89.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &scriptedAgent{
		listener: listener, subscribed: make(chan *executor.Call, 10), updates: make(chan *executor.Call, 100),
		events: make(chan *executor.Event),
	}
	a.server = &http.Server{Handler: a}
	go func() { _ = a.server.Serve(listener) }() // ends with Close
	t.Cleanup(a.leave)
	return a
}

// leave ends the agent with its connections, as a kill does. Executors that ask for it are refused from then on.
func (a *scriptedAgent) leave() { _ = a.server.Close() } // its connections may be open

func (a *scriptedAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var call executor.Call
	if err == nil {
		err = call.Unmarshal(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if call.Type != executor.Call_SUBSCRIBE {
		a.updates <- &call
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	a.subscribed <- &call
	for {
		select {
		case <-r.Context().Done():
			return
		case event := <-a.events:
			data, err := event.Marshal()
			if err != nil {
				return
			}
			// A client that went away ends the stream at the next turn.
			_, _ = w.Write(append([]byte(strconv.Itoa(len(data))+"\n"), data...))
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func scalar(name string, value float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
}

// next waits for what comes out of a channel.
func next[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(defaultLimit):
		t.Fatalf("no %s within %s", what, defaultLimit)
		panic("unreachable")
	}
}

// The executor refuses tasks that it cannot read, each with its own words, though it reaches no API server: EX-3, EX-8.
// A real master would never send these, so the agent is a script.
func TestExecutorRefusesBadTasks(t *testing.T) {
	t.Parallel()
	agent := newScriptedAgent(t)
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, nowhere, `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":"https://10.89.0.1:1"}}],"users":[{"name":"c","user":{"token":"t"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`)
	executorProcess := scriptedExecutor{name: "scripted", kubeconfig: nowhere, podCIDR: "10.89.200.0/24", bridge: "mpod9", port: 10299, grace: "20secs"}.start(t, agent)
	next(t, "subscription", agent.subscribed)
	agent.events <- subscribedAs("scripted")
	for _, c := range []struct {
		id, data string
		state    mesos.TaskState
		message  string
	}{
		{"junk", "this is no envelope", mesos.TASK_FAILED, "unmarshal-task-data-failure"},
		{"empty", "", mesos.TASK_ERROR, "unmarshal-task-data-failure"},
		{"future", `{"version":99,"taskID":"future","node":"scripted"}`, mesos.TASK_ERROR, "version 99"},
	} {
		agent.events <- &executor.Event{Type: executor.Event_LAUNCH, Launch: &executor.Event_Launch{Task: mesos.TaskInfo{
			Name: c.id, TaskID: mesos.TaskID{Value: c.id}, AgentID: mesos.AgentID{Value: "scripted-S0"}, Data: []byte(c.data)}}}
		for {
			call := next(t, "update for task "+c.id, agent.updates)
			if call.Type != executor.Call_UPDATE {
				continue
			}
			got := call.Update.Status
			if got.TaskID.Value != c.id || got.GetState() != c.state || !strings.Contains(got.GetMessage(), c.message) {
				t.Errorf("task %s is answered with task=%s state=%s message=%q, want %s and %q",
					c.id, got.TaskID.Value, got.GetState(), got.GetMessage(), c.state, c.message)
			}
			agent.events <- &executor.Event{Type: executor.Event_ACKNOWLEDGED, Acknowledged: &executor.Event_Acknowledged{
				TaskID: got.TaskID, UUID: got.UUID}}
			break
		}
	}
	agent.events <- &executor.Event{Type: executor.Event_SHUTDOWN}
	if err := next(t, "end of the executor", executorProcess); err != nil {
		t.Errorf("the executor ended with %v after SHUTDOWN", err)
	}
}

// scriptedExecutor is an executor beside the real ones.
type scriptedExecutor struct {
	name            string // of its Mesos container; the cgroup and the sandbox are called local-NAME
	kubeconfig      string
	podCIDR, bridge string
	port            int
	grace           string // for its end, in Mesos' notation
	launchGrace     string // in Go's notation; empty: as by default
	noCheckpoint    bool   // of the framework
	recovery        string // the agent's recovery timeout, in Mesos' notation; empty: 15mins
}

// start starts keeper and executor as the agent would: in the first agent's network namespace, with another cgroup, port
// and folder. The channel gets the keeper's end.
func (x scriptedExecutor) start(t *testing.T, agent *scriptedAgent) <-chan error {
	t.Helper()
	dir, err := os.MkdirTemp(stateDir, "x")
	if err != nil {
		t.Fatal(err)
	}
	pki := filepath.Join(stateDir, "control", "pki")
	document := map[string]any{
		"apiVersion": "mesopod.io/v1alpha1", "kind": "ExecutorConfig",
		"kubeconfig": x.kubeconfig, "kubeletKubeconfig": x.kubeconfig, "clientCAFile": filepath.Join(pki, "ca.crt"),
		"bundleDir": bundleDir, "stateDir": dir + "/s", "podCIDR": x.podCIDR, "bridge": x.bridge,
		"nodeIP": "10.89.0.11", "kubeletPort": x.port, "executorResources": map[string]any{"cpus": 0.5, "mem": 256},
	}
	if x.launchGrace != "" {
		document["launchGracePeriod"] = x.launchGrace
	}
	config, err := yaml.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	file, sandbox := filepath.Join(dir, "executor.yaml"), filepath.Join(dir, "local-"+x.name)
	write(t, file, string(config))
	if err := os.Mkdir(sandbox, 0o700); err != nil {
		t.Fatal(err)
	}
	// Mesos would make these four, named after the container as the sandbox is. What is left in a group of such a name is
	// swept with the cluster.
	script := `for h in freezer memory cpu cpuacct; do
  d=/sys/fs/cgroup/$h/mesopod/local-$3
  [ ! -d /sys/fs/cgroup/$h ] || { mkdir -p $d && echo $$ > $d/cgroup.procs; }
done
exec nsenter --net="$2" -- "$0" --bundle-dir="$1"`
	cmd := exec.Command("sh", "-c", script, filepath.Join(bundleDir, "mesopod-keeper"), bundleDir, filepath.Join(stateDir, "netns", "agent1"), x.name)
	log, err := os.Create(filepath.Join(sandbox, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = sandbox, log, log
	address := agent.listener.Addr().String()
	checkpoint := "MESOS_CHECKPOINT=1"
	if x.noCheckpoint {
		checkpoint = "MESOS_CHECKPOINT=0"
	}
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "MESOPOD_EXECUTOR_CONFIG=" + file, "MESOPOD_LOCAL=" + stateDir,
		"MESOS_AGENT_ENDPOINT=" + address, "MESOS_SLAVE_PID=slave(1)@" + address, "MESOS_SLAVE_ID=scripted-S0",
		"MESOS_FRAMEWORK_ID=scripted", "MESOS_EXECUTOR_ID=mesopod-executor", "MESOS_DIRECTORY=" + sandbox, "MESOS_SANDBOX=" + sandbox,
		checkpoint, "MESOS_RECOVERY_TIMEOUT=" + cmp.Or(x.recovery, "15mins"), "MESOS_SUBSCRIPTION_BACKOFF_MAX=2secs",
		"MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD=" + x.grace, "MESOS_HTTP_COMMAND_EXECUTOR=0", "LIBPROCESS_PORT=0",
	}
	// Mesos starts executors in a session of their own.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		ended <- err
		close(ended)
	}()
	t.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err == nil {
			<-ended
		}
		if data, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			lines := strings.Split(string(data), "\n")
			t.Logf("the executor's log ends with:\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
		_ = log.Close() // only read by now
	})
	return ended
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(fmt.Errorf("write %s: %w", path, err))
	}
}

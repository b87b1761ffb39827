package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/internal/errdefs"
)

func good(t *testing.T) Config {
	t.Helper()
	return Config{
		StateDir: "/var/lib/mesopod/test", BundleDir: "/b", MesosDir: "/m", Mesos: "real", Agents: 1,
		Launcher: "linux", Subnet: "10.89.0.0/16", AgentResources: "cpus:4;mem:4096",
	}
}

func TestConfigFaultsAreToldTogether(t *testing.T) {
	cfg := good(t)
	if _, err := cfg.complete(); err != nil {
		t.Fatalf("a good configuration is refused: %v", err)
	}
	cfg.Agents, cfg.Mesos, cfg.Launcher, cfg.Subnet = 21, "zk://a", "docker", "10.89.0.0/20"
	cfg.StateDir = "/" + strings.Repeat("x", maxStateDir)
	_, err := cfg.complete()
	if !errors.Is(err, errdefs.ErrInvalid) {
		t.Fatalf("error = %v, want an invalid one", err)
	}
	for _, word := range []string{"--agents=21", "--mesos=zk://a", "--launcher=docker", "--subnet=10.89.0.0/20", "--state-dir"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not tell about %s:\n%v", word, err)
		}
	}
}

// TestDefaultIsSimulated: without a word Mesos is simulated; agents beyond those that may run pods act them out.
func TestDefaultIsSimulated(t *testing.T) {
	for _, test := range []struct{ agents, asked, real, acted int }{{1, 0, 1, 0}, {3, 1, 1, 2}, {1000, 0, maxAgents, 980}} {
		cfg := good(t)
		cfg.Mesos, cfg.Launcher, cfg.AgentResources = "", "", ""
		cfg.Agents, cfg.RealAgents = test.agents, test.asked
		got, err := cfg.complete()
		if err != nil {
			t.Fatalf("%+v: %v", test, err)
		}
		a, err := plan(got)
		if err != nil {
			t.Fatal(err)
		}
		if !got.simulated() || len(a.agents) != test.real || got.acted() != test.acted {
			t.Errorf("%d agents, %d asked to be real: simulated %v, %d real, %d acted, want %d and %d",
				test.agents, test.asked, got.simulated(), len(a.agents), got.acted(), test.real, test.acted)
		}
	}
}

func TestConfigOneFault(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"no agent":         func(c *Config) { c.Agents = 0 },
		"zookeeper":        func(c *Config) { c.Mesos = "zk://a:2181/mesos" },
		"master no port":   func(c *Config) { c.Mesos = "master" },
		"ipv6 subnet":      func(c *Config) { c.Subnet = "fd00::/16" },
		"wide ipv6":        func(c *Config) { c.Subnet = "::/16" },
		"small agents":     func(c *Config) { c.AgentResources = "cpus:0.2;mem:100" },
		"no subnet":        func(c *Config) { c.Subnet = "" },
		"root folder":      func(c *Config) { c.StateDir = "/" },
		"folder of all":    func(c *Config) { c.StateDir = "/var" },
		"no bundle":        func(c *Config) { c.BundleDir = "" },
		"unknown kind":     func(c *Config) { c.Launcher = "systemd" },
		"negative agents":  func(c *Config) { c.Agents = -1 },
		"many agents":      func(c *Config) { c.Agents = maxAgents + 1 },
		"real of real":     func(c *Config) { c.RealAgents = 1 },
		"too many acted":   func(c *Config) { c.Mesos, c.Launcher, c.Agents = "sim", "", maxActed+1 },
		"more real":        func(c *Config) { c.Mesos, c.Launcher, c.Agents, c.RealAgents = "sim", "", 2, 3 },
		"many real":        func(c *Config) { c.Mesos, c.Launcher, c.Agents, c.RealAgents = "sim", "", 50, maxAgents+1 },
		"address of ours":  func(c *Config) { c.Address = net.IPv4(10, 0, 0, 2) },
		"flag no value":    func(c *Config) { c.AgentFlags = []string{"cgroups_enable_cfs"} },
		"flag in dashes":   func(c *Config) { c.AgentFlags = []string{"--isolation=cgroups/cpu"} },
		"gate of no value": func(c *Config) { c.FeatureGates = []string{"GenericWorkload"} },
		"api of no value":  func(c *Config) { c.RuntimeConfig = []string{"scheduling.k8s.io/v1beta1=yes"} },
		"scheduler flag":   func(c *Config) { c.SchedulerFlags = []string{"--preemption=true"} },
		"flag of ours":     func(c *Config) { c.AgentFlags = []string{"work_dir=/tmp"} },
		"flag outside": func(c *Config) {
			c.Mesos, c.AgentResources, c.AgentFlags = "10.0.0.1:5050", "", []string{"gc_delay=1mins"}
		},
		"their resources": func(c *Config) { c.Mesos = "10.0.0.1:5050" },
		"ranges outside":  func(c *Config) { c.Mesos, c.AgentResources, c.AllocateNodeCIDRs = "10.0.0.1:5050", "", true },
		"agents outside":  func(c *Config) { c.Agents, c.Mesos, c.AgentResources = 2, "10.0.0.1:5050", "" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good(t)
			spoil(&cfg)
			if _, err := cfg.complete(); !errors.Is(err, errdefs.ErrInvalid) {
				t.Errorf("error = %v, want an invalid one", err)
			}
			// It is planned too, so that all faults are told together, and must not panic.
			if _, _, err := prepare(cfg); !errors.Is(err, errdefs.ErrInvalid) {
				t.Errorf("prepare: error = %v, want an invalid one", err)
			}
		})
	}
	for _, master := range []string{"10.0.0.1:5050", "http://master.example:5050/"} {
		cfg := good(t)
		cfg.Mesos, cfg.AgentResources = master, ""
		cfg.Address = net.IPv4(10, 0, 0, 2)
		if _, err := cfg.complete(); err != nil {
			t.Errorf("--mesos=%s is refused: %v", master, err)
		}
	}
}

func TestDefaultsFromTheMachine(t *testing.T) {
	cfg := good(t)
	cfg.AgentResources, cfg.Launcher = "", ""
	got, err := cfg.complete()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.AgentResources, "cpus:") || !strings.Contains(got.AgentResources, ";mem:") {
		t.Errorf("agent resources = %q", got.AgentResources)
	}
	if got.Launcher != "linux" && got.Launcher != "posix" {
		t.Errorf("launcher = %q", got.Launcher)
	}
}

func TestParseMounts(t *testing.T) {
	const info = `22 1 0:20 / /proc rw - proc proc rw
30 1 8:1 /x /state rw shared:1 - ext4 /dev/sda rw
31 30 0:30 / /state/a1/kubelet/pods/u/volumes/t rw - tmpfs tmpfs rw
32 30 0:31 / /state/a1/with\040space rw - overlay overlay rw
33 1 0:32 / /state2/a rw - tmpfs tmpfs rw
34 31 0:33 / /state/a1/kubelet/pods/u/volumes/t/deep rw - tmpfs tmpfs rw
`
	want := []string{"/state/a1/kubelet/pods/u/volumes/t/deep", "/state/a1/with space", "/state/a1/kubelet/pods/u/volumes/t"}
	if diff := cmp.Diff(want, parseMounts(info, "/state")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Folders that were not there before are removed with what a kubelet leaves in them; a file of somebody else's stays.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	ours, mixed, served := filepath.Join(dir, "ours"), filepath.Join(dir, "mixed"), filepath.Join(dir, "served")
	for _, path := range []string{filepath.Join(ours, "device-plugins"), filepath.Join(ours, "a", "b"), mixed, served} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(ours, "device-plugins", "kubelet_internal_checkpoint"), filepath.Join(mixed, "data")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(served, "s.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	live, err := liveSockets()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{ours, mixed, served, filepath.Join(dir, "missing")} {
		if err := prune(path, live); err != nil {
			t.Errorf("prune %s: %v", path, err)
		}
	}
	left := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	if left(ours) {
		t.Error("a folder of ours stays")
	}
	if !left(filepath.Join(mixed, "data")) {
		t.Error("a file of somebody else's is gone")
	}
	if !left(socket) {
		t.Error("the socket of a running program is gone")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		terminal bool
		want     string
	}{
		{false, "etcd                         0.12 s\n"},
		{true, " \x1b[32m✓\x1b[0m etcd                         0.12 s\n"},
	} {
		var out bytes.Buffer
		p := &progress{out: &out, terminal: c.terminal}
		p.phase("etcd", 120*time.Millisecond)
		if got := out.String(); got != c.want {
			t.Errorf("terminal=%t: %q, want %q", c.terminal, got, c.want)
		}
	}
	p := &progress{out: &bytes.Buffer{}}
	broken := errors.New("broken")
	if err := p.step("agent", func() error { return broken }); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "agent: ") {
		t.Errorf("error of a step = %v", err)
	}
}

func TestAgentEnvironment(t *testing.T) {
	cfg, err := good(t).complete()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Agents = 2
	cfg.AgentFlags = []string{"isolation=cgroups/cpu,cgroups/mem,filesystem/linux", "cgroups_enable_cfs=true"}
	a, err := plan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.SchedulerFlags = []string{"executor-mem=300"}
	scheduler := schedulerChild(layout{cfg}, "k", "m:5050", net.IP{10, 89, 0, 1})
	if args := strings.Join(scheduler.args, " "); !strings.Contains(args, " --executor-listen=10.89.0.1:9443 --executor-config=/var/lib/mesopod/test/executor-config.yaml --status-address=10.89.0.1:10246 --executor-mem=300") {
		t.Errorf("the scheduler is started as %s", args)
	}
	agent, err := agentChild(layout{cfg}, a, a.agents[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"LIBPROCESS_IP=10.89.0.12", "MESOS_MASTER=10.89.0.1:5050", "MESOS_HOSTNAME=mesopod-agent2",
		"MESOS_CGROUPS_ROOT=mesopod/local-a2", "MESOS_SYSTEMD_ENABLE_SUPPORT=false", "MESOS_ATTRIBUTES=rack:r2;zone:z2",
		"MESOS_CGROUPS_ENABLE_CFS=true",
	} {
		if !slices.Contains(agent.env, want) {
			t.Errorf("the agent's environment lacks %s", want)
		}
	}
	isolation := ""
	for _, variable := range agent.env {
		if value, ok := strings.CutPrefix(variable, "MESOS_ISOLATION="); ok {
			isolation = value // the last one counts
		}
	}
	if isolation != "cgroups/cpu,cgroups/mem,filesystem/linux" {
		t.Errorf("isolation is %q: --agent-flag does not win", isolation)
	}
	for _, variable := range agent.env {
		text, ok := strings.CutPrefix(variable, "MESOS_EXECUTOR_ENVIRONMENT_VARIABLES=")
		if !ok {
			continue
		}
		var got map[string]string
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if want := "/var/lib/mesopod/test/a2"; got["MESOPOD_STATE_DIR"] != want || got["MESOPOD_POD_CIDR"] != "10.89.2.0/24" || got["MESOPOD_NODE_IP"] != "10.89.0.12" {
			t.Errorf("the executor is told %v, want state in %s", got, want)
		}
		if got[mark] != cfg.StateDir {
			t.Errorf("%s = %q: executors would not be found after a kill", mark, got[mark])
		}
	}
}

// A child that ends at once is an error that shows the end of its log; one that lives ends with its context.
func TestChild(t *testing.T) {
	dir := t.TempDir()
	bad := child{name: "bad", args: []string{"/bin/sh", "-c", "echo cannot; exit 7"}, env: systemEnv(), log: filepath.Join(dir, "bad.log"), grace: time.Second}
	err := bad.run(t.Context(), dir, make(chan struct{}))
	if err == nil || !strings.Contains(err.Error(), "exit status 7") || !strings.Contains(err.Error(), "\tcannot") {
		t.Errorf("error of a child that ends at once = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	good := child{name: "good", args: []string{"/bin/sh", "-c", "echo up; exec sleep 1000"}, env: systemEnv(), log: filepath.Join(dir, "good.log"), grace: time.Second}
	p := newParts()
	p.start(ctx, good.name, func(ctx context.Context) error { return good.run(ctx, dir, make(chan struct{})) })
	if err := p.until(t.Context(), 10*time.Second, func(context.Context) error {
		if data, _ := os.ReadFile(good.log); string(data) != "up\n" {
			return errors.New("not up")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := p.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// Waiting ends early when a part does, with the part's own error.
func TestUntilPartEnds(t *testing.T) {
	p := newParts()
	broken := errors.New("broken")
	p.start(t.Context(), "part", func(context.Context) error { return broken })
	if err := p.until(t.Context(), time.Minute, func(context.Context) error { return errors.New("never") }); !errors.Is(err, broken) {
		t.Errorf("error = %v, want the part's", err)
	}
	if err := p.stop(); err != nil {
		t.Errorf("the error is told twice: %v", err)
	}
}

func TestMasterClient(t *testing.T) {
	var tornDown string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/master/state":
			_, _ = w.Write([]byte(`{"slaves":[{"hostname":"a","active":true},{"hostname":"b","active":false}]}`))
		case "/api/v1":
			var body struct {
				Type     string
				Teardown struct {
					ID struct{ Value string } `json:"framework_id"`
				}
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Type != "TEARDOWN" {
				http.Error(w, "bad call", http.StatusBadRequest)
				return
			}
			tornDown = body.Teardown.ID.Value
		}
	}))
	defer server.Close()
	m := mesosMaster{strings.TrimPrefix(server.URL, "http://")}
	a, b, c := agent{hostname: "a"}, agent{hostname: "b"}, agent{hostname: "c"}
	if err := m.hasAgents(t.Context(), []agent{a}); err != nil {
		t.Errorf("agent a: %v", err)
	}
	for _, missing := range [][]agent{{b}, {c}, {a, b}} {
		if m.hasAgents(t.Context(), missing) == nil {
			t.Errorf("agents %v are there", missing)
		}
	}
	if err := m.teardown(t.Context(), "f1"); err != nil || tornDown != "f1" {
		t.Errorf("teardown: %v, of framework %q", err, tornDown)
	}
}

// Master and agents are asked without a proxy, whatever the environment says about one.
func TestClientWithoutProxy(t *testing.T) {
	transport, ok := client.Transport.(*http.Transport)
	if !ok || transport.Proxy != nil {
		t.Errorf("the client of Mesos has transport %T, which asks the environment for a proxy", client.Transport)
	}
}

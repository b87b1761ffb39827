package executor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

const goodConfig = `apiVersion: mesopod.io/v1alpha1
kind: ExecutorConfig
kubeconfig: /etc/mesopod/executor.kubeconfig
kubeletKubeconfig: /etc/mesopod/kubelet.kubeconfig
clientCAFile: /etc/mesopod/ca.crt
tlsCertFile: /etc/mesopod/kubelet.crt
tlsPrivateKeyFile: /etc/mesopod/kubelet.key
bundleDir: /opt/mesopod
stateDir: /run/mesopod/a1
podCIDR: 10.89.1.0/24
bridge: mpod0
executorResources: {cpus: 0.5, mem: 256}
`

func mustEnv(t *testing.T) Env {
	t.Helper()
	env, err := envFrom(lookup(agentEnv()))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// parse reads an agent's file as New does.
func parse(t *testing.T, text string) (Config, error) {
	t.Helper()
	c, err := layer(nil, []byte(text))
	if err != nil {
		return c, err
	}
	return c.complete(mustEnv(t))
}

// Static pods of one agent alone would run without Mesos knowing.
func TestNoStaticPodsOfAnAgent(t *testing.T) {
	_, err := parse(t, goodConfig+"staticPods: []\n")
	if !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), "staticPods belong into the scheduler's document") {
		t.Errorf("error %v", err)
	}
}

// Without a file and without words in the environment an agent is good for executors, too.
func TestNoFile(t *testing.T) {
	c, err := parse(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if c.NodeIP != "10.0.0.1" || c.Bridge != "mpod-"+nickname(mustEnv(t).FrameworkID) || !strings.HasPrefix(c.StateDir, "/var/lib/mesopod/") || c.BundleDir == "" || c.PodCIDR != "" || c.KubeletPort != 10250 {
		t.Errorf("%+v", c)
	}
	other := mustEnv(t)
	other.FrameworkID, other.Agent = "another", AgentSettings{PodCIDR: "10.1.0.0/24", Bridge: "br9", NodeIP: "10.0.0.9"}
	d, err := Config{ExecutorConfig: c.ExecutorConfig}.complete(other)
	if err != nil || d.StateDir == c.StateDir || d.PodCIDR != "10.1.0.0/24" || d.Bridge != "br9" || d.NodeIP != "10.0.0.9" {
		t.Errorf("another framework's: %+v, %v", d, err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("a file that is named and missing: %v", err)
	}
}

// The scheduler's document is below what the agent says, and above the defaults. What is new in it is passed over: a
// scheduler may be one version ahead.
func TestOver(t *testing.T) {
	env := mustEnv(t)
	c, err := parse(t, goodConfig+"suicideTimeout: 7m\n")
	if err != nil {
		t.Fatal(err)
	}
	const head = "apiVersion: mesopod.io/v1alpha1\nkind: ExecutorConfig\n"
	got, unknown, err := c.over([]byte(head+"suicideTimeout: 1m\nlaunchGracePeriod: 9m\nfuture: {a: 1}\nkubeletConfiguration: {podPidsLimit: 5}\n"), env)
	if err != nil {
		t.Fatal(err)
	}
	if got.SuicideTimeout.Duration != 7*time.Minute || got.LaunchGracePeriod.Duration != 9*time.Minute || got.ClusterDomain != "cluster.local" ||
		got.StateDir != "/run/mesopod/a1" || string(got.KubeletConfiguration) != `{"podPidsLimit":5}` {
		t.Errorf("%+v", got)
	}
	if len(unknown) != 1 || !strings.Contains(unknown[0].Error(), `"future"`) {
		t.Errorf("unknown: %v", unknown)
	}
	for _, bad := range []string{"", "a: [", head + "kubeletPort: 0\n", head + "kubeletConfiguration: {cgroupRoot: /}\n", "apiVersion: mesopod.io/v9\nkind: ExecutorConfig\n"} {
		if _, _, err := c.over([]byte(bad), env); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", bad, err)
		}
	}
}

// The executor's share is what the agent says.
func TestShare(t *testing.T) {
	agent := messages.Resources{CPUs: 0.7, MemMB: 300}
	for _, c := range []struct {
		config Share
		agent  messages.Resources
		want   messages.Resources
	}{
		{Share{1, 500}, agent, agent},
		{Share{1, 500}, messages.Resources{}, messages.Resources{CPUs: 1, MemMB: 500}},
		{Share{}, messages.Resources{}, messages.Resources{CPUs: 0.5, MemMB: 256}},
	} {
		if got := (Config{ExecutorResources: c.config}).share(c.agent); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestParseConfig(t *testing.T) {
	c, err := parse(t, goodConfig)
	if err != nil {
		t.Fatal(err)
	}
	if c.KubeletPort != 10250 || c.LaunchGracePeriod.Duration != 5*time.Minute || c.SuicideTimeout.Duration != 20*time.Minute || c.ClusterDomain != "cluster.local" {
		t.Errorf("defaults %+v", c)
	}
	// EX-56, EX-91: 0 switches off and is no default.
	c, err = parse(t, goodConfig+"launchGracePeriod: 0s\nsuicideTimeout: 0s\n")
	if err != nil || c.LaunchGracePeriod.Duration != 0 || c.SuicideTimeout.Duration != 0 {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestParseConfigFaults(t *testing.T) {
	for part, text := range map[string]string{
		"unknown field":                goodConfig + "kubletPort: 1\n",
		"apiVersion":                   strings.Replace(goodConfig, "v1alpha1", "v2", 1),
		"kubeconfig must":              strings.Replace(goodConfig, "/etc/mesopod/executor.kubeconfig", "here", 1),
		"podCIDR":                      strings.Replace(goodConfig, "/24", "", 1),
		"executorResources":            strings.Replace(goodConfig, "0.5", "-1", 1),
		"go together":                  strings.Replace(goodConfig, "clientCAFile: /etc/mesopod/ca.crt\n", "", 1),
		"tlsCertFile and":              strings.Replace(goodConfig, "tlsCertFile: /etc/mesopod/kubelet.crt\n", "", 1),
		"nodeIP":                       goodConfig + "nodeIP: a1\n",
		"kubeletPort":                  goodConfig + "kubeletPort: 70000\n",
		"not be negative":              goodConfig + "suicideTimeout: -1s\n",
		"clusterDNS":                   goodConfig + "clusterDNS: [x]\n",
		"proxyMode":                    goodConfig + "proxyMode: ipvs\n",
		"stateDir":                     strings.Replace(goodConfig, "/run/mesopod/a1", "here", 1),
		"kubeletConfiguration.maxPods": goodConfig + "kubeletConfiguration: {maxPods: 1}\n",
	} {
		if _, err := parse(t, text); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

func agentEnv() map[string]string {
	return map[string]string{
		"MESOS_FRAMEWORK_ID": "fw", "MESOS_EXECUTOR_ID": "ex", "MESOS_SLAVE_ID": "S0", "MESOS_SLAVE_PID": "slave(1)@10.0.0.1:5051",
		"MESOS_AGENT_ENDPOINT": "10.0.0.1:5051", "MESOS_SANDBOX": "/sandbox", "MESOS_DIRECTORY": "/work/runs/c1", "MESOS_CHECKPOINT": "1",
		"MESOS_RECOVERY_TIMEOUT": "15mins", "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": "60secs", "MESOPOD_CGROUP": "/mesos/c1", "MESOPOD_STATE_FILE": "/sandbox/state",
	}
}

func lookup(m map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { value, ok := m[name]; return value, ok }
}

func TestEnv(t *testing.T) {
	got, err := envFrom(lookup(agentEnv()))
	if err != nil {
		t.Fatal(err)
	}
	want := Env{
		AgentURL: "http://10.0.0.1:5051/slave(1)/api/v1/executor", AgentAddress: "10.0.0.1", FrameworkID: "fw", ExecutorID: "ex", AgentID: "S0",
		Container: "c1", StateFile: "/sandbox/state", Sandbox: "/sandbox", Cgroup: "/mesos/c1", Checkpoint: true, RecoveryTimeout: 15 * time.Minute, ShutdownGrace: time.Minute,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An agent with a socket for its executors is asked there, without TLS, whatever its address speaks.
func TestEnvSocket(t *testing.T) {
	m := agentEnv()
	m["LIBPROCESS_SSL_ENABLED"] = "true"
	if got, err := envFrom(lookup(m)); err != nil || got.AgentURL != "https://10.0.0.1:5051/slave(1)/api/v1/executor" || got.AgentSocket != "" {
		t.Errorf("TLS: %s, socket %q, %v", got.AgentURL, got.AgentSocket, err)
	}
	m["MESOS_DOMAIN_SOCKET"] = "/var/run/mesos/agent.sock"
	if got, err := envFrom(lookup(m)); err != nil || got.AgentURL != "http://10.0.0.1:5051/slave(1)/api/v1/executor" || got.AgentSocket != "/var/run/mesos/agent.sock" {
		t.Errorf("socket: %s, socket %q, %v", got.AgentURL, got.AgentSocket, err)
	}
}

// The token of an agent that authenticates executors is read once, and no child inherits it.
func TestEnvToken(t *testing.T) {
	for name, value := range agentEnv() {
		t.Setenv(name, value)
	}
	t.Setenv(tokenVariable, "header.claims.signature")
	env, err := ReadEnv()
	if err != nil || env.Token != "header.claims.signature" {
		t.Errorf("token %q, %v", env.Token, err)
	}
	if left, found := os.LookupEnv(tokenVariable); found {
		t.Errorf("%s still is %q", tokenVariable, left)
	}
}

func TestEnvFaults(t *testing.T) {
	if _, err := envFrom(lookup(nil)); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), "MESOS_SLAVE_PID") ||
		!strings.Contains(err.Error(), "MESOPOD_CGROUP") {
		t.Errorf("empty: %v", err)
	}
	m := agentEnv()
	m["MESOS_RECOVERY_TIMEOUT"] = "15m" // Go's notation is not Mesos'
	if _, err := envFrom(lookup(m)); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("bad duration: %v", err)
	}
	m["MESOS_CHECKPOINT"] = "0"
	if _, err := envFrom(lookup(m)); err != nil {
		t.Errorf("without checkpointing: %v", err)
	}
}

// The pods' limit stays below Mesos' by our share, and never above the node's size.
func TestPodsMemory(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ limit, capacity, share, want int64 }{
		{0x7FFFFFFFFFFFF000, 1792 * mib, 256 * mib, 1792 * mib}, // no limit
		{320 * mib, 1792 * mib, 256 * mib, 64 * mib},
		{256 * mib, 1792 * mib, 256 * mib, 16 * mib}, // no task yet
		{128 * mib, 1792 * mib, 256 * mib, 16 * mib},
		{320*mib + 5, 1792 * mib, 256 * mib, 64 * mib},
	} {
		if got := podsMemory(c.limit, c.capacity, c.share); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

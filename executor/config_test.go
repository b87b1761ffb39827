package executor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/internal/errdefs"
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

func TestParseConfig(t *testing.T) {
	c, err := parse([]byte(goodConfig))
	if err != nil {
		t.Fatal(err)
	}
	if c.KubeletPort != 10250 || c.LaunchGracePeriod.Duration != 5*time.Minute || c.SuicideTimeout.Duration != 20*time.Minute || c.ClusterDomain != "cluster.local" {
		t.Errorf("defaults %+v", c)
	}
	// EX-56, EX-91: 0 switches off and is no default.
	c, err = parse([]byte(goodConfig + "launchGracePeriod: 0s\nsuicideTimeout: 0s\n"))
	if err != nil || c.LaunchGracePeriod.Duration != 0 || c.SuicideTimeout.Duration != 0 {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestParseConfigFaults(t *testing.T) {
	for part, text := range map[string]string{
		"unknown field":     goodConfig + "kubletPort: 1\n",
		"apiVersion":        strings.Replace(goodConfig, "v1alpha1", "v2", 1),
		"kubeconfig must":   strings.Replace(goodConfig, "/etc/mesopod/executor.kubeconfig", "here", 1),
		"podCIDR":           strings.Replace(goodConfig, "/24", "", 1),
		"bridge":            strings.Replace(goodConfig, "mpod0", `""`, 1),
		"executorResources": strings.Replace(goodConfig, "0.5", "0", 1),
		"nodeIP":            goodConfig + "nodeIP: a1\n",
		"kubeletPort":       goodConfig + "kubeletPort: 70000\n",
		"not be negative":   goodConfig + "suicideTimeout: -1s\n",
		"clusterDNS":        goodConfig + "clusterDNS: [x]\n",
		"stateDir":          "kind: ExecutorConfig\n", // all faults are told at once
	} {
		if _, err := parse([]byte(text)); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), part) {
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

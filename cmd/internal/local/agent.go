package local

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mesopod/mesopod/executor"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// idleLife is how long an executor without pods stays, so that the next pod starts fast. A laptop wants its memory back
// sooner than a server.
const idleLife = time.Minute

// agent is a Mesos agent, ours or of a Mesos that runs elsewhere.
type agent struct {
	number   int            // from 1; names of what is its own on this machine end with it
	hostname string         // its node's name too
	endpoint netip.AddrPort // where it serves; the address is its own
	pods     netip.Prefix   // range of its pods
}

// name is for people and for log files.
func (a agent) name() string { return fmt.Sprintf("mesos-agent%d", a.number) }

// link is the end of the agent's link that is in the machine's namespace.
func (a agent) link() string { return fmt.Sprintf("mesopod-a%d", a.number) }

// cgroup is the parent of the agent's cgroups in each hierarchy.
func (a agent) cgroup() string { return fmt.Sprintf("%s/local-a%d", cgroupRoot, a.number) }

// attributes differ so that pods can choose: each agent has a rack of its own, and every second one the same zone.
func (a agent) attributes() string {
	return fmt.Sprintf("rack:r%d;zone:z%d", a.number, 2-a.number%2)
}

// ownAgentFlags are flags of agents that the layout of a local cluster fixes, or that have a flag of local mode.
var ownAgentFlags = []string{
	"attributes", "cgroups_root", "executor_environment_variables", "hostname", "ip", "launcher", "launcher_dir", "master",
	"port", "resources", "runtime_dir", "systemd_enable_support", "work_dir",
}

// agentFlag turns --agent-flag=NAME=VALUE into the variable that an agent reads it from.
func agentFlag(text string) (string, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return "", newFault(errdefs.ErrInvalid, "--agent-flag=%s: want NAME=VALUE, such as cgroups_enable_cfs=true", text)
	}
	if slices.Contains(ownAgentFlags, name) {
		return "", newFault(errdefs.ErrInvalid, "--agent-flag=%s: local mode sets %s itself", text, name)
	}
	return "MESOS_" + strings.ToUpper(name) + "=" + value, nil
}

// executorConfig is the configuration file of the executor on an agent.
func (l layout) executorConfig(a agent) string {
	return filepath.Join(l.settings(), a.hostname, "executor.yaml")
}

// writeExecutorConfig writes what the executor on an agent is told there. There is no secret in it: its certificates the
// executor has from the scheduler.
func writeExecutorConfig(l layout, a agent) error {
	data, err := yaml.Marshal(executor.Config{
		APIVersion: executor.APIVersion, Kind: executor.Kind,
		BundleDir: l.BundleDir, StateDir: l.executor(a),
		PodCIDR: a.pods.String(), Bridge: podBridge, NodeIP: a.endpoint.Addr().String(), KubeletPort: kubeletPort,
		ExecutorResources: executor.Share{CPUs: executorCPUs, Mem: executorMemMB},
		LaunchGracePeriod: metav1.Duration{Duration: executor.DefaultLaunchGracePeriod},
		SuicideTimeout:    metav1.Duration{Duration: idleLife},
	})
	if err == nil {
		err = writeFile(l.executorConfig(a), data)
	}
	if err != nil {
		return fmt.Errorf("configure executor of %s: %w", a.hostname, err)
	}
	return nil
}

package local

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mesopod/mesopod/contrib/manifests"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
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
	"cgroups_root", "executor_environment_variables", "hostname", "ip", "launcher", "launcher_dir",
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

// executorVariables are what the agent's executor is told by its environment. There is no secret in it: its certificates
// and the rest of its configuration the executor has from the scheduler.
func (l layout) executorVariables(a agent) map[string]string {
	variables := map[string]string{
		"MESOPOD_STATE_DIR": l.executor(a),
		"MESOPOD_BRIDGE":    podBridge,
		"MESOPOD_NODE_IP":   a.endpoint.Addr().String(),
	}
	if !l.AllocateNodeCIDRs {
		variables["MESOPOD_POD_CIDR"] = a.pods.String()
	}
	return variables
}

// writeExecutorConfig writes the configuration of all executors, for the scheduler to serve.
func writeExecutorConfig(l layout) error {
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\nkubeletPort: %d\nsuicideTimeout: %s\n",
		messages.ExecutorConfigAPIVersion, messages.ExecutorConfigKind, kubeletPort, idleLife)
	text += fmt.Sprintf("podNetwork: %s\n", l.PodNetwork)
	if l.DNS {
		text += fmt.Sprintf("clusterDNS: [%s]\n", manifests.DNSAddress)
	}
	if err := writeFile(l.executorConfig(), []byte(text)); err != nil {
		return fmt.Errorf("configure executors: %w", err)
	}
	return nil
}

package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Config says how a local cluster is to be.
type Config struct {
	// StateDir keeps everything but what has a fixed place on a machine. Its whole path counts towards the length of
	// sockets' paths, so it has to be short.
	StateDir string
	// BundleDir holds mesopod, the keeper, containerd, runc, CNI plugins and images.
	BundleDir string
	// MesosDir is where contrib/mesos was installed.
	MesosDir string
	// Mesos is "sim", "real", or the host:port or URL of the master of a Mesos that runs already; empty is sim.
	Mesos string
	// Agents is how many agents there are to be: 1 to 20, and 10,000 with a simulated Mesos. Where Mesos runs elsewhere it
	// says nothing.
	Agents int
	// RealAgents is how many of them run pods, the first ones; those beyond act them out. Zero is all of them, or 20.
	RealAgents int
	// Launcher is the agent's: "linux", "posix", or empty to take linux where it works.
	Launcher string
	// Subnet is an IPv4 range of at least /16 size that nothing else on the machine uses: bridge, agents and pods.
	Subnet string
	// AgentResources are what each agent offers, in Mesos' notation; empty divides the machine between them.
	AgentResources string
	// actedResources are those of the agents that act pods out, if AgentResources were given; else they have the simulator's.
	actedResources string
	// AgentFlags are further flags of the agents, each NAME=VALUE as Mesos documents it without the dashes; they win over
	// ours, but those that say where an agent is and what it has are not to be taken: see ownAgentFlags. Attributes come after
	// ours.
	AgentFlags []string
	// SchedulerFlags are further flags of the scheduler, each NAME=VALUE without the dashes; they win over ours.
	SchedulerFlags []string
	// FeatureGates are Kubernetes' own for control plane and scheduler, NAME=true or NAME=false each. RuntimeConfig switches
	// versions of APIs on or off, such as scheduling.k8s.io/v1beta1=true.
	FeatureGates, RuntimeConfig []string
	// PodNetwork is how pods reach those of other agents, routes or vxlan; empty means routes.
	PodNetwork string
	// AllocateNodeCIDRs has the controller manager give each node the range of its pods. Else each agent says its own.
	AllocateNodeCIDRs bool
	// DNS runs the cluster's DNS server, and has pods use it.
	DNS bool
	// Address is where the API server listens when Mesos runs elsewhere; nil takes the one that leads to the master.
	Address net.IP
	// ChildArgs are put before the flags of each child that is mesopod itself: log flags.
	ChildArgs []string
	// Out is where progress is told; Terminal makes it prettier.
	Out      io.Writer
	Terminal bool
}

// maxAgents bounds agents that run pods: each has a kubelet and a containerd as soon as it has one. maxActed bounds those
// that act pods out.
const (
	maxAgents = 20
	maxActed  = 10_000
)

// The fixed ports of a local cluster, all on the bridge address but the agents'.
const (
	apiPort       = 6443
	schedulerPort = 9443  // for executors
	statusPort    = 10246 // the scheduler's pages
	masterPort    = 5050
	agentPort     = 5051
	kubeletPort   = 10250
)

// maxStateDir bounds StateDir so that the sockets of containerd's shims below it (StateDir/a20/s/ and 64 letters) have
// paths of 107 bytes at most, as the kernel demands.
const maxStateDir = 36

// external tells whether somebody else runs Mesos.
func (c Config) external() bool { return c.Mesos != "real" && !c.simulated() }

// simulated tells whether Mesos is simulated by mesopod itself.
func (c Config) simulated() bool { return c.Mesos == "sim" }

// acted is how many agents have no processes.
func (c Config) acted() int {
	if !c.simulated() {
		return 0
	}
	return c.Agents - c.RealAgents
}

// masterAddress is host:port of an external master.
func (c Config) masterAddress() string {
	address := strings.TrimPrefix(c.Mesos, "http://")
	return strings.TrimSuffix(address, "/")
}

// complete fills in what was left open, and tells all faults of the rest together. The machine is not looked at
// beyond its size: see checkMachine.
func (c Config) complete() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, newFault(errdefs.ErrInvalid, format, args...))
	}
	if c.Mesos == "" {
		c.Mesos = "sim"
	}
	for flag, dir := range map[string]*string{"--state-dir": &c.StateDir, "--bundle-dir": &c.BundleDir, "--mesos-dir": &c.MesosDir} {
		abs, err := filepath.Abs(*dir)
		if err != nil || *dir == "" {
			fault("%s %q is no folder", flag, *dir)
			continue
		}
		*dir = abs
	}
	if len(c.StateDir) > maxStateDir {
		fault("--state-dir %s has %d bytes, %d at most: paths of sockets in it would be too long", c.StateDir, len(c.StateDir), maxStateDir)
	}
	if parts := strings.Count(c.StateDir, "/"); parts < 2 {
		fault("--state-dir %s: want a folder of its own, such as /var/lib/mesopod/local", c.StateDir)
	}
	switch {
	case c.simulated():
		// It makes no cgroups: the keeper does, as under Mesos' posix launcher.
		if c.Launcher == "linux" {
			fault("--launcher=linux goes with --mesos=real only: the simulated agents have posix")
		}
		if len(c.AgentFlags) > 0 {
			fault("--agent-flag=%s goes with --mesos=real only: simulated agents have no such flags", c.AgentFlags[0])
		}
		if c.Launcher == "" {
			c.Launcher = "posix"
		}
	case strings.HasPrefix(c.Mesos, "zk://"):
		fault("--mesos=%s: finding the master by ZooKeeper is not supported yet: give host:port", c.Mesos)
	case c.external():
		if _, _, err := net.SplitHostPort(c.masterAddress()); err != nil {
			fault("--mesos=%s: want sim, real, or a master as host:port or http://host:port", c.Mesos)
		}
	}
	if c.simulated() && c.RealAgents == 0 {
		c.RealAgents = min(c.Agents, maxAgents)
	}
	switch {
	case c.simulated() && (c.Agents < 1 || c.Agents > maxActed):
		fault("--agents=%d: want 1 to %d", c.Agents, maxActed)
	case c.simulated() && (c.RealAgents < 1 || c.RealAgents > min(c.Agents, maxAgents)):
		fault("--real-agents=%d: want 1 to %d, and no more than --agents", c.RealAgents, maxAgents)
	case !c.simulated() && c.RealAgents != 0:
		fault("--real-agents=%d goes with --mesos=sim only: other agents all run pods", c.RealAgents)
	case c.external() && c.Agents != 1:
		fault("--agents=%d goes with --mesos=sim or real only: %s has the agents that it has", c.Agents, c.Mesos)
	case !c.simulated() && (c.Agents < 1 || c.Agents > maxAgents):
		fault("--agents=%d: want 1 to %d; more go with --mesos=sim, whose agents beyond --real-agents act pods out", c.Agents, maxAgents)
	case c.AgentResources == "" && c.simulated():
		c.AgentResources = machineResources(c.RealAgents)
	case c.AgentResources == "":
		c.AgentResources = machineResources(c.Agents)
	case c.external():
		fault("--agent-resources=%s goes with --mesos=sim or real only: %s has the agents that it has", c.AgentResources, c.Mesos)
	default:
		if err := checkResources(c.AgentResources, c.roles()); err != nil {
			faults = append(faults, err)
		}
		c.actedResources = c.AgentResources
	}
	if len(c.AgentFlags) > 0 && c.external() {
		fault("--agent-flag=%s goes with --mesos=real only: %s has the agents that it has", c.AgentFlags[0], c.Mesos)
	}
	for _, text := range c.AgentFlags {
		if _, err := agentFlag(text); err != nil {
			faults = append(faults, err)
		}
	}
	for _, text := range c.SchedulerFlags {
		if name, _, ok := strings.Cut(text, "="); !ok || name == "" || strings.HasPrefix(name, "-") {
			fault("--scheduler-flag=%s: want NAME=VALUE, such as preemption=true", text)
		}
	}
	for flag, list := range map[string][]string{"--feature-gates": c.FeatureGates, "--runtime-config": c.RuntimeConfig} {
		for _, text := range list {
			if name, value, _ := strings.Cut(text, "="); name == "" || value != "true" && value != "false" {
				fault("%s=%s: want NAME=true or NAME=false", flag, text)
			}
		}
	}
	if c.Address != nil && !c.external() {
		fault("--address=%s goes with a Mesos that runs elsewhere only: else the API server has the bridge's address", c.Address)
	}
	if c.AllocateNodeCIDRs && c.external() {
		fault("--allocate-node-cidrs goes with a Mesos that is started here only: agents that run elsewhere are told their ranges")
	}
	switch c.PodNetwork {
	case "":
		c.PodNetwork = "routes"
	case "routes", "vxlan":
	default:
		fault("--pod-network=%s: want routes or vxlan", c.PodNetwork)
	}
	switch c.Launcher {
	case "":
		c.Launcher = "posix"
		if cgroupsV1Usable() {
			c.Launcher = "linux"
		}
	case "linux", "posix":
	default:
		fault("--launcher=%s: want linux or posix", c.Launcher)
	}
	if _, err := parseSubnet(c.Subnet); err != nil {
		faults = append(faults, err)
	}
	return c, errors.Join(faults...)
}

// parseSubnet reads --subnet.
func parseSubnet(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p.Bits() > 16 {
		return netip.Prefix{}, newFault(errdefs.ErrInvalid, "--subnet=%s: want an IPv4 range of at least /16, such as 10.89.0.0/16", text)
	}
	return p.Masked(), nil
}

// cgroupsV1Usable tells whether Mesos' linux launcher can work: it needs cgroup v1 hierarchies of its own.
func cgroupsV1Usable() bool {
	for _, hierarchy := range []string{"cpu", "cpuacct", "memory", "freezer"} {
		if _, err := os.Stat(filepath.Join(cgroupMount, hierarchy, "cgroup.procs")); err != nil {
			return false
		}
		// Hybrid systems have the v2 hierarchy elsewhere; a pure v2 one has no such folders at all.
		if _, err := os.Stat(filepath.Join(cgroupMount, hierarchy, "cgroup.controllers")); err == nil {
			return false
		}
	}
	return true
}

// addresses are the IPv4 addresses of a local cluster, all taken from one subnet.
type addresses struct {
	subnet netip.Prefix
	bridge netip.Prefix // address of the bridge with the length of the agents' network
	agents []agent      // ours, none where Mesos runs elsewhere
}

// plan divides the subnet: .0.1 the bridge, .0.11 the first agent, .0.12 the second, .1.0/24 pods of the first agent,
// .2.0/24 of the second, and so on.
func plan(c Config) (addresses, error) {
	subnet, err := parseSubnet(c.Subnet)
	if err != nil {
		return addresses{}, err
	}
	a := addresses{subnet: subnet}
	a.bridge = netip.PrefixFrom(a.at(0, 1), agentBits)
	if c.external() {
		return a, nil
	}
	agents := c.Agents
	if c.simulated() {
		agents = c.RealAgents
	}
	for n := 1; n <= min(agents, maxAgents); n++ {
		a.agents = append(a.agents, agent{
			number: n, hostname: fmt.Sprintf("mesopod-agent%d", n), pods: a.podRange(n),
			endpoint: netip.AddrPortFrom(a.at(0, byte(10+n)), agentPort),
		})
	}
	return a, nil
}

// agentBits is the length of the network that bridge and agents are in.
const agentBits = 24

// at is an address of the subnet by its last two bytes.
func (a addresses) at(third, fourth byte) netip.Addr {
	b := a.subnet.Addr().As4()
	return netip.AddrFrom4([4]byte{b[0], b[1], third, fourth})
}

// allocated is what the controller manager gives ranges from, where it does: the upper half of the subnet.
func (a addresses) allocated() netip.Prefix { return netip.PrefixFrom(a.at(128, 0), 17) }

// podRange is the range of the pods of agent n, 1 to 255.
func (a addresses) podRange(n int) netip.Prefix { return netip.PrefixFrom(a.at(byte(n), 0), 24) }

// layout knows the names of everything of a local cluster.
type layout struct{ Config }

const (
	// bridgeLink is a link in the machine's namespace; agentLink is an agent's end of its link to it.
	bridgeLink = "mesopod0"
	agentLink  = "eth0"
	// podBridge is the link that an executor's CNI makes in its agent's namespace.
	podBridge = "mpod0"
	// cgroupRoot is the parent of all our cgroups in each hierarchy.
	cgroupRoot = "mesopod"
	// keeperCgroup is the parent of the cgroups that keepers make where the agent makes none.
	keeperCgroup = cgroupRoot + "/executors"
	cgroupMount  = "/sys/fs/cgroup"
	// mark is an environment variable that all our children have, with the state folder as its value. Processes that
	// outlived a run are known by it.
	mark = "MESOPOD_LOCAL"
)

func (l layout) lock() string       { return filepath.Join(l.StateDir, "lock") }
func (l layout) host() string       { return filepath.Join(l.StateDir, "host.json") }
func (l layout) logs() string       { return filepath.Join(l.StateDir, "logs") }
func (l layout) control() string    { return filepath.Join(l.StateDir, "control") }
func (l layout) kubeconfig() string { return filepath.Join(l.StateDir, "kubeconfig") }
func (l layout) master() string     { return filepath.Join(l.StateDir, "master") }
func (l layout) namespaces() string { return filepath.Join(l.StateDir, "netns") }

// executorConfig is the configuration of all executors. Whoever changes the file changes them.
func (l layout) executorConfig() string { return filepath.Join(l.StateDir, "executor-config.yaml") }

// executor is the folder of an agent's executor: a short path, since sockets lie in it. An executor of a Mesos that runs
// elsewhere may outlive us, so its folder is not ours to sweep, though its agent may be on this machine.
func (l layout) executor(a agent) string {
	dir := l.StateDir
	if l.external() {
		dir = "/var/lib/mesopod"
	}
	return filepath.Join(dir, fmt.Sprintf("a%d", a.number))
}

// work is the folder of one of our agents with its sandboxes. The two patterns match what all agents have, also of an
// earlier run that had more.
func (l layout) work(a agent) string {
	return filepath.Join(l.StateDir, fmt.Sprintf("agent%d", a.number))
}
func (l layout) works() string     { return filepath.Join(l.StateDir, "agent[0-9]*") }
func (l layout) executors() string { return filepath.Join(l.StateDir, "a[0-9]*") }

// netns is the file that keeps an agent's network namespace alive. It is not in the folder of ip-netns(8), which mounts
// that folder upon itself when it pleases, with our file below.
func (l layout) netns(a agent) string {
	return filepath.Join(l.namespaces(), fmt.Sprintf("agent%d", a.number))
}

func (l layout) log(name string) string      { return filepath.Join(l.logs(), name+".log") }
func (l layout) bundle(name string) string   { return filepath.Join(l.BundleDir, name) }
func (l layout) mesos(program string) string { return filepath.Join(l.MesosDir, program) }

// DefaultStateDir is where local mode lives unless it is told otherwise.
const DefaultStateDir = "/var/lib/mesopod/local"

// DefaultKubeconfig is the kubeconfig of a cluster in DefaultStateDir. It is there while the cluster runs.
const DefaultKubeconfig = DefaultStateDir + "/kubeconfig"

// roles are the scheduler's, as far as its flags name them.
func (c *Config) roles() (roles []string) {
	for _, flag := range c.SchedulerFlags {
		if list, is := strings.CutPrefix(flag, "roles="); is {
			roles = strings.Split(list, ",")
		}
	}
	return roles
}

package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

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
	// Mesos is "real", or the host:port or URL of the master of a Mesos that runs already.
	Mesos string
	// Agents is how many agents there are to be. Only 1 is supported yet.
	Agents int
	// Launcher is the agent's: "linux", "posix", or empty to take linux where it works.
	Launcher string
	// Subnet is an IPv4 range of at least /16 size that nothing else on the machine uses: bridge, agents and pods.
	Subnet string
	// AgentResources in Mesos' notation; empty takes them from the machine.
	AgentResources string
	// Address is where the API server listens when Mesos runs elsewhere; nil takes the one that leads to the master.
	Address net.IP
	// ChildArgs are put before the flags of each child that is mesopod itself: log flags.
	ChildArgs []string
	// Out is where progress is told; Terminal makes it prettier.
	Out      io.Writer
	Terminal bool
}

// The fixed ports of a local cluster, all on the bridge address but the agent's.
const (
	apiPort     = 6443
	masterPort  = 5050
	agentPort   = 5051
	kubeletPort = 10250
)

// maxStateDir bounds StateDir so that the longest socket below it stays under 108 bytes.
const maxStateDir = 60

// executorShare is the executor's own part of an agent. It must equal what the scheduler asks for it.
const (
	executorCPUs  = 0.5
	executorMemMB = 256
)

// external tells whether somebody else runs Mesos.
func (c Config) external() bool { return c.Mesos != "real" }

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
	case c.Mesos == "sim":
		fault("--mesos=sim is not in this version: use --mesos=real, or the address of a Mesos master")
	case strings.HasPrefix(c.Mesos, "zk://"):
		fault("--mesos=%s: finding the master by ZooKeeper is not supported yet: give host:port", c.Mesos)
	case c.external():
		if _, _, err := net.SplitHostPort(c.masterAddress()); err != nil {
			fault("--mesos=%s: want real, or a master as host:port or http://host:port", c.Mesos)
		}
	}
	if c.Agents != 1 {
		fault("--agents=%d: this version runs 1 agent", c.Agents)
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
	if c.AgentResources == "" {
		c.AgentResources = machineResources()
	}
	if p, err := netip.ParsePrefix(c.Subnet); err != nil || !p.Addr().Is4() || p.Bits() > 16 {
		fault("--subnet=%s: want an IPv4 range of at least /16, such as 10.89.0.0/16", c.Subnet)
	}
	return c, errors.Join(faults...)
}

// machineResources is what an agent offers by default: all cores, at least 4 so that a small machine can run several
// pods (their requests then overbook the cores), and 60 % of the memory, the rest being for the control plane.
func machineResources() string {
	cpus := max(4, runtime.NumCPU())
	memMB := uint64(4096)
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		memMB = max(1024, uint64(info.Totalram)*uint64(info.Unit)>>20*6/10)
	}
	return fmt.Sprintf("cpus:%d;mem:%d;disk:20000;ports:[31000-32000]", cpus, memMB)
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
	agent  netip.Prefix // the agent's, likewise
	pods   netip.Prefix // pods of the agent
}

// plan divides the subnet: .0.1 the bridge, .0.11 the agent, .1.0/24 its pods.
func plan(subnet string) (addresses, error) {
	p, err := netip.ParsePrefix(subnet)
	if err != nil {
		return addresses{}, err
	}
	p = p.Masked()
	b := p.Addr().As4()
	at := func(third, fourth byte) netip.Addr { return netip.AddrFrom4([4]byte{b[0], b[1], third, fourth}) }
	return addresses{
		subnet: p,
		bridge: netip.PrefixFrom(at(0, 1), 24),
		agent:  netip.PrefixFrom(at(0, 11), 24),
		pods:   netip.PrefixFrom(at(1, 0), 24),
	}, nil
}

// layout knows the names of everything of a local cluster.
type layout struct{ Config }

const (
	// node is the agent's host name, and so its node's.
	node = "mesopod-agent1"
	// bridgeLink, hostLink are links in the machine's namespace; agentLink is the agent's end of hostLink.
	bridgeLink = "mesopod0"
	hostLink   = "mesopod-a1"
	agentLink  = "eth0"
	// podBridge is the link that the executor's CNI makes in the agent's namespace.
	podBridge = "mpod0"
	// cgroupRoot is the parent of all our cgroups in each hierarchy.
	cgroupRoot = "mesopod"
	// agentCgroup is the parent of the agent's.
	agentCgroup = cgroupRoot + "/local-a1"
	// keeperCgroup is the parent of the cgroups that keepers make where the agent makes none.
	keeperCgroup = cgroupRoot + "/executors"
	cgroupMount  = "/sys/fs/cgroup"
	// mark is an environment variable that all our children have, with the state folder as its value. Processes that
	// outlived a run are known by it.
	mark = "MESOPOD_LOCAL"
)

func (l layout) lock() string        { return filepath.Join(l.StateDir, "lock") }
func (l layout) host() string        { return filepath.Join(l.StateDir, "host.json") }
func (l layout) logs() string        { return filepath.Join(l.StateDir, "logs") }
func (l layout) control() string     { return filepath.Join(l.StateDir, "control") }
func (l layout) kubeconfig() string  { return filepath.Join(l.StateDir, "kubeconfig") }
func (l layout) master() string      { return filepath.Join(l.StateDir, "master") }
func (l layout) agent() string       { return filepath.Join(l.StateDir, "agent1") }
func (l layout) executor() string    { return filepath.Join(l.StateDir, "a1") }
func (l layout) credentials() string { return filepath.Join(l.StateDir, "agents") }

// netns is the file that keeps the agent's network namespace alive. It is not in the folder of ip-netns(8), which mounts
// that folder upon itself when it pleases, with our file below.
func (l layout) netns() string { return filepath.Join(l.StateDir, "netns", "agent1") }

func (l layout) log(name string) string      { return filepath.Join(l.logs(), name+".log") }
func (l layout) bundle(name string) string   { return filepath.Join(l.BundleDir, name) }
func (l layout) mesos(program string) string { return filepath.Join(l.MesosDir, program) }

// DefaultStateDir is where local mode lives unless it is told otherwise.
const DefaultStateDir = "/var/lib/mesopod/local"

// DefaultKubeconfig is the kubeconfig of a cluster in DefaultStateDir. It is there while the cluster runs.
const DefaultKubeconfig = DefaultStateDir + "/kubeconfig"

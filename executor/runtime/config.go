package runtime

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/executor/statedir"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// Config says where things are.
type Config struct {
	// BundleDir holds containerd, ctr, containerd-shim-runc-v2, runc, cni/ and images/.
	BundleDir string
	// StateDir is the short folder for all state.
	StateDir string
	// Container is the id of our Mesos container: whether what is in StateDir is ours.
	Container string
	// LogFile takes containerd's output.
	LogFile string
	// Bridge is the name of the network bridge, in our network namespace.
	Bridge string
	// PodCIDR is the address range of this node's pods; MTU their largest packet, 0 for the bridge's own default.
	PodCIDR string
	MTU     int
	// Masquerade has the bridge plugin give packets to other ranges the node's address, to other nodes' pods too. It is for
	// machines where package network cannot do better.
	Masquerade bool
	// CNIConfDir is the folder of a network configuration of the operator's; empty means ours, from the fields above.
	CNIConfDir string
}

// PauseImage is the image of every pod's sandbox; it comes with the bundle.
const PauseImage = "mesopod.local/pause:1"

const (
	// maxShimFolder is the longest path of the folder of shims' sockets that containerd takes: with a name of 64 letters
	// below it, a path is as long as the kernel allows for a socket (unix(7)).
	maxShimFolder = 42
	maxLinkName   = 15
)

func (c Config) validate() error {
	var faults []error
	for _, program := range []string{"containerd", "ctr", "containerd-shim-runc-v2", "runc"} {
		if _, err := os.Stat(filepath.Join(c.BundleDir, program)); err != nil {
			faults = append(faults, fmt.Errorf("bundle lacks %s: %w", program, err))
		}
	}
	if !filepath.IsAbs(c.StateDir) {
		faults = append(faults, fmt.Errorf("state folder %q is not absolute", c.StateDir))
	}
	if sockets := statedir.ShimSockets(c.StateDir); len(sockets) > maxShimFolder {
		faults = append(faults, fmt.Errorf("path %s of shims' sockets has %d bytes, %d at most: choose a shorter state folder", sockets, len(sockets), maxShimFolder))
	}
	if c.Container == "" {
		faults = append(faults, errors.New("id of the Mesos container is not set"))
	}
	if c.LogFile == "" {
		faults = append(faults, errors.New("log file is not set"))
	}
	if c.CNIConfDir != "" {
		if found, err := filepath.Glob(filepath.Join(c.CNIConfDir, "*.conf*")); err != nil || len(found) == 0 {
			faults = append(faults, fmt.Errorf("cniConfDir %s has no network configuration (*.conf, *.conflist)", c.CNIConfDir))
		}
	} else if _, _, err := net.ParseCIDR(c.PodCIDR); err != nil {
		faults = append(faults, fmt.Errorf("pod range: %w", err))
	}
	if c.Bridge == "" || len(c.Bridge) > maxLinkName {
		faults = append(faults, fmt.Errorf("bridge name %q must have 1 to %d characters", c.Bridge, maxLinkName))
	}
	if len(faults) > 0 {
		return fmt.Errorf("container runtime: %w: %w", errdefs.ErrInvalid, errors.Join(faults...))
	}
	return nil
}

func (c Config) socket() string     { return filepath.Join(c.StateDir, "containerd.sock") }
func (c Config) configFile() string { return filepath.Join(c.StateDir, "containerd.toml") }
func (c Config) netDir() string     { return filepath.Join(c.StateDir, "cni", "net.d") }
func (c Config) ipamDir() string    { return filepath.Join(c.StateDir, "cni", "ipam") }
func (c Config) markDir() string    { return filepath.Join(c.StateDir, "imported") }

// host is what the machine offers.
type host struct {
	// SysResource: we may lower oom_score_adj. Without it every sandbox fails unless containerd restricts itself.
	SysResource bool
	// AppArmor is on.
	AppArmor bool
	// IPTables: the program exists; else the network plugins use nft.
	IPTables bool
}

func detect() host {
	var h host
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err == nil {
		h.SysResource = data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
	}
	// A machine without AppArmor has no such file.
	enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	h.AppArmor = err == nil && strings.HasPrefix(string(enabled), "Y")
	_, err = exec.LookPath("iptables")
	h.IPTables = err == nil
	return h
}

// containerdConfig is containerd's configuration, format 4. The network namespaces are kept below the state folder, so
// that one look at the mounts there finds all that is left of a dead run, and so are the sockets of shims.
var containerdConfig = template.Must(template.New("containerd").Parse(`version = 4
root = '{{.Config.StateDir}}/root'
state = '{{.Config.StateDir}}/state'
temp = ''
disabled_plugins = ['io.containerd.internal.v1.opt', 'io.containerd.nri.v1.nri', 'io.containerd.image-verifier.v1.bindir', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs', 'io.containerd.differ.v1.erofs', 'io.containerd.mount-handler.v1.erofs']

[plugins.'io.containerd.server.v1.grpc']
  address = '{{.Config.StateDir}}/containerd.sock'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{{.Config.StateDir}}/containerd.sock.ttrpc'
[plugins.'io.containerd.shim.v1.manager']
  socket_dir = '{{.ShimSockets}}'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{{.Pause}}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = {{not .Host.AppArmor}}
  restrict_oom_score_adj = {{not .Host.SysResource}}
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '{{.Config.BundleDir}}/runc'
      Root = '{{.Config.StateDir}}/runc'
      SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{{.Config.BundleDir}}/cni'{{if .Config.CNIConfDir}}, '/opt/cni/bin'{{end}}]
    conf_dir = '{{.Config.ConfDir}}'
`))

// ConfDir is where containerd finds the network configuration.
func (c Config) ConfDir() string { return cmp.Or(c.CNIConfDir, c.netDir()) }

func (c Config) containerd(h host) (string, error) {
	var text strings.Builder
	err := containerdConfig.Execute(&text, map[string]any{"Config": c, "Host": h, "Pause": PauseImage, "ShimSockets": statedir.ShimSockets(c.StateDir)})
	if err != nil {
		return "", fmt.Errorf("containerd configuration: %w", err)
	}
	return text.String(), nil
}

// network is the CNI configuration list: a bridge with addresses out of our range, and host ports.
func (c Config) network(h host) ([]byte, error) {
	backend := "nftables"
	if h.IPTables {
		backend = "iptables"
	}
	list := map[string]any{
		"cniVersion": "1.0.0",
		"name":       "mesopod",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": c.Bridge, "isGateway": true, "ipMasq": c.Masquerade, "ipMasqBackend": backend,
				"hairpinMode": true, "mtu": c.MTU,
				"ipam": map[string]any{
					"type": "host-local", "dataDir": c.ipamDir(),
					"ranges": []any{[]any{map[string]any{"subnet": c.PodCIDR}}},
					"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": "portmap", "backend": backend, "capabilities": map[string]any{"portMappings": true}},
		},
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("network configuration: %w", err)
	}
	return text, nil
}

// write puts both files in their place.
func (c Config) write(h host) error {
	for _, folder := range []string{c.StateDir, c.netDir(), c.ipamDir(), c.markDir()} {
		if err := os.MkdirAll(folder, 0o711); err != nil {
			return fmt.Errorf("state folder: %w", err)
		}
	}
	text, err := c.containerd(h)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.configFile(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("containerd configuration: %w", err)
	}
	if c.CNIConfDir != "" {
		return nil
	}
	list, err := c.network(h)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.netDir(), "10-mesopod.conflist"), list, 0o600); err != nil {
		return fmt.Errorf("network configuration: %w", err)
	}
	return nil
}

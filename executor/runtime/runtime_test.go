package runtime

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/executor/statedir"
	"github.com/mesopod/mesopod/internal/errdefs"
)

func bundle(t *testing.T) string {
	dir := t.TempDir()
	for _, program := range []string{"containerd", "ctr", "containerd-shim-runc-v2", "runc"} {
		if err := os.WriteFile(filepath.Join(dir, program), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestValidate(t *testing.T) {
	good := Config{BundleDir: bundle(t), StateDir: "/run/mesopod/a1", Container: "c1", LogFile: "/x", Bridge: "mpod0", PodCIDR: "10.1.2.0/24"}
	if err := good.validate(); err != nil {
		t.Fatal(err)
	}
	for part, change := range map[string]func(*Config){
		"bundle lacks runc":    func(c *Config) { c.BundleDir = t.TempDir() },
		"not absolute":         func(c *Config) { c.StateDir = "run" },
		"shorter state folder": func(c *Config) { c.StateDir = "/" + strings.Repeat("x", 40) },
		"Mesos container":      func(c *Config) { c.Container = "" },
		"log file":             func(c *Config) { c.LogFile = "" },
		"bridge name":          func(c *Config) { c.Bridge = "sixteen-letters-x" },
		"pod range":            func(c *Config) { c.PodCIDR = "10.1.2.0" },
	} {
		bad := good
		change(&bad)
		if err := bad.validate(); !errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

// The configuration keeps everything below the state folder and follows what the machine can do.
func TestContainerdConfig(t *testing.T) {
	c := Config{BundleDir: "/opt/mesopod", StateDir: "/run/mesopod/a1"}
	text, err := c.containerd(host{SysResource: false, AppArmor: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"version = 4", "root = '/run/mesopod/a1/root'", "state = '/run/mesopod/a1/state'", "address = '/run/mesopod/a1/containerd.sock'",
		"socket_dir = '/run/mesopod/a1/s'",
		"sandbox = '" + PauseImage + "'", "restrict_oom_score_adj = true", "disable_apparmor = false",
		"netns_mounts_under_state_dir = true", "BinaryName = '/opt/mesopod/runc'", "Root = '/run/mesopod/a1/runc'",
		"bin_dirs = ['/opt/mesopod/cni']", "conf_dir = '/run/mesopod/a1/cni/net.d'",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

func TestNetworkConfig(t *testing.T) {
	text, err := Config{StateDir: "/s", Bridge: "mpod0", PodCIDR: "10.1.2.0/24"}.network(host{IPTables: false})
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		CNIVersion string
		Plugins    []struct {
			Type, Bridge, IPMasqBackend, Backend string
			IPAM                                 struct {
				DataDir string
				Ranges  [][]struct{ Subnet string }
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	bridge, portmap := list.Plugins[0], list.Plugins[1]
	if bridge.Bridge != "mpod0" || bridge.IPMasqBackend != "nftables" || bridge.IPAM.DataDir != "/s/cni/ipam" ||
		bridge.IPAM.Ranges[0][0].Subnet != "10.1.2.0/24" || portmap.Backend != "nftables" || list.CNIVersion != "1.0.0" {
		t.Errorf("list %s", text)
	}
}

// EX-112: only the shims of our own containerd count.
func TestIsShim(t *testing.T) {
	line := func(arguments ...string) []byte { return []byte(strings.Join(arguments, "\x00") + "\x00") }
	const socket = "/run/mesopod/a1/containerd.sock"
	for _, c := range []struct {
		line []byte
		want bool
	}{
		{line("/b/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "x", "-address", socket), true},
		{line("/b/containerd-shim-runc-v2", "-address", "/run/mesopod/a10/containerd.sock"), false},
		{line("/b/ctr", "--address", socket), false},
		{nil, false},
	} {
		if got := isShim(c.line, socket); got != c.want {
			t.Errorf("%q: %v", c.line, got)
		}
	}
	const config = "/run/mesopod/a1/containerd.toml"
	for _, c := range []struct {
		line []byte
		want bool
	}{
		{line("/b/containerd", "--config", config), true},
		{line("/b/containerd", "--config", "/run/mesopod/a10/containerd.toml"), false},
		{line("vi", config), false},
		{nil, false},
	} {
		if got := isContainerd(c.line, config); got != c.want {
			t.Errorf("%q: %v", c.line, got)
		}
	}
}

// The sockets of shims that were killed go before containerd starts; those of the living stay.
func TestRemoveDeadSockets(t *testing.T) {
	c := Config{StateDir: t.TempDir()}
	folder := statedir.ShimSockets(c.StateDir)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alive", "dead"} {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, name)})
		if err != nil {
			t.Fatal(err)
		}
		listener.SetUnlinkOnClose(false)
		defer listener.Close()
		if name == "dead" {
			listener.Close()
		}
	}
	c.removeDeadSockets()
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "alive" {
		t.Errorf("left are %v, error %v; want alive", left, err)
	}
}

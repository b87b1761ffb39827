package controlplane

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/contrib/manifests"
)

// Faults are told together, by name, and nothing is made.
func TestNewTellsAllFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	busyPort := busy.Addr().(*net.TCPAddr).Port
	local := net.IPv4(127, 0, 0, 1)

	for _, tc := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"nothing given", Config{}, []string{"set Dir", "no address"}},
		{"folder under a file", Config{Dir: filepath.Join(file, "x"), Address: local}, []string{"cannot be made"}},
		{"folder is a file", Config{Dir: file, Address: local}, []string{"cannot be made"}},
		{"path too long", Config{Dir: "/tmp/" + strings.Repeat("x", 100), Address: local}, []string{"choose a shorter one"}},
		{"port busy", Config{Dir: t.TempDir(), Address: local, Port: busyPort}, []string{"taken by another program"}},
		{"port wrong", Config{Dir: t.TempDir(), Address: local, Port: 70000}, []string{"70000"}},
		{"foreign address", Config{Dir: t.TempDir(), Address: net.IPv4(203, 0, 113, 77)}, []string{"203.0.113.77 is not on this machine"}},
		{"any address", Config{Dir: t.TempDir(), Address: net.IPv4zero}, []string{"no address"}},
		{"ranges", Config{Dir: t.TempDir(), Address: local, ServiceCIDR: "10.0.0.0/30", PodCIDR: "pods"}, []string{"service range 10.0.0.0/30 is too small", "pod range"}},
		{"small pod range", Config{Dir: t.TempDir(), Address: local, PodCIDR: "10.1.0.0/25"}, []string{"pod range 10.1.0.0/25 is too small"}},
		{"overlap", Config{Dir: t.TempDir(), Address: local, ServiceCIDR: "10.0.0.0/16", PodCIDR: "10.0.0.0/8"}, []string{"overlap"}},
		{"three at once", Config{Dir: file, Address: local, Port: busyPort, ServiceCIDR: "x"}, []string{"cannot be made", "service range", "taken"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := New(tc.cfg)
			if err == nil {
				t.Fatalf("New accepts it: %s", p.Server())
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q: %v", want, err)
				}
			}
			if _, err := os.Stat(filepath.Join(tc.cfg.Dir, "pki")); tc.cfg.Dir != "" && err == nil {
				t.Error("New made certificates in spite of the fault")
			}
		})
	}
}

// A folder that a control plane uses is refused to a second one.
func TestNewRefusesFolderInUse(t *testing.T) {
	dir := t.TempDir()
	lock, err := files{dir: dir}.lock()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dir: dir, Address: net.IPv4(127, 0, 0, 1)}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "in use by another control plane") {
		t.Errorf("New = %v, want: in use", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg); err != nil {
		t.Errorf("New after the other has ended: %v", err)
	}
}

func TestDecode(t *testing.T) {
	objects, err := decode([]byte("a: 1\n---\n---\n# only a comment\n---\nb: 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 2 {
		t.Errorf("%d documents, want 2", len(objects))
	}
	if _, err := decode([]byte("a: [")); err == nil {
		t.Error("decode accepts broken YAML")
	}
}

// Every kind in the manifests has a resource here, else Run fails late.
func TestManifestKindsAreKnown(t *testing.T) {
	for name, file := range map[string]struct {
		data  []byte
		least int
	}{
		"rbac.yaml":            {manifests.RBAC, 10},
		"policies.yaml":        {manifests.Policies, 4},
		"other-scheduler.yaml": {manifests.OtherScheduler, 2},
		"dns.yaml":             {manifests.DNS, 6},
	} {
		objects, err := decode(file.data)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if resources[o.GroupVersionKind()] == "" {
				t.Errorf("%s: %s %s: kind is not in resources", name, o.GroupVersionKind(), o.GetName())
			}
		}
		if len(objects) < file.least {
			t.Errorf("only %d objects in %s", len(objects), name)
		}
	}
}

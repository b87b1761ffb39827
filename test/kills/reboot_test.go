package kills

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// What a host that went down under an executor has left is cleaned up when the next one starts: mounts, network
// namespaces, all addresses of the range leased, containers' records, cgroups. The second agent had no executor yet.
func TestLeftoversOfReboot(t *testing.T) {
	state := filepath.Join(suite.StateDir, "a2")
	lease := filepath.Join(state, "cni", "ipam", "mesopod")
	netns := filepath.Join(state, "state", "io.containerd.grpc.v1.cri", "netns", "cni-gone")
	mount := filepath.Join(state, "kubelet", "pods", "gone", "volumes", "tmpfs")
	record := filepath.Join(state, "state", "io.containerd.runtime.v2.task", "k8s.io", "gone")
	socket := filepath.Join(state, "s", strings.Repeat("0", 64))
	for _, dir := range []string{lease, filepath.Dir(netns), mount, record, filepath.Dir(socket)} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	var faults []error
	for n := 2; n < 255; n++ {
		faults = append(faults, os.WriteFile(filepath.Join(lease, fmt.Sprintf("10.89.2.%d", n)), []byte("gone\neth0"), 0o600))
	}
	faults = append(faults,
		os.WriteFile(filepath.Join(state, "container"), []byte("gone\n"), 0o600),
		os.WriteFile(netns, nil, 0o444), unix.Mount("/proc/self/ns/net", netns, "", unix.MS_BIND, ""),
		unix.Mount("tmpfs", mount, "tmpfs", 0, "size=4k"),
		os.WriteFile(socket, nil, 0o600))
	groups, err := filepath.Glob("/sys/fs/cgroup/*/mesopod")
	if err != nil || len(groups) == 0 {
		t.Fatal("no cgroups", err)
	}
	// Both kinds: where Mesos' launcher makes cgroups, and where the keeper does.
	var planted []string
	for _, parent := range groups {
		for _, name := range []string{"local-a2/gone", "executors/gone"} {
			// The freezer's would say that Mesos' container lives.
			if launcher := !strings.Contains(parent, "freezer"); launcher && strings.HasPrefix(name, "local") == linux() {
				planted = append(planted, filepath.Join(parent, name))
			}
		}
	}
	for _, dir := range planted {
		faults = append(faults, os.MkdirAll(filepath.Join(dir, "kubepods"), 0o755))
	}
	if err := errors.Join(faults...); err != nil {
		t.Fatal(err)
	}
	pod := suite.Create(t, cluster.OnNode(cluster.NewPod("rebooted", cluster.Steady), node2))
	pod = suite.WaitPhase(t, pod.Name, corev1.PodRunning)
	suite.WaitTask(t, pod, "TASK_RUNNING")
	points, err := cluster.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range points {
		if strings.HasPrefix(point, netns+" ") || strings.HasPrefix(point, mount+" ") {
			t.Errorf("mount %s is there", point)
		}
	}
	for _, path := range append(planted, socket, record, netns, filepath.Join(lease, "10.89.2.200")) {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there, error %v", path, err)
		}
	}
}

// linux tells whether the cluster's agents have the linux launcher: then they have made cgroups.
func linux() bool {
	found, err := filepath.Glob("/sys/fs/cgroup/freezer/mesopod/local-a*")
	return err == nil && len(found) > 0
}

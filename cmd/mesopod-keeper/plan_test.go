package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mountinfo = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset,clone_children
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:32 /other /mnt/memory rw,relatime - cgroup cgroup rw,memory
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/lib/systemd/systemd-cgroups-agent,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`

func cgroupsOf(freezer, memory, rest string) string {
	return strings.NewReplacer("F", freezer, "M", memory, "R", rest).Replace("6:freezer:F\n5:pids:R\n4:memory:M\n3:cpuset:R\n2:cpuacct,cpu:M\n1:name=systemd:R\n0::R\n")
}

func TestHierarchies(t *testing.T) {
	got, err := hierarchies(cgroupsOf("/mesos/c1", "/mesos/c1", "/"), mountinfo)
	if err != nil {
		t.Fatal(err)
	}
	want := []hierarchy{ // pids is not mounted
		{"freezer", "/sys/fs/cgroup/freezer", "/mesos/c1"},
		{"memory", "/sys/fs/cgroup/memory", "/mesos/c1"},
		{"cpuset", "/sys/fs/cgroup/cpuset", "/"},
		{"cpuacct,cpu", "/sys/fs/cgroup/cpu,cpuacct", "/mesos/c1"},
		{"name=systemd", "/sys/fs/cgroup/systemd", "/"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(hierarchy{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := version2Mount(mountinfo); got != "/sys/fs/cgroup/unified" {
		t.Errorf("version 2 at %q", got)
	}
}

func TestVersion2Only(t *testing.T) {
	_, err := hierarchies("0::/system.slice/mesos\n", "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	if !errors.Is(err, errVersion2) {
		t.Errorf("error %v", err)
	}
}

func TestPlan(t *testing.T) {
	for name, c := range map[string]struct {
		cgroups string
		cgroup  string
		own     bool
		joins   []string
	}{
		"linux launcher with isolators": {cgroupsOf("/mesos/c1", "/mesos/c1", "/"), "/mesos/c1", false, []string{"cpuset", "name=systemd"}},
		"linux launcher alone":          {cgroupsOf("/mesos/c1", "/", "/"), "/mesos/c1", false, []string{"memory", "cpuset", "cpuacct,cpu", "name=systemd"}},
		"posix, agent in the root":      {cgroupsOf("/", "/", "/"), "/mesopod/executors/c1", true, []string{"freezer", "memory", "cpuset", "cpuacct,cpu", "name=systemd"}},
		"posix, agent in a service":     {cgroupsOf("/", "/system.slice/a", "/system.slice/a"), "/mesopod/executors/c1", true, []string{"freezer", "memory", "cpuset", "cpuacct,cpu", "name=systemd"}},
		"started again":                 {cgroupsOf("/mesos/c1", "/mesos/c1", "/mesos/c1"), "/mesos/c1", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := hierarchies(c.cgroups, mountinfo)
			if err != nil {
				t.Fatal(err)
			}
			p, err := planFor(all, "c1")
			if err != nil || p.cgroup != c.cgroup || p.own != c.own {
				t.Fatalf("plan %+v, error %v", p, err)
			}
			var joins []string
			for _, s := range p.steps {
				if s.join {
					joins = append(joins, s.hierarchy.name)
				}
				if diff := cmp.Diff(ancestors(c.cgroup), s.ancestors); diff != "" {
					t.Errorf("ancestors (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(c.joins, joins); diff != "" {
				t.Errorf("joins (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAncestors(t *testing.T) {
	if diff := cmp.Diff([]string{"/a", "/a/b", "/a/b/c"}, ancestors("/a/b/c")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlanNeedsContainer(t *testing.T) {
	for _, id := range []string{"", ".", "/", "a/b"} {
		if _, err := planFor(nil, id); err == nil {
			t.Errorf("container %q was taken", id)
		}
	}
}

// The kubelet's way to die without /dev/kmsg becomes a message that names the agent's flag.
func TestCheckKmsg(t *testing.T) {
	if err := checkKmsg(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	file := filepath.Join(t.TempDir(), "kmsg")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkKmsg(file); err != nil {
		t.Errorf("readable file: %v", err)
	}
}

func FuzzHierarchies(f *testing.F) {
	f.Add(cgroupsOf("/", "/", "/"), mountinfo)
	f.Add("::\n0", " - \n1 2 3 / 5 - cgroup")
	f.Fuzz(func(t *testing.T, cgroups, mountinfo string) {
		all, err := hierarchies(cgroups, mountinfo)
		if err != nil {
			return
		}
		if p, err := planFor(all, "c1"); err != nil || !strings.HasSuffix(p.cgroup, "/c1") {
			t.Errorf("plan %+v, error %v", p, err)
		}
		version2Mount(mountinfo)
	})
}

// A cgroup whose keeper is gone is swept though its executor, which is called mesopod, lives on in it.
func TestNamesKeeper(t *testing.T) {
	for comm, want := range map[string]bool{
		"mesopod-keeper\n": true, "mesopod\n": false, "mesopod-\n": false, "\n": false, "mesopod-keeperx\n": false, "m\n": false,
	} {
		if got := namesKeeper(comm); got != want {
			t.Errorf("comm %q is a keeper's: %t, want %t", comm, got, want)
		}
	}
}

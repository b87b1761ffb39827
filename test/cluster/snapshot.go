package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// snapshot is what a machine looks like: for each kind of thing, the things.
type snapshot map[string][]string

// takeSnapshot looks at everything that a cluster could leave behind.
func (c *Cluster) takeSnapshot() (snapshot, error) {
	s := snapshot{}
	var errs []error
	for kind, look := range map[string]func() ([]string, error){
		"process": c.processes, "mount": Mounts, "link": links, "cgroup": cgroups, "rule": rules, "sysctl": sysctls, "file": files,
	} {
		things, err := look()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind, err))
		}
		s[kind] = things
	}
	return s, errors.Join(errs...)
}

// nothingLeft tells how the machine differs from before. It looks for a while: the kernel removes some things after
// the last who used them is gone.
func (c *Cluster) nothingLeft(before snapshot) []string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var diff []string
	// The answer is in diff.
	_ = Poll(ctx, func(context.Context) error {
		after, err := c.takeSnapshot()
		if err != nil {
			diff = []string{err.Error()}
			return err
		}
		if diff = before.diff(after); len(diff) > 0 {
			return errors.New("not yet")
		}
		return nil
	})
	return diff
}

func (s snapshot) diff(after snapshot) []string {
	var diff []string
	for kind, things := range after {
		for _, thing := range things {
			if !slices.Contains(s[kind], thing) {
				diff = append(diff, "new "+kind+": "+thing)
			}
		}
		for _, thing := range s[kind] {
			// What other programs have may go with them, but settings, rules and links are everybody's.
			if slices.Contains([]string{"sysctl", "rule", "link"}, kind) && !slices.Contains(things, thing) {
				diff = append(diff, "gone "+kind+": "+thing)
			}
		}
	}
	slices.Sort(diff)
	return diff
}

// processes are those that run a program of the bundle or of Mesos, work on the state folder, or carry its mark, and
// those in another network namespace than ours.
func (c *Cluster) processes() ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		dir := "/proc/" + e.Name()
		if e.Name()[0] < '0' || e.Name()[0] > '9' || e.Name() == fmt.Sprint(os.Getpid()) {
			continue
		}
		// Whatever cannot be read has ended.
		command, _ := os.ReadFile(dir + "/cmdline")
		environment, _ := os.ReadFile(dir + "/environ")
		namespace, err := os.Readlink(dir + "/ns/net")
		line := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
		ours := err == nil && namespace != own || strings.Contains(string(environment), "MESOPOD_LOCAL="+c.StateDir)
		for _, word := range []string{c.StateDir, BundleDir() + "/", MesosDir() + "/"} {
			ours = ours || strings.Contains(line, word)
		}
		if ours {
			found = append(found, e.Name()+" "+line)
		}
	}
	return found, nil
}

// Mounts are the points and types of all mounts of this mount namespace.
func Mounts() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		front, back, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(front); len(fields) > 4 {
			found = append(found, fields[4]+" "+strings.Join(strings.Fields(back)[:2], " "))
		}
	}
	return found, nil
}

// links are the network links of this namespace with their addresses, its routes, and the named namespaces.
func links() ([]string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		found = append(found, fmt.Sprintf("%s %v", i.Name, addresses))
	}
	for _, file := range []string{"/proc/net/route", "/proc/net/ipv6_route"} {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); file == "/proc/net/route" && len(fields) > 2 {
				found = append(found, "route "+strings.Join(fields[:3], " "))
			} else if len(fields) == 10 {
				found = append(found, "route "+fields[0]+" "+fields[9])
			}
		}
	}
	entries, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		found = append(found, "network namespace "+e.Name())
	}
	return found, nil
}

// cgroups are those of mesopod and of kubelets in all hierarchies.
func cgroups() ([]string, error) {
	var found []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if e.IsDir() && (strings.Contains(path, "mesopod") || strings.Contains(path, "kubepods")) {
			found = append(found, path)
		}
		return nil
	})
	return found, err
}

// rules are the firewall rules of this namespace.
func rules() ([]string, error) {
	var found []string
	for _, command := range [][]string{{"nft", "list", "ruleset"}, {"iptables-save"}, {"ip6tables-save"}} {
		if _, err := exec.LookPath(command[0]); err != nil {
			continue
		}
		out, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command[0], err)
		}
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSpace(line)
			// Comments hold the time, and chains their counters.
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			line, _, _ = strings.Cut(line, " [")
			found = append(found, command[0]+": "+line)
		}
	}
	return found, nil
}

// restless are settings that change by themselves.
var restless = []string{
	"/proc/sys/kernel/random/", "/proc/sys/fs/dentry-state", "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-", "/proc/sys/fs/aio-nr", "/proc/sys/fs/quota/",
	"/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/pty/nr", "/proc/sys/kernel/perf_event_max_sample_rate",
	"/proc/sys/net/netfilter/nf_conntrack_count", "/proc/sys/net/ipv4/neigh/", "/proc/sys/net/ipv6/neigh/", "/proc/sys/vm/stat",
}

// ofOneLink are settings of single links: they come and go with the link, which is looked at by itself.
var ofOneLink = regexp.MustCompile(`^/proc/sys/net/ipv[46]/conf/`)

// changes tells whether a setting cannot be compared.
func changes(path string) bool {
	return slices.ContainsFunc(restless, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) ||
		ofOneLink.MatchString(path) && !strings.Contains(path, "/conf/all/") && !strings.Contains(path, "/conf/default/")
}

// firstSysctls are the settings at the first look. A kernel module that is loaded later brings new ones, which nobody
// has changed.
var firstSysctls map[string]bool

func sysctls() ([]string, error) {
	var found []string
	seen := map[string]bool{}
	err := filepath.WalkDir("/proc/sys", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || changes(path) {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil // write only
		}
		seen[path] = true
		if firstSysctls == nil || firstSysctls[path] {
			found = append(found, path+" = "+strings.TrimSpace(string(data)))
		}
		return nil
	})
	if firstSysctls == nil {
		firstSysctls = seen
	}
	return found, err
}

// files are those in the folders that kubelets, containerd, runc, CNI and Mesos use whatever their settings.
func files() ([]string, error) {
	var found []string
	for _, folder := range []string{
		"/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd", "/var/log/containers", "/var/log/pods", "/run/containerd", "/run/runc",
		"/run/mesopod", "/etc/cni", "/opt/cni", "/opt/containerd", "/usr/libexec/kubernetes", "/var/run/mesos", "/tmp/mesos",
	} {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				found = append(found, path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hostSysctls are the kernel settings that a kubelet or a CNI plugin may change for the whole machine.
var hostSysctls = []string{
	"vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops",
	"kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding",
}

// hostFolders are the places outside our own folders that the kubelet and containerd write to, whatever their settings.
// The agents' kubelets and containerds share them: files there are named after containers, whose ids differ, but for the
// device plugin registry below /var/lib/kubelet, which the kubelet that started last has.
var hostFolders = []string{
	"/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd", "/var/log/containers", "/var/log/pods", "/run/containerd", "/run/netns",
	"/etc/cni", "/opt/cni", "/opt/containerd", "/usr/libexec/kubernetes", "/run/runc", "/var/run/mesos",
}

// hostState is what the machine was like before the first change.
type hostState struct {
	// Sysctls by name, as read.
	Sysctls map[string]string `json:"sysctls"`
	// Folders are those of hostFolders that were there.
	Folders []string `json:"folders"`
}

func sysctlPath(name string) string {
	return filepath.Join("/proc/sys", filepath.FromSlash(strings.ReplaceAll(name, ".", "/")))
}

// saveHost records the machine's state, for restoreHost after a stop or a kill.
func saveHost(l layout) error {
	state := hostState{Sysctls: map[string]string{}}
	for _, name := range hostSysctls {
		value, err := os.ReadFile(sysctlPath(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // not every kernel has each
		}
		if err != nil {
			return fmt.Errorf("read sysctl %s: %w", name, err)
		}
		state.Sysctls[name] = strings.TrimSpace(string(value))
	}
	for _, folder := range hostFolders {
		if _, err := os.Lstat(folder); err == nil {
			state.Folders = append(state.Folders, folder)
		}
	}
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(l.host(), data); err != nil {
		return fmt.Errorf("save the machine's settings: %w", err)
	}
	return nil
}

// restoreHost gives the machine back what saveHost recorded, if there is a record, and removes the record.
func restoreHost(l layout) error {
	data, err := os.ReadFile(l.host())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the machine's settings: %w", err)
	}
	var state hostState
	if err := json.Unmarshal(data, &state); err != nil {
		return fmt.Errorf("read the machine's settings from %s: %w; remove it to give up on restoring them", l.host(), err)
	}
	var errs []error
	for name, value := range state.Sysctls {
		if now, err := os.ReadFile(sysctlPath(name)); err == nil && strings.TrimSpace(string(now)) == value {
			continue
		}
		if err := os.WriteFile(sysctlPath(name), []byte(value), 0); err != nil {
			errs = append(errs, fmt.Errorf("restore sysctl %s=%s: %w", name, value, err))
		}
	}
	live, err := liveSockets()
	errs = append(errs, err)
	for _, folder := range hostFolders {
		if !slices.Contains(state.Folders, folder) {
			errs = append(errs, prune(folder, live))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return os.Remove(l.host())
}

// kubeletFiles are files without owner that a kubelet leaves in a folder of its own.
var kubeletFiles = []string{"kubelet_internal_checkpoint", "kubelet.sock", "DEPRECATION"}

// prune removes what a kubelet and a containerd leave in a folder that was not there before: empty folders, and the
// sockets of programs that have ended. Files that somebody else put there since stay, and with them the folder.
func prune(folder string, live map[string]bool) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		switch {
		case e.IsDir():
			if err := prune(path, live); err != nil {
				return err
			}
		case live[path]:
		case e.Type()&(fs.ModeSocket|fs.ModeNamedPipe) != 0, slices.Contains(kubeletFiles, e.Name()):
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		return err
	}
	return os.Remove(folder)
}

// liveSockets are the paths of the unix sockets that a program has open.
func liveSockets() (map[string]bool, error) {
	// Of this thread: /proc/net is that of the process's first thread, which may be in another network namespace.
	data, err := os.ReadFile("/proc/thread-self/net/unix")
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	live := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 8 {
			live[fields[7]] = true
		}
	}
	return live, nil
}

// writeFile writes beside path and renames, mode 0600, so that a reader finds the old file or the whole new one.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

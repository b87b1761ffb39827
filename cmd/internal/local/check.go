package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// fault is an error for people to read, of a kind that they need not read.
type fault struct {
	text string
	kind error
}

func newFault(kind error, format string, args ...any) error {
	return &fault{text: fmt.Sprintf(format, args...), kind: kind}
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.kind }

// tools are programs of the system that parts of a local cluster run, with who needs them.
var tools = map[string]string{
	"nsenter": "to start an agent in its network namespace; package util-linux",
	"mount":   "the kubelet mounts volumes with it; package mount",
	"python3": "the Mesos fetcher is written in it; package python3-minimal",
}

// bundleFiles are the files that a bundle must have.
var bundleFiles = []string{
	"mesopod", "mesopod-keeper", "containerd", "ctr", "containerd-shim-runc-v2", "runc",
	"cni/bridge", "cni/host-local", "cni/loopback", "cni/portmap", "images/pause.tar", "images/dns.tar",
}

// mesosFiles are the files that an installed Mesos must have.
var mesosFiles = []string{"mesos-master", "mesos-agent", "mesos-containerizer", "mesos-fetcher"}

// checkMachine tells all that this machine lacks, without changing it.
func checkMachine(l layout, a addresses) error {
	var faults []error
	if os.Geteuid() != 0 {
		faults = append(faults, newFault(errdefs.ErrRefused, "local mode needs root: it makes network namespaces, cgroups and mounts"))
	}
	missing := func(what, why string) {
		faults = append(faults, newFault(errdefs.ErrNotFound, "%s is missing: %s", what, why))
	}
	need, programs := bundleFiles, mesosFiles
	if l.external() {
		need = []string{"mesopod"}
	}
	// A folder that is not there is one fault, of the flag, not one for each file in it.
	if err := checkFolder("--bundle-dir", l.BundleDir); err != nil {
		faults, need = append(faults, err), nil
	}
	for _, name := range need {
		if _, err := os.Stat(l.bundle(name)); err != nil {
			missing("bundle file "+l.bundle(name), "build it (make build runtime images), or name another folder with --bundle-dir")
		}
	}
	if l.external() {
		return errors.Join(faults...)
	}
	for tool, why := range tools {
		if !hasProgram(tool) && !(tool == "python3" && l.simulated()) {
			missing("program "+tool, why)
		}
	}
	if !hasProgram("iptables") && !hasProgram("nft") {
		missing("program iptables, and nft too,", "network plugins use one of them; package iptables or nftables")
	}
	if l.simulated() {
		programs = nil
	} else if err := checkFolder("--mesos-dir", l.MesosDir); err != nil {
		faults, programs = append(faults, err), nil
	}
	for _, name := range programs {
		if _, err := os.Stat(l.mesos(name)); err != nil {
			missing("Mesos program "+l.mesos(name), "install Mesos (make mesos), or name another folder with --mesos-dir")
		}
	}
	if l.Launcher == "linux" && !cgroupsV1Usable() {
		faults = append(faults, newFault(errdefs.ErrInvalid, "--launcher=linux needs cgroup v1 hierarchies cpu, cpuacct, memory and freezer, which this machine lacks: use --launcher=posix"))
	}
	return errors.Join(append(faults, checkSubnet(a))...)
}

func checkFolder(flag, dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return newFault(errdefs.ErrInvalid, "%s=%s: there is no such folder; make mesos runtime images build makes ./bin/bundle and ./bin/mesos", flag, dir)
	}
	return nil
}

func hasProgram(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// instance is the right to run the one local cluster of this machine.
type instance struct {
	file   *os.File
	socket net.Listener
}

// acquire takes the machine and the state folder for this process. Links, ports and cgroups have fixed names, so the
// machine has room for one local cluster, whatever its folder: an abstract socket says who has it, and vanishes with
// its process. The folder is locked too because it may be seen from another network namespace.
func acquire(l layout) (*instance, error) {
	socket, err := net.Listen("unix", "@mesopod-local")
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, newFault(errdefs.ErrConflict, "a local cluster runs on this machine already: end that first (Ctrl-C in its terminal, or SIGTERM)")
	}
	if err != nil {
		return nil, fmt.Errorf("take this machine: %w", err)
	}
	i := &instance{socket: socket}
	if err := os.MkdirAll(l.StateDir, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("make state folder: %w", err), i.release())
	}
	i.file, err = os.OpenFile(l.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open lock: %w", err), i.release())
	}
	if err := syscall.Flock(int(i.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(newFault(errdefs.ErrConflict, "state folder %s is in use by another local cluster", l.StateDir), i.release())
	}
	return i, nil
}

func (i *instance) release() error {
	var errs []error
	if i.file != nil {
		errs = append(errs, i.file.Close())
	}
	return errors.Join(append(errs, i.socket.Close())...)
}

// Package controlplane runs etcd, kube-apiserver and kube-controller-manager,
// all stock, inside this process: the control plane of local mode and of
// tests. It exists because those must need nothing but our own binary. With
// executor/kubelet, executor/proxy and scheduler/kube it is one of the four that may
// import k8s.io/kubernetes; certificates alone come from package pki.
//
// Order of calls: [New] checks the configuration, reserves nothing and starts
// nothing, but leaves certificates and kubeconfigs under Config.Dir, so that
// the other programs can be prepared; [Plane.Run] starts the parts one after
// the other, closes [Plane.Ready] when pods can be created, blocks until its
// context ends or a part does, and stops them in reverse order: controllers,
// API server, etcd.
//
//	etcd ──ready──▶ kube-apiserver ──/readyz──▶ kube-controller-manager ──▶ Ready
//	                                        └─▶ RBAC, policies applied  ──┘
//
// Run owns one goroutine per part and waits for all of them. The Kubernetes
// components however leave goroutines of their own behind after they have
// returned (informers, rate limiters, log flushers), and their feature gates,
// metrics and configz registries belong to the whole process. So a process
// runs one control plane in its life (a second Run is an error), and it should
// end soon after Run has returned. They also end the whole process themselves
// when their start fails for good, so a caller with something to lose runs the
// control plane in a process of its own.
//
// Two process-wide settings are changed: client-go's default warning handler is
// silenced, as the stock commands do, and the feature gate registry is set to
// its defaults and [Config.FeatureGates]. Log flags are not touched: klog's output goes where the caller
// has sent it; etcd's errors go to etcd.log in Config.Dir.
package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/mesopod/mesopod/internal/pki"
)

// Config says where a control plane lives.
type Config struct {
	// Dir keeps everything: etcd's data, keys, kubeconfigs, etcd's log. It is
	// made if missing; what an earlier run left in it is used again.
	Dir string
	// Address is the one address the API server binds and advertises; kubelets
	// and pods reach it there. A loopback address serves this machine only, and
	// the Service "kubernetes" then has no endpoint.
	Address net.IP
	// Port is the API server's port; 0 picks a free one.
	Port int
	// ServiceCIDR is the range of service addresses; empty means
	// DefaultServiceCIDR.
	ServiceCIDR string
	// PodCIDR is the range from which nodes get their /24 (IPv4) or /64 (IPv6)
	// of pod addresses; empty switches this off.
	PodCIDR string
	// Manifests are applied once our own roles and policies are there; their pods start when there is a node.
	Manifests []Manifest
	// Without names controllers that are not to run, such as node-lifecycle-controller.
	Without []string
	// FeatureGates are set in all parts, NAME=true or NAME=false each; a name that is not known is an error of Run's.
	FeatureGates []string
	// RuntimeConfig switches versions of APIs on or off, such as scheduling.k8s.io/v1beta1=true.
	RuntimeConfig []string
	// Durable makes etcd flush every write to disk. Without it a machine crash
	// may lose data, a process crash does not, and writes are faster.
	Durable bool
	// Phase is told how long each part took to become ready: "etcd",
	// "kube-apiserver", "kube-controller-manager". It may be nil; it is called
	// from Run's goroutine and should return at once.
	Phase func(name string, took time.Duration)
}

// Manifest is a file of Kubernetes objects, of kinds that ours have too.
type Manifest struct {
	// Name is for errors.
	Name string
	// Data is YAML documents.
	Data []byte
}

// DefaultServiceCIDR is used when Config names no range for services.
const DefaultServiceCIDR = "10.96.0.0/16"

// maxSocketPath is the longest path of a unix socket on Linux, in bytes.
const maxSocketPath = 107

// Plane is a control plane that can be run once.
type Plane struct {
	cfg       Config
	port      int
	serviceIP net.IP // of the Service "kubernetes"
	authority *pki.Authority
	files     files
	api       *apiServer
	manager   *controllerManager
	ready     chan struct{}
}

// New checks cfg and the machine it is to run on, and reports all faults
// together. If there are none it writes certificates and kubeconfigs; nothing
// is started. A port of 0 is replaced by a free one here, so that Server is
// known at once.
func New(cfg Config) (*Plane, error) {
	if cfg.ServiceCIDR == "" {
		cfg.ServiceCIDR = DefaultServiceCIDR
	}
	if cfg.Phase == nil {
		cfg.Phase = func(string, time.Duration) {}
	}
	p := &Plane{cfg: cfg, ready: make(chan struct{})}
	if err := errors.Join(p.checkDir(), p.checkRanges(), p.checkAddress()); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	if err := p.prepare(); err != nil {
		return nil, fmt.Errorf("prepare control plane: %w", err)
	}
	return p, nil
}

// Ready is closed once the API server says it is ready, our RBAC objects are
// there, our admission policies are enforced, and the controllers work: the
// default service account and the root certificate its pods mount exist.
func (p *Plane) Ready() <-chan struct{} { return p.ready }

// Server is the API server's https URL.
func (p *Plane) Server() string {
	return "https://" + net.JoinHostPort(p.cfg.Address.String(), strconv.Itoa(p.port))
}

// AdminKubeconfig is the path of a kubeconfig (mode 0600) of a user in group
// system:masters, who may do everything.
func (p *Plane) AdminKubeconfig() string { return p.files.kubeconfig("admin") }

// Authority is the certificate authority that the API server trusts and whose
// certificate it serves with.
func (p *Plane) Authority() *pki.Authority { return p.authority }

// checkDir makes Dir absolute, and makes sure that it exists, can be written, is
// short enough for a socket in it, and is not another control plane's now.
func (p *Plane) checkDir() error {
	if p.cfg.Dir == "" {
		return errors.New("no folder for its state: set Dir")
	}
	dir, err := filepath.Abs(p.cfg.Dir)
	if err != nil {
		return fmt.Errorf("folder %s: %w", p.cfg.Dir, err)
	}
	p.cfg.Dir, p.files = dir, files{dir: dir}
	if n := len(p.files.peerSocket()); n > maxSocketPath {
		return fmt.Errorf("folder %s: a socket in it would have a path of %d bytes, the limit is %d: choose a shorter one", dir, n, maxSocketPath)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("folder %s cannot be made: %w", dir, err)
	}
	lock, err := p.files.lock()
	if err != nil {
		return err
	}
	return lock.Close()
}

// checkRanges makes sure that the address ranges can be read and do not meet.
func (p *Plane) checkRanges() error {
	var errs []error
	service, err := netip.ParsePrefix(p.cfg.ServiceCIDR)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("service range: %w", err))
	case service.Addr().BitLen()-service.Bits() < 3:
		errs = append(errs, fmt.Errorf("service range %s is too small: give at least 8 addresses", service))
	default:
		p.serviceIP = service.Masked().Addr().Next().AsSlice()
	}
	if p.cfg.PodCIDR == "" {
		return errors.Join(errs...)
	}
	pods, perr := netip.ParsePrefix(p.cfg.PodCIDR)
	switch {
	case perr != nil:
		errs = append(errs, fmt.Errorf("pod range: %w", perr))
	case pods.Addr().Is4() && pods.Bits() > 24, pods.Addr().Is6() && pods.Bits() > 64:
		errs = append(errs, fmt.Errorf("pod range %s is too small: each node takes a /24 of IPv4 or a /64 of IPv6", pods))
	case err == nil && pods.Overlaps(service):
		errs = append(errs, fmt.Errorf("pod range %s and service range %s overlap", pods, service))
	}
	return errors.Join(errs...)
}

// checkAddress tries to listen where the API server will, and picks the port.
func (p *Plane) checkAddress() error {
	if p.cfg.Address == nil || p.cfg.Address.IsUnspecified() {
		return errors.New("no address for the API server: name one of this machine's")
	}
	if p.cfg.Port < 0 || p.cfg.Port > 65535 {
		return fmt.Errorf("port %d is not between 0 and 65535", p.cfg.Port)
	}
	p.port = p.cfg.Port
	l, err := p.listen()
	if err != nil {
		return err
	}
	p.port = l.Addr().(*net.TCPAddr).Port
	return l.Close()
}

// listen takes the API server's address.
func (p *Plane) listen() (net.Listener, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: p.cfg.Address, Port: p.port})
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d of %s is taken by another program: choose another port: %w", p.port, p.cfg.Address, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("address %s is not on this machine: %w", p.cfg.Address, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s port %d: %w", p.cfg.Address, p.port, err)
	}
	return l, nil
}

// files knows the names of everything under Dir.
type files struct{ dir string }

func (f files) pki() string        { return filepath.Join(f.dir, "pki") }
func (f files) etcdData() string   { return filepath.Join(f.dir, "etcd") }
func (f files) etcdLog() string    { return filepath.Join(f.dir, "etcd.log") }
func (f files) sockets() string    { return filepath.Join(f.dir, "run") }
func (f files) etcdSocket() string { return filepath.Join(f.sockets(), "etcd.sock") }
func (f files) peerSocket() string { return filepath.Join(f.sockets(), "etcd-peer.sock") }
func (f files) flexVolumes() string {
	return filepath.Join(f.dir, "flexvolume")
}
func (f files) authentication() string {
	return filepath.Join(f.dir, "authentication.yaml")
}
func (f files) kubeconfig(name string) string {
	return filepath.Join(f.dir, name+".kubeconfig")
}

// lock takes Dir for this process until the returned file is closed.
func (f files) lock() (*os.File, error) {
	l, err := os.OpenFile(filepath.Join(f.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("folder %s cannot be written: %w", f.dir, err)
	}
	if err := syscall.Flock(int(l.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		// The lock's error is the one worth telling.
		_ = l.Close()
		return nil, fmt.Errorf("folder %s is in use by another control plane: end it or choose another folder: %w", f.dir, err)
	}
	return l, nil
}

// removeSocket removes a socket that a process which was killed left behind.
func removeSocket(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	return nil
}

package controlplane

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/mesopod/mesopod/internal/pki"
)

// SchedulerUser is the user name of mesopod's scheduler.
const SchedulerUser = "mesopod:scheduler"

// ExecutorsGroup is the group of all executors' users.
const ExecutorsGroup = "mesopod:executors"

// ExecutorUser is the user name of the executor that serves node.
func ExecutorUser(node string) string { return "mesopod:executor:" + node }

// SchedulerKubeconfig writes the scheduler's kubeconfig (mode 0600, complete in
// itself) and returns its path.
func (p *Plane) SchedulerKubeconfig() (string, error) {
	return p.identity("scheduler", SchedulerUser)
}

// ExecutorKubeconfig writes the kubeconfig of the executor that serves node.
func (p *Plane) ExecutorKubeconfig(node string) (string, error) {
	return p.identity("executor-"+node, ExecutorUser(node), ExecutorsGroup)
}

// KubeletKubeconfig writes the kubeconfig of node's kubelet, which the Node
// authorizer holds to that node.
func (p *Plane) KubeletKubeconfig(node string) (string, error) {
	return p.identity("kubelet-"+node, "system:node:"+node, "system:nodes")
}

// identity makes a client certificate and the kubeconfig that holds it.
func (p *Plane) identity(name, user string, groups ...string) (string, error) {
	cert, key, err := p.authority.Client(name, user, groups...)
	if err != nil {
		return "", err
	}
	path := p.files.kubeconfig(name)
	return path, pki.WriteKubeconfig(path, p.Server(), p.authority.CertFile(), cert, key)
}

// authentication lets nobody in without credentials except to ask for health.
const authentication = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /livez
  - path: /readyz
  - path: /healthz
`

// prepare writes all that the parts read, and parses their flags.
func (p *Plane) prepare() error {
	var err error
	if p.authority, err = pki.Create(p.files.pki()); err != nil {
		return err
	}
	serviceAccountKey, err := pki.ServiceAccountKey(p.files.pki())
	if err != nil {
		return err
	}
	serving, servingKey, err := p.authority.Server("kube-apiserver", "kube-apiserver",
		[]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		[]net.IP{p.cfg.Address, p.serviceIP})
	if err != nil {
		return err
	}
	// Kubelets ask the API server who may do what; this user may do all.
	toKubelet, toKubeletKey, err := p.authority.Client("kube-apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	_, adminErr := p.identity("admin", "mesopod:admin", "system:masters")
	manager, managerErr := p.identity("kube-controller-manager", "system:kube-controller-manager")
	if err := errors.Join(adminErr, managerErr); err != nil {
		return err
	}
	if err := os.WriteFile(p.files.authentication(), []byte(authentication), 0o600); err != nil {
		return fmt.Errorf("write authentication settings: %w", err)
	}
	// The controller manager's flags come first: see newControllerManager.
	if p.manager, err = newControllerManager(p.managerFlags(manager, serviceAccountKey)); err != nil {
		return err
	}
	p.api, err = newAPIServer(p.apiFlags(serving, servingKey, toKubelet, toKubeletKey, serviceAccountKey))
	return err
}

package local

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mesopod/mesopod/executor"
	"github.com/mesopod/mesopod/internal/controlplane"
)

// idleLife is how long an executor without pods stays, so that the next pod starts fast. A laptop wants its memory back
// sooner than a server.
const idleLife = time.Minute

// executorConfig is the configuration file of the executor on the agent of that host name.
func (l layout) executorConfig(hostname string) string {
	return filepath.Join(l.credentials(), hostname, "executor.yaml")
}

// writeExecutorConfig writes what the executor on an agent needs: identities and one file that names them.
func writeExecutorConfig(l layout, plane *controlplane.Plane, hostname string, address netip.Addr, pods netip.Prefix) error {
	wrap := func(err error) error { return fmt.Errorf("configure executor of %s: %w", hostname, err) }
	binder, err := plane.ExecutorKubeconfig(hostname)
	if err != nil {
		return wrap(err)
	}
	kubelet, err := plane.KubeletKubeconfig(hostname)
	if err != nil {
		return wrap(err)
	}
	cert, key, err := plane.Authority().Server("kubelet-serving-"+hostname, "system:node:"+hostname,
		[]string{hostname}, []net.IP{address.AsSlice()})
	if err != nil {
		return wrap(err)
	}
	data, err := yaml.Marshal(executor.Config{
		APIVersion: executor.APIVersion, Kind: executor.Kind,
		Kubeconfig: binder, KubeletKubeconfig: kubelet,
		ClientCAFile: plane.Authority().CertFile(), TLSCertFile: cert, TLSPrivateKeyFile: key,
		BundleDir: l.BundleDir, StateDir: l.executor(),
		PodCIDR: pods.String(), Bridge: podBridge, NodeIP: address.String(), KubeletPort: kubeletPort,
		ExecutorResources: executor.Share{CPUs: executorCPUs, Mem: executorMemMB},
		LaunchGracePeriod: metav1.Duration{Duration: executor.DefaultLaunchGracePeriod},
		SuicideTimeout:    metav1.Duration{Duration: idleLife},
	})
	if err != nil {
		return wrap(err)
	}
	if err := writeFile(l.executorConfig(hostname), data); err != nil {
		return wrap(err)
	}
	return nil
}

package controlplane

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
)

// controllerManager is the stock kube-controller-manager with its flags parsed.
type controllerManager struct {
	opts *options.KubeControllerManagerOptions
}

// newControllerManager parses flags as the stock command would. It must be
// called before newAPIServer: the Flags method of the controller manager may
// override defaults of feature gates, which panics once the API server has put
// the same gates into a flag set.
func newControllerManager(flags []string) (*controllerManager, error) {
	opts, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("kube-controller-manager: make options: %w", err)
	}
	set := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	for _, f := range opts.Flags(app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()).FlagSets {
		set.AddFlagSet(f)
	}
	if err := set.Parse(flags); err != nil {
		return nil, fmt.Errorf("kube-controller-manager: %w", err)
	}
	return &controllerManager{opts: opts}, nil
}

// run runs the controllers until ctx ends.
func (m *controllerManager) run(ctx context.Context) error {
	c, err := m.opts.Config(ctx, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	if err != nil {
		return fmt.Errorf("check options: %w", err)
	}
	return app.Run(ctx, c.Complete())
}

// managerFlags are the flags of our controller manager.
func (p *Plane) managerFlags(kubeconfig, serviceAccountKey string) []string {
	flags := []string{
		"--kubeconfig=" + kubeconfig,
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + serviceAccountKey,
		"--root-ca-file=" + p.authority.CertFile(),
		"--cluster-signing-cert-file=" + p.authority.CertFile(),
		"--cluster-signing-key-file=" + p.authority.KeyFile(),
		// There is one of it, and nobody asks for its health over the network.
		"--leader-elect=false",
		"--secure-port=0",
		// Its client is the API server of the same process: the usual 20
		// requests a second would only make the start slower.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--controller-shutdown-timeout=5s",
		// The default is a folder of the machine's that it would make.
		"--flex-volume-plugin-dir=" + p.files.flexVolumes(),
	}
	controllers := "*"
	for _, name := range p.cfg.Without {
		controllers += ",-" + name
	}
	flags = append(append(flags, "--controllers="+controllers), p.gateFlags()...)
	if p.cfg.PodCIDR == "" {
		return append(flags, "--allocate-node-cidrs=false")
	}
	return append(flags, "--allocate-node-cidrs=true",
		"--cluster-cidr="+p.cfg.PodCIDR, "--service-cluster-ip-range="+p.cfg.ServiceCIDR)
}

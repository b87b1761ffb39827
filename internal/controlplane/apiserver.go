package controlplane

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// apiServer is the stock kube-apiserver with its flags parsed.
type apiServer struct{ opts *options.ServerRunOptions }

// newAPIServer parses flags as the stock command would.
func newAPIServer(flags []string) (*apiServer, error) {
	opts := options.NewServerRunOptions()
	set := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, f := range opts.Flags().FlagSets {
		set.AddFlagSet(f)
	}
	if err := set.Parse(flags); err != nil {
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	return &apiServer{opts: opts}, nil
}

// run serves on l until ctx ends. The stock command is not used because it
// installs signal handlers, which a process may do once only.
func (a *apiServer) run(ctx context.Context, l net.Listener) error {
	if err := a.opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	// The socket was bound before anything started, so the port cannot have
	// been lost to another program since.
	a.opts.SecureServing.Listener = l
	done, err := a.opts.Complete(ctx)
	if err != nil {
		return fmt.Errorf("complete options: %w", err)
	}
	if errs := done.Validate(); len(errs) != 0 {
		return fmt.Errorf("check options: %w", utilerrors.NewAggregate(errs))
	}
	return app.Run(ctx, done)
}

// apiFlags are the flags of our API server.
func (p *Plane) apiFlags(serving, servingKey, toKubelet, toKubeletKey, serviceAccountKey string) []string {
	// The Service "kubernetes" may not have a loopback endpoint.
	reconciler := "lease"
	if p.cfg.Address.IsLoopback() {
		reconciler = "none"
	}
	flags := []string{
		"--etcd-servers=unix://" + p.files.etcdSocket(),
		"--bind-address=" + p.cfg.Address.String(),
		"--advertise-address=" + p.cfg.Address.String(),
		"--secure-port=" + strconv.Itoa(p.port),
		"--tls-cert-file=" + serving,
		"--tls-private-key-file=" + servingKey,
		"--client-ca-file=" + p.authority.CertFile(),
		"--kubelet-certificate-authority=" + p.authority.CertFile(),
		"--authentication-config=" + p.files.authentication(),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate=" + toKubelet,
		"--kubelet-client-key=" + toKubeletKey,
		// Node names need not resolve here, their addresses are enough.
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + serviceAccountKey,
		"--service-account-signing-key-file=" + serviceAccountKey,
		"--service-cluster-ip-range=" + p.cfg.ServiceCIDR,
		"--endpoint-reconciler-type=" + reconciler,
		"--allow-privileged=true",
		"--profiling=false",
		// Clients with open watches must not hold up the end: watches are told
		// to end, and the server waits for connections 2 s instead of 60 s.
		"--shutdown-send-retry-after=true",
		"--shutdown-watch-termination-grace-period=1s",
	}
	if len(p.cfg.RuntimeConfig) > 0 {
		flags = append(flags, "--runtime-config="+strings.Join(p.cfg.RuntimeConfig, ","))
	}
	return append(flags, p.gateFlags()...)
}

// gateFlags are the feature gates that were asked for, as all parts take them.
func (p *Plane) gateFlags() []string {
	if len(p.cfg.FeatureGates) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(p.cfg.FeatureGates, ",")}
}

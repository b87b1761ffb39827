package executor

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/mesopod/mesopod/executor/binder"
	"github.com/mesopod/mesopod/executor/credentials"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

const (
	// clientQPS and clientBurst keep the client from throttling a burst of launches.
	clientQPS, clientBurst = 100, 200
	// certificateRefresh is how soon connections with an old certificate are made anew once its file has changed. A third
	// of a certificate's life is left then, 5 minutes at the least.
	certificateRefresh = time.Minute
)

// identity is as whom this node talks to the API server, and as whom its kubelet answers: the operator's files, or
// certificates that the scheduler gets for it (ADR 011).
type identity struct {
	files files
	// renewer is nil with files of the operator's.
	renewer *credentials.Renewer
	client  func() (*apiClient, error)
	// launches holds a value after a launch.
	launches chan struct{}

	mu     sync.Mutex
	access messages.Access // of the newest launch
}

// files are the paths of what identifies us.
type files struct{ kubeconfig, kubeletKubeconfig, clientCA, servingCert, servingKey string }

// apiClient is the executor's own way to the API server.
type apiClient struct {
	kubernetes.Interface
	binder *binder.Binder
	// evictor has the kubelet's identity: an eviction names no node, so it is the API server's NodeRestriction that holds it to
	// the pods of this one.
	evictor *binder.Binder
}

// newIdentity takes over what there is. With files of the operator's it tells at once what is wrong with them.
func newIdentity(config Config, env Env, node string) (*identity, error) {
	i := &identity{launches: make(chan struct{}, 1), files: files{
		kubeconfig: config.Kubeconfig, kubeletKubeconfig: config.KubeletKubeconfig, clientCA: config.ClientCAFile,
		servingCert: config.TLSCertFile, servingKey: config.TLSPrivateKeyFile,
	}}
	i.client = sync.OnceValues(func() (*apiClient, error) { return newAPIClient(i.files.kubeconfig, i.files.kubeletKubeconfig) })
	if config.Kubeconfig != "" {
		return i, nil
	}
	store, err := credentials.Open(filepath.Join(config.StateDir, "pki"), node)
	if err != nil {
		return nil, err
	}
	i.renewer, err = credentials.NewRenewer(store, credentials.Who{
		AgentID: env.AgentID, ExecutorID: env.ExecutorID, Node: node, Address: net.ParseIP(config.NodeIP),
	})
	if err != nil {
		return nil, err
	}
	i.files.kubeconfig, i.files.kubeletKubeconfig = store.ExecutorKubeconfig(), store.KubeletKubeconfig()
	if i.files.clientCA == "" {
		i.files.clientCA = store.ClientCAFile()
	}
	if i.files.servingCert == "" {
		i.files.servingCert, i.files.servingKey = store.ServingFile(), store.ServingFile()
	}
	return i, nil
}

func newAPIClient(kubeconfig, kubeletKubeconfig string) (*apiClient, error) {
	own, err := newClient("executor", kubeconfig)
	if err != nil {
		return nil, err
	}
	kubelet, err := newClient("kubelet", kubeletKubeconfig)
	if err != nil {
		return nil, err
	}
	return &apiClient{Interface: own, binder: binder.New(own.CoreV1()), evictor: binder.New(kubelet.CoreV1())}, nil
}

func newClient(whose, kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("%s kubeconfig %s: %w: %w", whose, kubeconfig, errdefs.ErrInvalid, err)
	}
	config.QPS, config.Burst, config.UserAgent = clientQPS, clientBurst, "mesopod-executor"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("%s client: %w: %w", whose, errdefs.ErrInvalid, err)
	}
	return client, nil
}

// offer looks for access in the envelope of a launch.
func (i *identity) offer(envelope []byte) {
	if access, ok := messages.AccessOf(envelope); ok {
		i.mu.Lock()
		i.access = access
		i.mu.Unlock()
		if i.renewer != nil {
			i.renewer.Offer(access)
		}
	}
	select {
	case i.launches <- struct{}{}:
	default:
	}
}

// reach is how to reach the scheduler; false if no launch has told.
func (i *identity) reach() (messages.Access, bool) {
	if i.renewer != nil {
		return i.renewer.Access()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.access, i.access.URL != ""
}

// certificate is the executor's own, to show to the scheduler.
func (i *identity) certificate(ctx context.Context) (tls.Certificate, error) {
	if _, err := i.first(ctx); err != nil {
		return tls.Certificate{}, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", i.files.kubeconfig)
	if err == nil {
		err = rest.LoadTLSFiles(config)
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("executor certificate: %w: %w", errdefs.ErrUnavailable, err)
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("executor certificate in %s: %w: %w", i.files.kubeconfig, errdefs.ErrInvalid, err)
	}
	return pair, nil
}

// run keeps the certificates good until ctx ends.
func (i *identity) run(ctx context.Context) error {
	if i.renewer == nil {
		return nil
	}
	return i.renewer.Run(ctx)
}

// now waits while certificates are being asked for. Who cannot have any hears why: errdefs.ErrRefused.
func (i *identity) now(ctx context.Context) (*apiClient, error) {
	if i.renewer != nil {
		if err := i.renewer.Await(ctx); err != nil {
			return nil, err
		}
	}
	return i.client()
}

// first waits for the first certificates, however long that takes.
func (i *identity) first(ctx context.Context) (*apiClient, error) {
	if i.renewer != nil {
		select {
		case <-i.renewer.Ready():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return i.client()
}

// refreshCertificates sets the pace at which clients of this process look at their certificates' files. It comes before
// the first client.
func refreshCertificates() { transport.CertCallbackRefreshDuration = certificateRefresh }

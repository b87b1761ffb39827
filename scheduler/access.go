package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/golang/glog"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/settings"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/credentials"
)

// ExecutorAccess is how executors reach the scheduler, and what they get there.
type ExecutorAccess struct {
	// Listen is host:port to serve executors at. Empty: nothing is served, and executors have their certificates from files
	// on the agents.
	Listen string
	// URL is how executors reach Listen: https://HOST:PORT. Empty: Listen itself, which must name a host then.
	URL string
	// APIServer is how executors reach the API server: an https URL. Empty: as the scheduler does.
	APIServer string
	// CertificateLife is asked for each certificate of an executor; signers may give less, and none gives less than 10 min.
	CertificateLife time.Duration
	// RenewAfter is when executors renew them; 0: when two thirds of their life are over.
	RenewAfter time.Duration
	// ConfigFile is the executors' configuration: see messages.ExecutorConfig. It is looked at again and again. Empty: the
	// defaults.
	ConfigFile string
}

const (
	// defaultCertificateLife lets executors live through the default failover timeout of a week without a scheduler: a third
	// of it is left when it is renewed.
	defaultCertificateLife = 30 * 24 * time.Hour
	// leastCertificateLife is what the API server takes.
	leastCertificateLife = 10 * time.Minute
	// tokenLife is how long an executor may take from its launch to its first question: Mesos starts it meanwhile.
	tokenLife = 10 * time.Minute
	// runsTimeout bounds the question to the core.
	runsTimeout = 5 * time.Second
)

// check tells all faults.
func (a ExecutorAccess) check() (faults []settings.Fault) {
	fault := func(key, format string, args ...any) { faults = append(faults, settings.Faultf(key, format, args...)) }
	if a.CertificateLife < leastCertificateLife {
		fault("executorCertificateLife", "%s: the API server gives no certificate for less than %s", a.CertificateLife, leastCertificateLife)
	}
	if a.RenewAfter < 0 || a.RenewAfter >= a.CertificateLife {
		fault("executorCertificateRenewal", "%s: want 0, or less than the certificates' life of %s", a.RenewAfter, a.CertificateLife)
	}
	if a.Listen == "" {
		if a.URL != "" {
			fault("executorURL", "%s without an address to listen at: set executorListen", a.URL)
		}
		if a.ConfigFile != "" {
			fault("executorConfig", "%s without an address to listen at: set executorListen", a.ConfigFile)
		}
		return faults
	}
	host, _, err := net.SplitHostPort(a.Listen)
	switch {
	case err != nil:
		fault("executorListen", "%w", err)
	case a.URL == "" && (host == "" || net.ParseIP(host).IsUnspecified()):
		fault("executorListen", "%q names no host: set executorURL to where executors reach it", a.Listen)
	case a.URL != "" && !isHTTPS(a.URL):
		fault("executorURL", "%q is not https://HOST:PORT", a.URL)
	}
	if a.APIServer != "" && !isHTTPS(a.APIServer) {
		fault("executorAPIServer", "%q is not https://HOST:PORT", a.APIServer)
	}
	return faults
}

// isHTTPS tells whether text is https://HOST:PORT with nothing after it.
func isHTTPS(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.Path == "" && u.RawQuery == ""
}

// url is what executors are told.
func (a ExecutorAccess) url() string {
	if a.URL != "" {
		return a.URL
	}
	return "https://" + a.Listen
}

// apiServer is how executors reach the API server, and who vouches for it.
type apiServer struct {
	url string
	ca  []byte
}

// apiServerOf reads it from the scheduler's own way there.
func apiServerOf(config *rest.Config, a ExecutorAccess) (apiServer, error) {
	if config == nil {
		return apiServer{}, fmt.Errorf("nobody says how executors reach the API server: %w", errdefs.ErrInvalid)
	}
	server := apiServer{url: a.APIServer, ca: config.CAData}
	if server.url == "" {
		server.url = config.Host
	}
	if len(server.ca) == 0 && config.CAFile != "" {
		var err error
		if server.ca, err = os.ReadFile(config.CAFile); err != nil {
			return apiServer{}, fmt.Errorf("authority of the API server: %w: %w", errdefs.ErrInvalid, err)
		}
	}
	if !isHTTPS(server.url) || len(server.ca) == 0 {
		return apiServer{}, fmt.Errorf("API server %s: executors need an https URL of it and its authority, which the kubeconfig does not name: %w", server.url, errdefs.ErrInvalid)
	}
	return server, nil
}

// gatekeeper hands out access: tokens with launches, and certificates for tokens.
type gatekeeper struct {
	access  ExecutorAccess
	client  kubernetes.Interface
	api     apiServer
	server  *server
	config  *document
	runs    func(context.Context, credentials.Holder) bool
	handler *credentials.Handler // once prepared
}

// prepare gets what the API server keeps for it, once. An API server that is away is errdefs.ErrUnavailable.
func (g *gatekeeper) prepare(ctx context.Context) error {
	if g.handler != nil {
		return nil
	}
	serving, err := loadServing(ctx, g.client)
	if err != nil {
		return err
	}
	clientCA, err := loadClientCA(ctx, g.client)
	if err != nil {
		return err
	}
	if err := g.server.identify(serving, clientCA); err != nil {
		return err
	}
	signer := credentials.NewCSRSigner(g.client.CertificatesV1().CertificateSigningRequests(), g.access.CertificateLife)
	g.handler, err = credentials.New(
		credentials.Config{Server: g.api.url, CA: g.api.ca, ClientCA: clientCA, TokenLife: tokenLife, RenewAfter: g.access.RenewAfter},
		credentials.Deps{Now: time.Now, Runs: g.runs, Sign: signer.Sign})
	if err != nil {
		return err
	}
	g.server.handle(messages.CredentialsPath, g.handler)
	g.server.handle("GET "+messages.ExecutorConfigPath, g.config)
	return nil
}

// equip puts access into the envelopes of a launch: one token for all of them, since one executor gets them all. The
// core's effect is not written to.
func (g *gatekeeper) equip(accept core.Accept) core.Accept {
	token, err := g.handler.Mint(credentials.Holder{AgentID: accept.AgentID, ExecutorID: messages.ExecutorID, Node: accept.Node})
	if err != nil {
		glog.Errorf("launch without token agent=%s reason=%q", accept.AgentID, err)
		return accept
	}
	access := messages.Access{URL: g.access.url(), KeySHA256: g.server.keySHA256, Token: token}
	accept.Tasks = slices.Clone(accept.Tasks)
	for i := range accept.Tasks {
		task := &accept.Tasks[i]
		data, err := messages.WithAccess(task.Data, access)
		if err != nil {
			glog.Errorf("launch without access task=%s reason=%q", task.TaskID.Value, err)
			continue
		}
		task.Data = data
	}
	return accept
}

// runsHere asks the core for an executor.
func (s *Scheduler) runsHere(ctx context.Context, holder credentials.Holder) (runs bool) {
	if holder.ExecutorID != messages.ExecutorID {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, runsTimeout)
	defer cancel()
	err := s.loop.ask(ctx, func() { runs = s.loop.core.ExecutorRuns(holder.AgentID, holder.Node) })
	if err != nil && !errors.Is(err, context.Canceled) {
		glog.Warningf("refuse executor agent=%s reason=%q", holder.AgentID, err)
	}
	return runs && err == nil
}

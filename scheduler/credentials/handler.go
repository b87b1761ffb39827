package credentials

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/golang/glog"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// Config is what every executor is told, and how long it may wait to ask.
type Config struct {
	// Server is the API server's https URL, CA the PEM certificates that vouch for it.
	Server string
	CA     []byte
	// TokenLife is how long a token is good: a few minutes, enough for an executor to start.
	TokenLife time.Duration
}

// Deps are what the handler asks.
type Deps struct {
	// Now is the clock.
	Now func() time.Time
	// Runs tells whether this executor was launched on that agent and has not ended, as far as Mesos said.
	Runs func(Holder) bool
	// Sign gets a certificate for a checked request from the API server's signer of that name.
	Sign func(ctx context.Context, signer, user string, csr []byte) (certificate []byte, err error)
}

// Handler answers executors. It must be served over TLS, with TLSConfig's demands on client certificates.
type Handler struct {
	cfg  Config
	deps Deps

	mu     sync.Mutex
	tokens *Tokens
}

// New makes a Handler. The error is errdefs.ErrInvalid.
func New(cfg Config, deps Deps) (*Handler, error) {
	if cfg.Server == "" || len(cfg.CA) == 0 || cfg.TokenLife <= 0 || deps.Runs == nil || deps.Sign == nil || deps.Now == nil {
		return nil, fmt.Errorf("credentials: server, CA, token life and all dependencies are needed: %w", errdefs.ErrInvalid)
	}
	return &Handler{cfg: cfg, deps: deps, tokens: NewTokens(cfg.TokenLife)}, nil
}

// TLSConfig is that of a server for the handler: callers with a token have no certificate, and one that is shown must be
// from the authority that signs executors' certificates.
func TLSConfig(serving tls.Certificate, executors *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{serving},
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: executors,
	}
}

// Mint makes a token for an executor that is about to be launched.
func (h *Handler) Mint(holder Holder) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tokens.Mint(h.deps.Now(), rand.Reader, holder)
}

// Revoke forgets the tokens of an agent whose executor has ended.
func (h *Handler) Revoke(agentID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens.Revoke(agentID)
}

// ServeHTTP answers a POST of messages.CredentialsRequest with messages.Credentials. What was refused, and why, is text.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "only POST is understood", http.StatusMethodNotAllowed)
		return
	}
	answer, err := h.answer(r)
	if err != nil {
		glog.Warningf("refuse credentials peer=%s reason=%q", r.RemoteAddr, err)
		http.Error(w, err.Error(), status(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// A caller that has gone asks again.
	_ = json.NewEncoder(w).Encode(answer)
}

func (h *Handler) answer(r *http.Request) (messages.Credentials, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, messages.MaxCredentialsBytes+1))
	if err != nil {
		return messages.Credentials{}, fmt.Errorf("read credentials request: %w: %w", errdefs.ErrInvalid, err)
	}
	ask, err := messages.DecodeCredentialsRequest(body)
	if err != nil {
		return messages.Credentials{}, err
	}
	kubelet, executor := messages.KubeletUserPrefix+ask.Node, messages.ExecutorUserPrefix+ask.Node
	kubeletCSR, err := CheckCSR(ask.KubeletCSR, kubelet, messages.KubeletsGroup)
	if err != nil {
		return messages.Credentials{}, err
	}
	executorCSR, err := CheckCSR(ask.ExecutorCSR, executor, messages.ExecutorsGroup)
	if err != nil {
		return messages.Credentials{}, err
	}
	holder := Holder{AgentID: ask.AgentID, ExecutorID: ask.ExecutorID, Node: ask.Node}
	if !h.deps.Runs(holder) {
		return messages.Credentials{}, fmt.Errorf("executor %s was not launched on agent %s, node %s: %w", ask.ExecutorID, ask.AgentID, ask.Node, errdefs.ErrRefused)
	}
	// Last, so that a request that is wrong in itself does not spend the token.
	proof := "token"
	if ask.Token == "" {
		proof, err = "certificate", checkPeer(r.TLS, executor)
	} else {
		h.mu.Lock()
		err = h.tokens.Redeem(h.deps.Now(), ask.Token, holder, keysOf(kubeletCSR, executorCSR))
		h.mu.Unlock()
	}
	if err != nil {
		return messages.Credentials{}, err
	}
	answer := messages.Credentials{Version: messages.CredentialsVersion, Server: h.cfg.Server, CA: h.cfg.CA}
	if answer.KubeletCertificate, err = h.deps.Sign(r.Context(), certificatesv1.KubeAPIServerClientKubeletSignerName, kubelet, ask.KubeletCSR); err != nil {
		return messages.Credentials{}, err
	}
	if answer.ExecutorCertificate, err = h.deps.Sign(r.Context(), certificatesv1.KubeAPIServerClientSignerName, executor, ask.ExecutorCSR); err != nil {
		return messages.Credentials{}, err
	}
	glog.Infof("issue credentials node=%s agent=%s proof=%s", ask.Node, ask.AgentID, proof)
	return answer, nil
}

// checkPeer makes sure that the caller has shown the certificate of the executor that it says it is.
func checkPeer(state *tls.ConnectionState, user string) error {
	if state == nil || len(state.VerifiedChains) == 0 {
		return fmt.Errorf("%s shows neither a token nor a certificate: %w", user, errdefs.ErrRefused)
	}
	subject := state.VerifiedChains[0][0].Subject
	if subject.CommonName != user || !slices.Contains(subject.Organization, messages.ExecutorsGroup) {
		return fmt.Errorf("%s shows the certificate of %s: %w", user, subject, errdefs.ErrRefused)
	}
	return nil
}

func status(err error) int {
	switch {
	case errors.Is(err, errdefs.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, errdefs.ErrRefused):
		return http.StatusForbidden
	default:
		return http.StatusServiceUnavailable
	}
}

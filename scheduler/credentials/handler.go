package credentials

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang/glog"
	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// Config is what every executor is told, and how long it may wait to ask.
type Config struct {
	// Server is the API server's https URL, CA the PEM certificates that vouch for it.
	Server string
	CA     []byte
	// ClientCA are the PEM certificates of those who vouch for clients: of the kubelet, and of this handler.
	ClientCA []byte
	// RenewAfter is when an executor is to ask for new certificates at the latest; 0 leaves it to their life.
	RenewAfter time.Duration
	// TokenLife is how long a token is good: a few minutes, enough for an executor to start.
	TokenLife time.Duration
}

// Deps are what the handler asks.
type Deps struct {
	// Now is the clock.
	Now func() time.Time
	// Runs tells whether this executor was launched on that agent and has not ended, as far as Mesos said.
	Runs func(context.Context, Holder) bool
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
	orders, err := check(ask, r.RemoteAddr)
	if err != nil {
		return messages.Credentials{}, err
	}
	holder := Holder{AgentID: ask.AgentID, ExecutorID: ask.ExecutorID, Node: ask.Node}
	if !h.deps.Runs(r.Context(), holder) {
		return messages.Credentials{}, fmt.Errorf("executor %s was not launched on agent %s, node %s: %w", ask.ExecutorID, ask.AgentID, ask.Node, errdefs.ErrRefused)
	}
	// Last, so that a request that is wrong in itself does not spend the token.
	proof := "token"
	if ask.Token == "" {
		proof, err = "certificate", CheckPeer(r.TLS, messages.ExecutorUserPrefix+ask.Node)
	} else {
		h.mu.Lock()
		err = h.tokens.Redeem(h.deps.Now(), ask.Token, holder, keysOf(orders))
		h.mu.Unlock()
	}
	if err != nil {
		return messages.Credentials{}, err
	}
	if err := h.sign(r.Context(), orders); err != nil {
		return messages.Credentials{}, err
	}
	glog.Infof("issue credentials node=%s agent=%s proof=%s", ask.Node, ask.AgentID, proof)
	answer := messages.Credentials{
		Version: messages.CredentialsVersion, Server: h.cfg.Server, CA: h.cfg.CA, ClientCA: h.cfg.ClientCA,
		KubeletCertificate: orders[0].certificate, ExecutorCertificate: orders[1].certificate,
		RenewAfterSeconds: int64(h.cfg.RenewAfter / time.Second),
	}
	if len(orders) > 2 {
		answer.ServingCertificate = orders[2].certificate
	}
	return answer, nil
}

// order is one certificate that is asked for.
type order struct {
	signer, user string
	text         []byte
	csr          *x509.CertificateRequest
	certificate  []byte
}

// check makes sure that each request is for what its sender may have: the kubelet's client certificate, the executor's,
// and the one that the kubelet serves with, if it wants one. peer is host:port that the executor asks from.
func check(ask messages.CredentialsRequest, peer string) ([]*order, error) {
	kubelet, executor := messages.KubeletUserPrefix+ask.Node, messages.ExecutorUserPrefix+ask.Node
	orders := []*order{
		{signer: certificatesv1.KubeAPIServerClientKubeletSignerName, user: kubelet, text: ask.KubeletCSR},
		{signer: certificatesv1.KubeAPIServerClientSignerName, user: executor, text: ask.ExecutorCSR},
	}
	var err error
	if orders[0].csr, err = CheckCSR(ask.KubeletCSR, kubelet, messages.KubeletsGroup); err != nil {
		return nil, err
	}
	if orders[1].csr, err = CheckCSR(ask.ExecutorCSR, executor, messages.ExecutorsGroup); err != nil {
		return nil, err
	}
	if len(ask.ServingCSR) == 0 {
		return orders, nil
	}
	from, err := netip.ParseAddrPort(peer)
	if err != nil {
		return nil, fmt.Errorf("peer address %q: %w: %w", peer, errdefs.ErrInvalid, err)
	}
	serving := &order{signer: certificatesv1.KubeletServingSignerName, user: kubelet, text: ask.ServingCSR}
	if serving.csr, err = CheckServingCSR(ask.ServingCSR, kubelet, messages.KubeletsGroup, ask.Node, from.Addr()); err != nil {
		return nil, err
	}
	return append(orders, serving), nil
}

// sign gets all certificates side by side: an executor that has none waits for them with its first pod.
func (h *Handler) sign(ctx context.Context, orders []*order) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, o := range orders {
		group.Go(func() (err error) {
			o.certificate, err = h.deps.Sign(ctx, o.signer, o.user, o.text)
			return err
		})
	}
	return group.Wait()
}

// CheckPeer makes sure that the caller has shown the certificate of an executor: that of user, or, if that is empty, of
// any node. The error is errdefs.ErrRefused.
func CheckPeer(state *tls.ConnectionState, user string) error {
	if state == nil || len(state.VerifiedChains) == 0 {
		return fmt.Errorf("%s shows neither a token nor a certificate: %w", cmp.Or(user, "somebody"), errdefs.ErrRefused)
	}
	subject := state.VerifiedChains[0][0].Subject
	if !strings.HasPrefix(subject.CommonName, messages.ExecutorUserPrefix) || user != "" && subject.CommonName != user ||
		!slices.Contains(subject.Organization, messages.ExecutorsGroup) {
		return fmt.Errorf("%s shows the certificate of %s: %w", cmp.Or(user, "somebody"), subject, errdefs.ErrRefused)
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

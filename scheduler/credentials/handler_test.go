package credentials

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/pki"
	"github.com/mesopod/mesopod/messages"
)

// world is a handler behind TLS, with an authority that executors' certificates come from.
type world struct {
	handler *Handler
	server  *httptest.Server
	now     time.Time
	runs    map[Holder]bool
	signErr error

	mu     sync.Mutex // certificates are signed side by side
	signed []string   // signer and user
}

func newWorld(t *testing.T) (*world, *pki.Authority) {
	t.Helper()
	authority, err := pki.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{now: begin, runs: map[Holder]bool{a1: true}}
	w.handler, err = New(Config{Server: "https://10.0.0.1:6443", CA: []byte("ca"), ClientCA: []byte("clients"), TokenLife: time.Minute, RenewAfter: time.Hour}, Deps{
		Now:  func() time.Time { return w.now },
		Runs: func(_ context.Context, h Holder) bool { return w.runs[h] },
		Sign: func(_ context.Context, signer, user string, _ []byte) ([]byte, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.signed = append(w.signed, signer+" "+user)
			return []byte("for " + user), w.signErr
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, err := authority.Server("scheduler", "scheduler", []string{"scheduler"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewUnstartedServer(w.handler)
	w.server.TLS = TLSConfig(mustPair(t, certFile, keyFile), pool(t, authority))
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	return w, authority
}

func mustPair(t *testing.T, certFile, keyFile string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func pool(t *testing.T, authority *pki.Authority) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	p.AddCert(mustPair(t, authority.CertFile(), authority.KeyFile()).Leaf)
	return p
}

func mustAsk(t *testing.T, token string, holder Holder, key *ecdsa.PrivateKey) messages.CredentialsRequest {
	t.Helper()
	return messages.CredentialsRequest{
		Version: 1, Token: token, AgentID: holder.AgentID, ExecutorID: holder.ExecutorID, Node: holder.Node,
		KubeletCSR:  mustCSR(t, named("system:node:"+holder.Node, "system:nodes"), key),
		ExecutorCSR: mustCSR(t, named("mesopod:executor:"+holder.Node, "mesopod:executors"), key),
	}
}

// post sends a request, with a client certificate if there is one, and returns status and body.
func (w *world) post(t *testing.T, ask any, certificates ...tls.Certificate) (int, []byte) {
	t.Helper()
	body, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}}
	defer client.CloseIdleConnections()
	response, err := client.Post(w.server.URL+messages.CredentialsPath, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

func TestHandlerByToken(t *testing.T) {
	w, _ := newWorld(t)
	key := mustKey(t, elliptic.P256())
	token, err := w.handler.Mint(a1)
	if err != nil {
		t.Fatal(err)
	}
	// What is wrong in itself does not spend the token.
	wrong := mustAsk(t, token, a1, key)
	wrong.ExecutorCSR = mustCSR(t, named("mesopod:executor:a2", "mesopod:executors"), key)
	if status, answer := w.post(t, wrong); status != http.StatusForbidden {
		t.Errorf("another node's name: %d %s", status, answer)
	}
	w.runs = nil
	if status, answer := w.post(t, mustAsk(t, token, a1, key)); status != http.StatusForbidden {
		t.Errorf("executor that does not run: %d %s", status, answer)
	}
	w.runs = map[Holder]bool{a1: true}
	status, answer := w.post(t, mustAsk(t, token, a1, key))
	got, err := messages.DecodeCredentials(answer)
	if status != http.StatusOK || err != nil || got.Server != "https://10.0.0.1:6443" || string(got.ExecutorCertificate) != "for mesopod:executor:a1" ||
		string(got.KubeletCertificate) != "for system:node:a1" {
		t.Errorf("got %d %s, %v", status, answer, err)
	}
	want := []string{certificatesv1.KubeAPIServerClientKubeletSignerName + " system:node:a1", certificatesv1.KubeAPIServerClientSignerName + " mesopod:executor:a1"}
	slices.Sort(w.signed)
	slices.Sort(want)
	if fmt.Sprint(w.signed) != fmt.Sprint(want) {
		t.Errorf("signed %v, want %v", w.signed, want)
	}
	if status, _ := w.post(t, mustAsk(t, token, a1, mustKey(t, elliptic.P256()))); status != http.StatusForbidden {
		t.Errorf("the token is good for other keys: %d", status)
	}
	w.signErr = fmt.Errorf("away: %w", errdefs.ErrUnavailable)
	if status, _ := w.post(t, mustAsk(t, token, a1, key)); status != http.StatusServiceUnavailable {
		t.Errorf("API server away: %d", status)
	}
	w.signErr = nil
	if status, _ := w.post(t, mustAsk(t, token, a1, key)); status != http.StatusOK {
		t.Errorf("the same again: %d", status)
	}
	w.now = begin.Add(time.Minute)
	if status, _ := w.post(t, mustAsk(t, token, a1, key)); status != http.StatusForbidden {
		t.Errorf("expired: %d", status)
	}
	if status, _ := w.post(t, "junk"); status != http.StatusBadRequest {
		t.Errorf("junk: %d", status)
	}
}

func TestHandlerByCertificate(t *testing.T) {
	w, authority := newWorld(t)
	stranger, err := pki.Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	client := func(a *pki.Authority, user string, groups ...string) tls.Certificate {
		certFile, keyFile, err := a.Client("c", user, groups...)
		if err != nil {
			t.Fatal(err)
		}
		return mustPair(t, certFile, keyFile)
	}
	ask := mustAsk(t, "", a1, mustKey(t, elliptic.P256()))
	for name, c := range map[string]struct {
		shown []tls.Certificate
		want  int
	}{
		"its own":         {[]tls.Certificate{client(authority, "mesopod:executor:a1", "mesopod:executors")}, http.StatusOK},
		"another node's":  {[]tls.Certificate{client(authority, "mesopod:executor:a2", "mesopod:executors")}, http.StatusForbidden},
		"the kubelet's":   {[]tls.Certificate{client(authority, "system:node:a1", "system:nodes")}, http.StatusForbidden},
		"without a group": {[]tls.Certificate{client(authority, "mesopod:executor:a1")}, http.StatusForbidden},
		"none":            {nil, http.StatusForbidden},
	} {
		if status, answer := w.post(t, ask, c.shown...); status != c.want {
			t.Errorf("%s: %d %s, want %d", name, status, answer, c.want)
		}
	}
	// A certificate of another authority does not get as far as the handler.
	foreign := client(stranger, "mesopod:executor:a1", "mesopod:executors")
	hello := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil }}}}
	defer hello.CloseIdleConnections()
	if response, err := hello.Post(w.server.URL, "", nil); err == nil {
		response.Body.Close()
		t.Errorf("another authority's certificate: %s", response.Status)
	}
	w.runs = nil
	if status, _ := w.post(t, ask, client(authority, "mesopod:executor:a1", "mesopod:executors")); status != http.StatusForbidden {
		t.Errorf("executor that has ended: %d", status)
	}
}

func TestNew(t *testing.T) {
	if _, err := New(Config{}, Deps{}); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}

// An executor may have a certificate to serve with for its node's name and for the address that it calls from.
func TestHandlerServing(t *testing.T) {
	w, _ := newWorld(t)
	key := mustKey(t, elliptic.P256())
	for name, c := range map[string]struct {
		names []string
		ips   []net.IP
		want  int
	}{
		"its own":           {[]string{"a1"}, []net.IP{{127, 0, 0, 1}}, http.StatusOK},
		"another's name":    {[]string{"a1", "kubernetes"}, []net.IP{{127, 0, 0, 1}}, http.StatusForbidden},
		"another's address": {[]string{"a1"}, []net.IP{{127, 0, 0, 1}, {10, 0, 0, 1}}, http.StatusForbidden},
	} {
		token, err := w.handler.Mint(a1)
		if err != nil {
			t.Fatal(err)
		}
		ask := mustAsk(t, token, a1, key)
		template := named("system:node:a1", "system:nodes")
		template.DNSNames, template.IPAddresses = c.names, c.ips
		ask.ServingCSR = mustCSR(t, template, key)
		status, answer := w.post(t, ask)
		if status != c.want {
			t.Errorf("%s: %d %s, want %d", name, status, answer, c.want)
		}
		if status != http.StatusOK {
			continue
		}
		got, err := messages.DecodeCredentials(answer)
		if err != nil || string(got.ServingCertificate) != "for system:node:a1" || string(got.ClientCA) != "clients" || got.RenewAfterSeconds != 3600 {
			t.Errorf("%s: %s, %v", name, answer, err)
		}
		if want := certificatesv1.KubeletServingSignerName + " system:node:a1"; !slices.Contains(w.signed, want) {
			t.Errorf("signed %v, want %s", w.signed, want)
		}
	}
}

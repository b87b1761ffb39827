package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// scheduler signs what it is asked for, and remembers it.
type scheduler struct {
	server *httptest.Server
	key    *ecdsa.PrivateKey
	ca     *x509.Certificate
	life   time.Duration
	// renewAfter is what the answer says, status replaces the answer.
	renewAfter int64
	status     int
	mu         sync.Mutex // guards what follows
	asked      []messages.CredentialsRequest
	peers      []string // common names of the certificates that were shown
}

func newScheduler(t *testing.T) *scheduler {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := &scheduler{key: key, life: 3 * time.Hour}
	if s.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(t, w, r) }))
	s.server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

func (s *scheduler) pin() [sha256.Size]byte {
	return sha256.Sum256(s.server.Certificate().RawSubjectPublicKeyInfo)
}

func (s *scheduler) serve(t *testing.T, w http.ResponseWriter, r *http.Request) {
	var ask messages.CredentialsRequest
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || r.URL.Path != messages.CredentialsPath {
		t.Errorf("%s: %v", r.URL, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, ask)
	for _, peer := range r.TLS.PeerCertificates {
		s.peers = append(s.peers, peer.Subject.CommonName)
	}
	if s.status != 0 {
		w.Header().Set("Location", "https://127.0.0.1:1/")
		http.Error(w, "as ordered", s.status)
		return
	}
	answer := messages.Credentials{Version: 1, Server: "https://10.0.0.1:6443", CA: encode("CERTIFICATE", s.ca.Raw),
		ClientCA: encode("CERTIFICATE", s.ca.Raw), RenewAfterSeconds: s.renewAfter,
		KubeletCertificate: s.sign(t, ask.KubeletCSR), ExecutorCertificate: s.sign(t, ask.ExecutorCSR), ServingCertificate: s.sign(t, ask.ServingCSR)}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		t.Error(err)
	}
}

func (s *scheduler) sign(t *testing.T, text []byte) []byte {
	block, _ := pem.Decode(text)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Error(err)
		return nil
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: csr.Subject, NotBefore: s.ca.NotBefore, NotAfter: s.ca.NotBefore.Add(s.life)}
	der, err := x509.CreateCertificate(rand.Reader, template, s.ca, csr.PublicKey, s.key)
	if err != nil {
		t.Error(err)
	}
	return encode("CERTIFICATE", der)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func question(r *Request, token string) messages.CredentialsRequest {
	return messages.CredentialsRequest{Token: token, AgentID: "S1", ExecutorID: messages.ExecutorID, Node: "a1",
		KubeletCSR: r.KubeletCSR, ExecutorCSR: r.ExecutorCSR, ServingCSR: r.ServingCSR}
}

// A token buys certificates, and these buy the next ones when two thirds of their life are over.
func TestAskSaveRenew(t *testing.T) {
	s := newScheduler(t)
	dir := filepath.Join(t.TempDir(), "pki")
	store, err := Open(dir, "a1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.RenewAt(); !errors.Is(err, errdefs.ErrNotFound) {
		t.Errorf("nothing saved: %v, want ErrNotFound", err)
	}
	first, err := store.Request(net.IP{127, 0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	client := Client{URL: s.server.URL, Pin: s.pin()}
	got, err := client.Ask(t.Context(), question(first, "token"))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Save(first, got); err != nil {
		t.Fatal(err)
	}
	at, err := store.RenewAt()
	if want := s.ca.NotBefore.Add(2 * time.Hour); err != nil || !at.Equal(want) {
		t.Errorf("renew at %s, %v, want %s", at, err, want)
	}
	own, err := store.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	next, err := store.Request(net.IP{127, 0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	client.Certificate = &own
	if got, err = client.Ask(t.Context(), question(next, "")); err != nil {
		t.Fatal(err)
	}
	if len(s.peers) != 1 || s.peers[0] != "mesopod:executor:a1" || s.asked[1].Token != "" {
		t.Errorf("the second question came from %v with token %q", s.peers, s.asked[1].Token)
	}
	// Answers are for the keys that were asked with.
	if err := store.Save(first, got); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("certificates for other keys: %v, want ErrInvalid", err)
	}
	if err := store.Save(next, got); err != nil {
		t.Error(err)
	}
	testModes(t, dir)
}

// testModes: six files, nothing half written, and nobody else may read them.
func testModes(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 {
		t.Errorf("in the folder: %v, %v, want six files", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want 0600", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v, want 0700", info.Mode(), err)
	}
}

func TestSaveChecksNames(t *testing.T) {
	s := newScheduler(t)
	store, err := Open(t.TempDir(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Request(net.IP{127, 0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	// The names were asked for the wrong way round.
	c := messages.Credentials{Server: "https://x", CA: []byte("ca"), ClientCA: []byte("ca"), ServingCertificate: s.sign(t, r.ServingCSR), KubeletCertificate: s.sign(t, r.ExecutorCSR), ExecutorCertificate: s.sign(t, r.KubeletCSR)}
	swapped := &Request{kubeletKey: r.executorKey, executorKey: r.kubeletKey, servingKey: r.servingKey}
	if err := store.Save(swapped, c); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}

func TestAskFails(t *testing.T) {
	s := newScheduler(t)
	store, err := Open(t.TempDir(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Request(net.IP{127, 0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]error{
		http.StatusForbidden: errdefs.ErrRefused, http.StatusServiceUnavailable: errdefs.ErrUnavailable,
		http.StatusBadRequest: errdefs.ErrInvalid, http.StatusTemporaryRedirect: errdefs.ErrInvalid,
	} {
		s.status = status
		if _, err := (Client{URL: s.server.URL, Pin: s.pin()}).Ask(t.Context(), question(r, "token")); !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", status, err, want)
		}
	}
	// Another key: the token does not get there.
	before := len(s.asked)
	if _, err := (Client{URL: s.server.URL, Pin: [sha256.Size]byte{1}}).Ask(t.Context(), question(r, "token")); !errors.Is(err, errdefs.ErrRefused) || len(s.asked) != before {
		t.Errorf("another key: %v, want ErrRefused before anything is asked", err)
	}
	s.server.Close()
	if _, err := (Client{URL: s.server.URL, Pin: s.pin()}).Ask(t.Context(), question(r, "token")); !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("nobody there: %v, want ErrUnavailable", err)
	}
}

// A pinned authority vouches for the key of the moment, but not for a chain that it did not sign.
func TestPinOfAuthority(t *testing.T) {
	s, other := newScheduler(t), newScheduler(t)
	store, err := Open(t.TempDir(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Request(net.IP{127, 0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	leaf := func(s *scheduler) *x509.Certificate {
		block, _ := pem.Decode(s.sign(t, r.ExecutorCSR))
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	c := Client{Pin: sha256.Sum256(s.ca.RawSubjectPublicKeyInfo)}
	if err := c.verify([]*x509.Certificate{leaf(s), s.ca}); err != nil {
		t.Errorf("a certificate of the pinned authority: %v", err)
	}
	if err := c.verify([]*x509.Certificate{leaf(other), s.ca}); !errors.Is(err, errdefs.ErrRefused) {
		t.Errorf("the pinned authority beside another's certificate: %v, want ErrRefused", err)
	}
	if err := c.verify(nil); !errors.Is(err, errdefs.ErrRefused) {
		t.Errorf("no certificate: %v, want ErrRefused", err)
	}
}

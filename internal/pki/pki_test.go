package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

func mustCreate(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Create(dir)
	if err != nil {
		t.Fatalf("Create(%s): %v", dir, err)
	}
	return a
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustLeaf(t *testing.T, certFile, keyFile string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatalf("load %s: %v", certFile, err)
	}
	return pair.Leaf
}

func roots(t *testing.T, a *Authority) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(mustRead(t, a.CertFile())) {
		t.Fatalf("no certificate in %s", a.CertFile())
	}
	return pool
}

func TestChainsVerify(t *testing.T) {
	a := mustCreate(t, filepath.Join(t.TempDir(), "pki"))
	cert, key, err := a.Client("node-a", "system:node:a", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	leaf := mustLeaf(t, cert, key)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots(t, a), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("client certificate: %v", err)
	}
	if leaf.Subject.CommonName != "system:node:a" {
		t.Errorf("user = %q, want system:node:a", leaf.Subject.CommonName)
	}
	if diff := cmp.Diff([]string{"system:nodes"}, leaf.Subject.Organization); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}

	cert, key, err = a.Server("api", "kube-apiserver", []string{"kubernetes"}, []net.IP{net.IPv4(10, 9, 8, 1)})
	if err != nil {
		t.Fatal(err)
	}
	leaf = mustLeaf(t, cert, key)
	for _, name := range []string{"kubernetes", "10.9.8.1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots(t, a), DNSName: name}); err != nil {
			t.Errorf("server certificate for %s: %v", name, err)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots(t, a), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("a server certificate passes as a client's")
	}
	other := mustCreate(t, filepath.Join(t.TempDir(), "pki"))
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots(t, other)}); err == nil {
		t.Error("a certificate verifies against a foreign authority")
	}
}

// What was made by an earlier run is used again; what no longer fits is made anew.
func TestReuse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	serve := func(a *Authority, ip net.IP) string {
		cert, _, err := a.Server("api", "api", []string{"b", "a"}, []net.IP{ip})
		if err != nil {
			t.Fatal(err)
		}
		return string(mustRead(t, cert))
	}
	first := mustCreate(t, dir)
	ca, one := string(mustRead(t, first.CertFile())), serve(first, net.IPv4(10, 0, 0, 1))
	sa, err := ServiceAccountKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	saKey := string(mustRead(t, sa))

	second := mustCreate(t, dir)
	if got := string(mustRead(t, second.CertFile())); got != ca {
		t.Error("the authority was made again")
	}
	if got := serve(second, net.ParseIP("10.0.0.1")); got != one {
		t.Error("a fitting certificate was made again")
	}
	if got := serve(second, net.IPv4(10, 0, 0, 2)); got == one {
		t.Error("a certificate with an old address was reused")
	}
	if sa, err = ServiceAccountKey(dir); err != nil {
		t.Fatal(err)
	}
	if string(mustRead(t, sa)) != saKey {
		t.Error("the service account key was made again")
	}
	if _, _, err := second.Client("n", "u", "g1"); err != nil {
		t.Fatal(err)
	}
	cert, key, err := second.Client("n", "u", "g2")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"g2"}, mustLeaf(t, cert, key).Subject.Organization); diff != "" {
		t.Errorf("groups after a change (-want +got):\n%s", diff)
	}
}

func TestDamagedLeafIsMadeAgain(t *testing.T) {
	a := mustCreate(t, filepath.Join(t.TempDir(), "pki"))
	cert, key, err := a.Client("n", "u")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cert, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Client("n", "u"); err != nil {
		t.Fatal(err)
	}
	if got := mustLeaf(t, cert, key).Subject.CommonName; got != "u" {
		t.Errorf("user = %q, want u", got)
	}
}

func TestBadAuthorityIsAnError(t *testing.T) {
	for name, spoil := range map[string]func(a *Authority) error{
		"key lost":     func(a *Authority) error { return os.Remove(a.KeyFile()) },
		"certificate":  func(a *Authority) error { return os.WriteFile(a.CertFile(), []byte("torn"), 0o600) },
		"key damaged":  func(a *Authority) error { return os.WriteFile(a.KeyFile(), []byte("torn"), 0o600) },
		"key replaced": func(a *Authority) error { return os.Rename(filepath.Join(a.dir, "sa.key"), a.KeyFile()) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pki")
			a := mustCreate(t, dir)
			if _, err := ServiceAccountKey(dir); err != nil {
				t.Fatal(err)
			}
			if err := spoil(a); err != nil {
				t.Fatal(err)
			}
			_, err := Create(dir)
			if err == nil {
				t.Fatal("Create accepts it")
			}
			if !strings.Contains(err.Error(), dir) {
				t.Errorf("error does not name %s: %v", dir, err)
			}
		})
	}
}

// An authority whose making broke off after the key is made anew.
func TestKeyWithoutCertificateIsNoAuthority(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := os.Remove(mustCreate(t, dir).CertFile()); err != nil {
		t.Fatal(err)
	}
	a := mustCreate(t, dir)
	if _, _, err := a.Client("n", "u"); err != nil {
		t.Error(err)
	}
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := mustCreate(t, dir)
	cert, key, err := a.Client("n", "u")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ServiceAccountKey(dir); err != nil {
		t.Fatal(err)
	}
	if err := WriteKubeconfig(filepath.Join(dir, "kubeconfig"), "https://192.0.2.1:6443", a.CertFile(), cert, key); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("folder mode = %o, want 700", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if info, err = e.Info(); err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s mode = %o, want 600", e.Name(), got)
		}
	}
	if diff := cmp.Diff([]string{"ca.crt", "ca.key", "kubeconfig", "n.crt", "n.key", "sa.key"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// The kubeconfig still works when the files it was made from are gone.
func TestKubeconfigStandsAlone(t *testing.T) {
	dir := t.TempDir()
	a := mustCreate(t, filepath.Join(dir, "pki"))
	cert, key, err := a.Client("n", "u")
	if err != nil {
		t.Fatal(err)
	}
	wantCA, wantCert := mustRead(t, a.CertFile()), mustRead(t, cert)
	path := filepath.Join(dir, "kubeconfig")
	if err := WriteKubeconfig(path, "https://192.0.2.1:6443", a.CertFile(), cert, key); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "pki")); err != nil {
		t.Fatal(err)
	}
	raw, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if raw.CurrentContext != "mesopod" {
		t.Errorf("current context = %q, want mesopod", raw.CurrentContext)
	}
	c, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "https://192.0.2.1:6443" {
		t.Errorf("server = %q", c.Host)
	}
	if diff := cmp.Diff(string(wantCA), string(c.CAData)); diff != "" {
		t.Errorf("authority (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(string(wantCert), string(c.CertData)); diff != "" {
		t.Errorf("certificate (-want +got):\n%s", diff)
	}
	if _, err := tls.X509KeyPair(c.CertData, c.KeyData); err != nil {
		t.Errorf("key does not fit: %v", err)
	}
}

func TestBadRequests(t *testing.T) {
	a := mustCreate(t, filepath.Join(t.TempDir(), "pki"))
	for _, name := range []string{"", "ca", "../x", "a/b", ".hidden"} {
		if _, _, err := a.Client(name, "u"); err == nil {
			t.Errorf("Client(%q) accepts the name", name)
		}
	}
	if _, _, err := a.Client("n", ""); err == nil {
		t.Error("Client accepts an empty user")
	}
	if _, _, err := a.Server("n", "cn", nil, nil); err == nil {
		t.Error("Server accepts a certificate for nothing")
	}
	if err := WriteKubeconfig(filepath.Join(t.TempDir(), "k"), "https://x", a.CertFile(), "/nonexistent", "/nonexistent"); err == nil {
		t.Error("WriteKubeconfig accepts missing files")
	}
}

package credentials

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/mesopod/mesopod/internal/errdefs"
)

func mustKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func mustCSR(t testing.TB, template *x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func named(user string, groups ...string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: groups}}
}

func TestCheckCSR(t *testing.T) {
	const user, group = "mesopod:executor:a1", "mesopod:executors"
	key := mustKey(t, elliptic.P256())
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*x509.CertificateRequest)) []byte {
		template := named(user, group)
		change(template)
		return mustCSR(t, template, key)
	}
	good := mustCSR(t, named(user, group), key)
	forged := append([]byte(nil), good...)
	block, _ := pem.Decode(forged)
	block.Bytes[len(block.Bytes)-1] ^= 1
	for name, c := range map[string]struct {
		text []byte
		good bool
	}{
		"good":           {good, true},
		"another user":   {mustCSR(t, named("mesopod:executor:a2", group), key), false},
		"another group":  {mustCSR(t, named(user, "system:masters"), key), false},
		"one group more": {mustCSR(t, named(user, group, "system:masters"), key), false},
		"no group":       {mustCSR(t, named(user), key), false},
		"a unit":         {with(func(r *x509.CertificateRequest) { r.Subject.OrganizationalUnit = []string{"x"} }), false},
		"a host name":    {with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes"} }), false},
		"an address":     {with(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{10, 0, 0, 1}} }), false},
		"an extension": {with(func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3}, Value: []byte{5, 0}}}
		}), false},
		"a large key":      {mustCSR(t, named(user, group), mustKey(t, elliptic.P384())), false},
		"an ed25519 key":   {mustCSR(t, named(user, group), ed), false},
		"a bad signature":  {pem.EncodeToMemory(block), false},
		"two requests":     {append(append([]byte(nil), good...), good...), false},
		"another block":    {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), false},
		"nothing":          {nil, false},
		"no ASN.1 in it":   {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")}), false},
		"spaces behind it": {append(append([]byte(nil), good...), " \n"...), true},
	} {
		_, err := CheckCSR(c.text, user, group)
		if (err == nil) != c.good || err != nil && !errors.Is(err, errdefs.ErrRefused) {
			t.Errorf("%s: %v, want good=%v", name, err, c.good)
		}
	}
}

// FuzzCheckCSR: it never panics, and lets through the name that was asked for alone.
func FuzzCheckCSR(f *testing.F) {
	key := mustKey(f, elliptic.P256())
	f.Add(mustCSR(f, named("u", "g"), key))
	f.Add(mustCSR(f, named("u", "g", "h"), key))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		csr, err := CheckCSR(text, "u", "g")
		if err != nil && !errors.Is(err, errdefs.ErrRefused) {
			t.Fatal(err)
		}
		if err == nil && csr.Subject.String() != "CN=u,O=g" {
			t.Fatalf("let through: %s", csr.Subject)
		}
	})
}

func TestCheckServingCSR(t *testing.T) {
	const user, group = "system:node:a1", "system:nodes"
	address := netip.MustParseAddr("10.0.0.7")
	key := mustKey(t, elliptic.P256())
	with := func(change func(*x509.CertificateRequest)) []byte {
		template := named(user, group)
		template.DNSNames, template.IPAddresses = []string{"a1"}, []net.IP{{10, 0, 0, 7}}
		change(template)
		return mustCSR(t, template, key)
	}
	for name, c := range map[string]struct {
		text []byte
		good bool
	}{
		"good":           {with(func(*x509.CertificateRequest) {}), true},
		"address alone":  {with(func(r *x509.CertificateRequest) { r.DNSNames = nil }), true},
		"no name":        {with(func(r *x509.CertificateRequest) { r.DNSNames, r.IPAddresses = nil, nil }), false},
		"another's name": {with(func(r *x509.CertificateRequest) { r.DNSNames = []string{"a2"} }), false},
		"the API server": {with(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{10, 0, 0, 1}} }), false},
		"an e-mail":      {with(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }), false},
		"a use": {with(func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: []int{2, 5, 29, 37}, Value: []byte{48, 0}}}
		}), false},
		"another user": {with(func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:a2" }), false},
	} {
		if _, err := CheckServingCSR(c.text, user, group, "a1", address); (err == nil) != c.good || err != nil && !errors.Is(err, errdefs.ErrRefused) {
			t.Errorf("%s: %v, want good=%t", name, err, c.good)
		}
	}
}

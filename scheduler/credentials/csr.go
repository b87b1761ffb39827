package credentials

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// CheckCSR makes sure that a certificate request in PEM asks for exactly this user and group and for nothing else, for a
// key on P-256 that its sender has. The API server's signers check the same for kubelets, but not for other clients: what
// is approved there is signed. The error is errdefs.ErrRefused.
func CheckCSR(text []byte, user, group string) (*x509.CertificateRequest, error) {
	fail := func(format string, args ...any) (*x509.CertificateRequest, error) {
		return nil, fmt.Errorf("certificate request for %s: %w: %w", user, fmt.Errorf(format, args...), errdefs.ErrRefused)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return fail("it is not one PEM block CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fail("%w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return fail("its sender does not have the key: %w", err)
	}
	if key, ok := csr.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return fail("its key is not one on P-256")
	}
	// All attributes of the name, so that none is hidden beside the two.
	if csr.Subject.CommonName != user || !slices.Equal(csr.Subject.Organization, []string{group}) || len(csr.Subject.Names) != 2 {
		return fail("it names %q", csr.Subject.String())
	}
	if len(csr.Extensions) > 0 || len(csr.DNSNames)+len(csr.IPAddresses)+len(csr.EmailAddresses)+len(csr.URIs) > 0 {
		return fail("it asks for extensions or further names")
	}
	return csr, nil
}

// keysOf is a hash of the public keys of certificate requests, in their order.
func keysOf(requests ...*x509.CertificateRequest) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, r := range requests {
		one := sha256.Sum256(r.RawSubjectPublicKeyInfo)
		_, _ = h.Write(one[:]) // a hash never fails
	}
	h.Sum(sum[:0])
	return sum
}

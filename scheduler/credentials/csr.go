package credentials

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// oidSubjectAltName is the extension for host names and addresses.
var oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// CheckCSR makes sure that a certificate request in PEM asks for exactly this user and group and for nothing else, for a
// key on P-256 that its sender has. The API server's signers check the same for kubelets, but not for other clients: what
// is approved there is signed. The error is errdefs.ErrRefused.
func CheckCSR(text []byte, user, group string) (*x509.CertificateRequest, error) {
	csr, err := parseCSR(text, user, group)
	if err == nil && (len(csr.Extensions) > 0 || len(csr.DNSNames)+len(csr.IPAddresses) > 0) {
		err = errors.New("it asks for extensions or further names")
	}
	return csr, refused(user, err)
}

// CheckServingCSR does the same for what a kubelet answers with: it may name its node and the address that it asks from,
// and nothing else. A certificate for another's address would let it answer in the other's place. The error is
// errdefs.ErrRefused.
func CheckServingCSR(text []byte, user, group, node string, address netip.Addr) (*x509.CertificateRequest, error) {
	csr, err := parseCSR(text, user, group)
	if err != nil {
		return nil, refused(user, err)
	}
	names := len(csr.DNSNames) + len(csr.IPAddresses)
	foreign := slices.ContainsFunc(csr.DNSNames, func(name string) bool { return name != node }) ||
		slices.ContainsFunc(csr.IPAddresses, func(ip net.IP) bool {
			asked, ok := netip.AddrFromSlice(ip)
			return !ok || asked.Unmap() != address.Unmap()
		})
	switch {
	case names == 0 || len(csr.Extensions) != 1 || !csr.Extensions[0].Id.Equal(oidSubjectAltName):
		err = errors.New("it asks for other extensions than names to serve")
	case foreign:
		err = fmt.Errorf("it is to serve %q and %v, its node is %s and it asks from %s", csr.DNSNames, csr.IPAddresses, node, address)
	}
	return csr, refused(user, err)
}

func refused(user string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("certificate request for %s: %w: %w", user, err, errdefs.ErrRefused)
}

// parseCSR checks all but the names to serve.
func parseCSR(text []byte, user, group string) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it is not one PEM block CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("its sender does not have the key: %w", err)
	}
	if key, ok := csr.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("its key is not one on P-256")
	}
	// All attributes of the name, so that none is hidden beside the two.
	if csr.Subject.CommonName != user || !slices.Equal(csr.Subject.Organization, []string{group}) || len(csr.Subject.Names) != 2 {
		return nil, fmt.Errorf("it names %q", csr.Subject.String())
	}
	if len(csr.EmailAddresses)+len(csr.URIs) > 0 {
		return nil, errors.New("it asks for further names")
	}
	return csr, nil
}

// keysOf is a hash of the public keys that certificates are asked for, in their order.
func keysOf(orders []*order) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, o := range orders {
		one := sha256.Sum256(o.csr.RawSubjectPublicKeyInfo)
		_, _ = h.Write(one[:]) // a hash never fails
	}
	h.Sum(sum[:0])
	return sum
}

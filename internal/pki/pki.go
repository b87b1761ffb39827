// Package pki makes the certificates and kubeconfigs of a control plane that
// mesopod runs itself (local mode and tests). It exists apart from package
// controlplane so that whoever only needs an identity does not link the whole
// of Kubernetes.
//
// Order of calls: [Create] makes or loads an [Authority] in a folder;
// [Authority.Client] and [Authority.Server] make or reuse certificates beside
// it; [WriteKubeconfig] turns a client certificate into a file that kubectl
// and client-go read. Nothing here starts a goroutine. An Authority may be
// used by several goroutines as long as no two of them ask for the same name.
//
// Every file is mode 0600 in a folder of mode 0700 and appears whole or not at
// all. Keys are ECDSA P-256.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// authorityLife is how long a new certificate authority is valid.
	authorityLife = 10 * 365 * 24 * time.Hour
	// leafLife is how long a client or server certificate is valid.
	leafLife = 365 * 24 * time.Hour
	// renewBefore is the rest of its life at which a certificate that is asked
	// for again is made anew instead of reused.
	renewBefore = 30 * 24 * time.Hour
	// clockSkew is how far certificates reach into the past, for machines
	// whose clocks are a little behind.
	clockSkew = time.Hour
)

// Authority is a certificate authority on disk: ca.crt and ca.key in one
// folder, with the certificates it has issued beside them.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// Create loads the authority in dir, or makes dir and a new authority if there
// is none. An authority that is damaged, that lacks its key or that has
// expired is an error: replacing it would cut off every holder of one of its
// certificates, so that is left to the operator.
func Create(dir string) (*Authority, error) {
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	a := &Authority{dir: dir}
	cert, key, err := loadPair(a.CertFile(), a.KeyFile())
	switch {
	case err == nil:
		a.cert, a.key = cert, key
		return a, a.check()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("load certificate authority (remove %s to make a new one): %w", dir, err)
	}
	// The key is written first, so a certificate without a key is no
	// left-over of ours but a loss.
	if _, err := os.Stat(a.CertFile()); err == nil {
		return nil, fmt.Errorf("load certificate authority: %s has no key %s: restore it, or remove %s to make a new one",
			a.CertFile(), a.KeyFile(), dir)
	}
	return a, a.generate()
}

// CertFile is the path of the authority's certificate, in PEM.
func (a *Authority) CertFile() string { return filepath.Join(a.dir, "ca.crt") }

// KeyFile is the path of the authority's private key, in PEM. The controller
// manager needs it to sign certificate requests.
func (a *Authority) KeyFile() string { return filepath.Join(a.dir, "ca.key") }

// Client returns the files of a certificate with which user authenticates as a
// member of groups, and its key: NAME.crt and NAME.key in the authority's
// folder. A certificate made earlier is reused if it says the same and is
// valid for another 30 days.
func (a *Authority) Client(name, user string, groups ...string) (certFile, keyFile string, err error) {
	if user == "" {
		return "", "", fmt.Errorf("make client certificate %s: user is empty", name)
	}
	return a.issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Server returns the files of a serving certificate for the given names and
// addresses, and its key: NAME.crt and NAME.key in the authority's folder. A
// certificate made earlier is reused if it says the same and is valid for
// another 30 days; a changed address makes a new one.
func (a *Authority) Server(name, cn string, dnsNames []string, ips []net.IP) (certFile, keyFile string, err error) {
	if len(dnsNames)+len(ips) == 0 {
		return "", "", fmt.Errorf("make server certificate %s: no name and no address to serve", name)
	}
	return a.issue(name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: cn},
		DNSNames:    dnsNames,
		IPAddresses: ips,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// issue reuses or makes the certificate that want describes.
func (a *Authority) issue(name string, want *x509.Certificate) (certFile, keyFile string, err error) {
	if name == "" || name == "ca" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		return "", "", fmt.Errorf("make certificate: %q is no file name to store it under", name)
	}
	certFile, keyFile = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	// A pair that cannot be read is made again: it is derived data, and its
	// holder gets the new one from the same call.
	if have, _, err := loadPair(certFile, keyFile); err == nil && a.same(have, want) {
		return certFile, keyFile, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("make key of certificate %s: %w", name, err)
	}
	if err := dated(want, leafLife); err != nil {
		return "", "", err
	}
	der, err := x509.CreateCertificate(rand.Reader, want, a.cert, key.Public(), a.key)
	if err != nil {
		return "", "", fmt.Errorf("sign certificate %s: %w", name, err)
	}
	if err := storePair(certFile, keyFile, der, key); err != nil {
		return "", "", fmt.Errorf("store certificate %s: %w", name, err)
	}
	return certFile, keyFile, nil
}

// same tells whether have is ours, still good, and says what want says.
func (a *Authority) same(have, want *x509.Certificate) bool {
	return have.CheckSignatureFrom(a.cert) == nil &&
		time.Until(have.NotAfter) > renewBefore &&
		have.Subject.CommonName == want.Subject.CommonName &&
		slices.Equal(sorted(have.Subject.Organization), sorted(want.Subject.Organization)) &&
		slices.Equal(sorted(have.DNSNames), sorted(want.DNSNames)) &&
		slices.Equal(sortedIPs(have.IPAddresses), sortedIPs(want.IPAddresses)) &&
		slices.Equal(have.ExtKeyUsage, want.ExtKeyUsage)
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

func sortedIPs(ips []net.IP) []string {
	var s []string
	for _, ip := range ips {
		s = append(s, ip.String())
	}
	slices.Sort(s)
	return s
}

// generate makes a new authority and stores it.
func (a *Authority) generate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key of certificate authority: %w", err)
	}
	t := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "mesopod-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	if err := dated(t, authorityLife); err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return fmt.Errorf("sign certificate authority: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("read certificate authority back: %w", err)
	}
	a.key = key
	if err := storePair(a.CertFile(), a.KeyFile(), der, key); err != nil {
		return fmt.Errorf("store certificate authority: %w", err)
	}
	return nil
}

// check tells whether a loaded authority can sign.
func (a *Authority) check() error {
	if !a.cert.IsCA {
		return fmt.Errorf("load certificate authority: %s is not an authority's certificate", a.CertFile())
	}
	if time.Until(a.cert.NotAfter) < renewBefore {
		return fmt.Errorf("load certificate authority: %s expires at %s: remove %s to make a new one",
			a.CertFile(), a.cert.NotAfter.Format(time.RFC3339), a.dir)
	}
	return nil
}

// dated gives a template its serial number and its time of validity.
func dated(t *x509.Certificate, life time.Duration) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("make serial number: %w", err)
	}
	t.SerialNumber = serial.Add(serial, big.NewInt(1))
	t.NotBefore, t.NotAfter = time.Now().Add(-clockSkew), time.Now().Add(life)
	return nil
}

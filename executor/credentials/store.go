package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// Store is the folder of one node's credentials.
type Store struct{ dir, node string }

// Open makes the folder, 0700.
func Open(dir, node string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder for credentials: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("close folder for credentials: %w", err)
	}
	return &Store{dir: dir, node: node}, nil
}

// KubeletKubeconfig is the file with the identity system:node:NODE, once it was saved.
func (s *Store) KubeletKubeconfig() string { return filepath.Join(s.dir, "kubelet.kubeconfig") }

// ExecutorKubeconfig is the file with the identity mesopod:executor:NODE, once it was saved.
func (s *Store) ExecutorKubeconfig() string { return filepath.Join(s.dir, "executor.kubeconfig") }

// ServingFile holds the certificate that the kubelet answers with, and its key, once it was saved.
func (s *Store) ServingFile() string { return filepath.Join(s.dir, "serving.pem") }

// ClientCAFile holds the certificates of those who vouch for the kubelet's callers, once it was saved.
func (s *Store) ClientCAFile() string { return filepath.Join(s.dir, "client-ca.crt") }

// The certificates that the kubeconfigs name, each with its key in one file, so that both change at once.
func (s *Store) kubeletFile() string  { return filepath.Join(s.dir, "kubelet.pem") }
func (s *Store) executorFile() string { return filepath.Join(s.dir, "executor.pem") }

// Request is new keys and the certificate requests for them. The keys never leave the machine.
type Request struct {
	KubeletCSR, ExecutorCSR, ServingCSR []byte
	kubeletKey, executorKey, servingKey []byte // PEM
}

// Request makes keys and certificate requests; the kubelet is to serve at address. One Request may be asked for several
// times; its token is spent once.
func (s *Store) Request(address net.IP) (*Request, error) {
	var r Request
	var err error
	kubelet := pkix.Name{CommonName: messages.KubeletUserPrefix + s.node, Organization: []string{messages.KubeletsGroup}}
	executor := pkix.Name{CommonName: messages.ExecutorUserPrefix + s.node, Organization: []string{messages.ExecutorsGroup}}
	if r.kubeletKey, r.KubeletCSR, err = newRequest(&x509.CertificateRequest{Subject: kubelet}); err != nil {
		return nil, err
	}
	if r.executorKey, r.ExecutorCSR, err = newRequest(&x509.CertificateRequest{Subject: executor}); err != nil {
		return nil, err
	}
	serving := &x509.CertificateRequest{Subject: kubelet, DNSNames: []string{s.node}, IPAddresses: []net.IP{address}}
	if r.servingKey, r.ServingCSR, err = newRequest(serving); err != nil {
		return nil, err
	}
	return &r, nil
}

// newRequest makes a key on P-256 and a certificate request for it, both in PEM.
func newRequest(template *x509.CertificateRequest) (key, csr []byte, err error) {
	user := template.Subject.CommonName
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key for %s: %w", user, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key for %s: %w", user, err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate request for %s: %w", user, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}), nil
}

// Save checks that the certificates are those that were asked for, and writes all files. Readers of the kubeconfigs have
// the new certificates with their next connection. The error is errdefs.ErrInvalid if they are not those.
func (s *Store) Save(r *Request, c messages.Credentials) error {
	kubelet, executor := messages.KubeletUserPrefix+s.node, messages.ExecutorUserPrefix+s.node
	pairs := []struct {
		user, file       string
		certificate, key []byte
	}{
		{kubelet, s.kubeletFile(), c.KubeletCertificate, r.kubeletKey},
		{executor, s.executorFile(), c.ExecutorCertificate, r.executorKey},
		{kubelet, s.ServingFile(), c.ServingCertificate, r.servingKey},
	}
	for _, one := range pairs {
		pair, err := tls.X509KeyPair(one.certificate, one.key)
		if err != nil {
			return fmt.Errorf("certificate for %s: %w: %w", one.user, errdefs.ErrInvalid, err)
		}
		if pair.Leaf.Subject.CommonName != one.user {
			return fmt.Errorf("certificate for %s is one for %s: %w", one.user, pair.Leaf.Subject.CommonName, errdefs.ErrInvalid)
		}
	}
	if len(c.ClientCA) == 0 {
		return fmt.Errorf("no authority for callers of the kubelet: %w", errdefs.ErrInvalid)
	}
	for _, one := range pairs {
		if err := replace(one.file, slices.Concat(one.certificate, one.key)); err != nil {
			return err
		}
	}
	return errors.Join(replace(s.ClientCAFile(), c.ClientCA),
		writeKubeconfig(s.KubeletKubeconfig(), c.Server, c.CA, s.kubeletFile()),
		writeKubeconfig(s.ExecutorKubeconfig(), c.Server, c.CA, s.executorFile()))
}

// writeKubeconfig names the file with certificate and key instead of holding them: clients look at it again.
func writeKubeconfig(path, server string, ca []byte, identity string) error {
	const name = "mesopod"
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: identity, ClientKey: identity}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	data, err := clientcmd.Write(*k)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return replace(path, data)
}

// replace writes the file whole, 0600: a reader sees the old one or the new one.
func replace(path string, data []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)) // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // the error says enough
		}
	}()
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Certificate is the executor's own, to ask for new ones with. The error is errdefs.ErrNotFound if none was saved.
func (s *Store) Certificate() (tls.Certificate, error) { return certificateOf(s.executorFile()) }

// Life is from when to when all three certificates are good. The error is errdefs.ErrNotFound if one was not saved.
func (s *Store) Life() (from, to time.Time, err error) {
	for _, file := range []string{s.kubeletFile(), s.executorFile(), s.ServingFile()} {
		pair, err := certificateOf(file)
		if err != nil {
			return time.Time{}, time.Time{}, err
		}
		if from.IsZero() || pair.Leaf.NotAfter.Before(to) {
			from, to = pair.Leaf.NotBefore, pair.Leaf.NotAfter
		}
	}
	return from, to, nil
}

// RenewAt is when new certificates should be asked for: when two thirds of the life of the shortest-lived one are over.
// The error is errdefs.ErrNotFound if none were saved.
func (s *Store) RenewAt() (time.Time, error) {
	from, to, err := s.Life()
	return from.Add(to.Sub(from) * 2 / 3), err
}

func certificateOf(file string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(file, file)
	if os.IsNotExist(err) {
		return tls.Certificate{}, fmt.Errorf("no credentials yet: %w: %w", errdefs.ErrNotFound, err)
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read credentials %s: %w: %w", file, errdefs.ErrInvalid, err)
	}
	return pair, nil
}

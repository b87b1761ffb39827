package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
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

// Request is new keys and the certificate requests for them. The keys never leave the machine.
type Request struct {
	KubeletCSR, ExecutorCSR []byte
	kubeletKey, executorKey []byte // PEM
}

// Request makes keys and certificate requests. One Request may be asked for several times; its token is spent once.
func (s *Store) Request() (*Request, error) {
	var r Request
	var err error
	if r.kubeletKey, r.KubeletCSR, err = newRequest(messages.KubeletUserPrefix+s.node, messages.KubeletsGroup); err != nil {
		return nil, err
	}
	if r.executorKey, r.ExecutorCSR, err = newRequest(messages.ExecutorUserPrefix+s.node, messages.ExecutorsGroup); err != nil {
		return nil, err
	}
	return &r, nil
}

// newRequest makes a key on P-256 and a certificate request for it, both in PEM.
func newRequest(user, group string) (key, csr []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key for %s: %w", user, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key for %s: %w", user, err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: []string{group}}}, private)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate request for %s: %w", user, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}), nil
}

// Save checks that the certificates are those that were asked for, and writes both kubeconfigs. The error is
// errdefs.ErrInvalid if they are not.
func (s *Store) Save(r *Request, c messages.Credentials) error {
	for _, one := range []struct {
		user, file       string
		certificate, key []byte
	}{
		{messages.KubeletUserPrefix + s.node, s.KubeletKubeconfig(), c.KubeletCertificate, r.kubeletKey},
		{messages.ExecutorUserPrefix + s.node, s.ExecutorKubeconfig(), c.ExecutorCertificate, r.executorKey},
	} {
		pair, err := tls.X509KeyPair(one.certificate, one.key)
		if err != nil {
			return fmt.Errorf("certificate for %s: %w: %w", one.user, errdefs.ErrInvalid, err)
		}
		if pair.Leaf.Subject.CommonName != one.user {
			return fmt.Errorf("certificate for %s is one for %s: %w", one.user, pair.Leaf.Subject.CommonName, errdefs.ErrInvalid)
		}
		if err := writeKubeconfig(one.file, c.Server, c.CA, one.certificate, one.key); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig replaces the file whole: a reader sees the old one or the new one.
func writeKubeconfig(path, server string, ca, certificate, key []byte) (err error) {
	const name = "mesopod"
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	data, err := clientcmd.Write(*k)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
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
func (s *Store) Certificate() (tls.Certificate, error) { return certificateOf(s.ExecutorKubeconfig()) }

// RenewAt is when new certificates should be asked for: when two thirds of the life of the shorter-lived one are over. The
// error is errdefs.ErrNotFound if none were saved.
func (s *Store) RenewAt() (time.Time, error) {
	var at time.Time
	for _, file := range []string{s.KubeletKubeconfig(), s.ExecutorKubeconfig()} {
		pair, err := certificateOf(file)
		if err != nil {
			return time.Time{}, err
		}
		if due := renewAt(pair.Leaf.NotBefore, pair.Leaf.NotAfter); at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at, nil
}

func renewAt(notBefore, notAfter time.Time) time.Time {
	return notBefore.Add(notAfter.Sub(notBefore) * 2 / 3)
}

func certificateOf(file string) (tls.Certificate, error) {
	k, err := clientcmd.LoadFromFile(file)
	if os.IsNotExist(err) {
		return tls.Certificate{}, fmt.Errorf("no credentials yet: %w: %w", errdefs.ErrNotFound, err)
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read credentials: %w", err)
	}
	user := k.AuthInfos[k.CurrentContext]
	if user == nil {
		return tls.Certificate{}, fmt.Errorf("read credentials %s: no user in it: %w", file, errdefs.ErrInvalid)
	}
	pair, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read credentials %s: %w: %w", file, errdefs.ErrInvalid, err)
	}
	return pair, nil
}

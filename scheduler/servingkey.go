package scheduler

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// ServingSecretName holds the key of the scheduler's server, in Namespace. Executors know it by its hash, so it outlives
// the scheduler: without it no executor that runs could renew its certificates.
const ServingSecretName = "mesopod-scheduler-serving"

// The ConfigMap in which every API server publishes the authority for client certificates.
const (
	authenticationConfigMap = "extension-apiserver-authentication"
	clientCAKey             = "client-ca-file"
)

// servingLife is that of the server's certificate. Callers look at the key and not at the dates.
const servingLife = 20 * 365 * 24 * time.Hour

// loadServing returns the key of the server with a certificate for it, and makes them if there are none.
func loadServing(ctx context.Context, client kubernetes.Interface) (tls.Certificate, error) {
	secrets := client.CoreV1().Secrets(Namespace)
	stored, err := secrets.Get(ctx, ServingSecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if err := createNamespace(ctx, client); err != nil {
			return tls.Certificate{}, err
		}
		var made *corev1.Secret
		if made, err = newServing(); err != nil {
			return tls.Certificate{}, err
		}
		stored, err = secrets.Create(ctx, made, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another scheduler was faster
			stored, err = secrets.Get(ctx, ServingSecretName, metav1.GetOptions{})
		}
	}
	if err != nil {
		return tls.Certificate{}, withKind(err, "serving key in Secret "+Namespace+"/"+ServingSecretName)
	}
	pair, err := tls.X509KeyPair(stored.Data[corev1.TLSCertKey], stored.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("Secret %s/%s holds no key and certificate; delete it to have new ones, after which every executor needs a launch to renew: %w: %w",
			Namespace, ServingSecretName, errdefs.ErrInvalid, err)
	}
	return pair, nil
}

// newServing is a Secret with a new key and a certificate that it signed itself.
func newServing() (*corev1.Secret, error) {
	fail := func(err error) (*corev1.Secret, error) { return nil, fmt.Errorf("make serving key: %w", err) }
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "mesopod scheduler"}, DNSNames: []string{"mesopod-scheduler"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(servingLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fail(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fail(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: ServingSecretName, Namespace: Namespace}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		},
	}, nil
}

// loadClientCA returns the certificates, in PEM, that the API server takes for the authority of its clients.
func loadClientCA(ctx context.Context, client kubernetes.Interface) ([]byte, error) {
	stored, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, authenticationConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, withKind(err, "authority for clients in ConfigMap "+metav1.NamespaceSystem+"/"+authenticationConfigMap)
	}
	if stored.Data[clientCAKey] == "" {
		return nil, fmt.Errorf("ConfigMap %s/%s has no %s: the API server takes no client certificates, so executors cannot have any: %w",
			metav1.NamespaceSystem, authenticationConfigMap, clientCAKey, errdefs.ErrInvalid)
	}
	return []byte(stored.Data[clientCAKey]), nil
}

package credentials

import (
	"context"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcertificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
)

const (
	// signLimit bounds one signature, from request to certificate.
	signLimit = 20 * time.Second
	// signPoll is the time between two looks for the certificate. Signers take milliseconds.
	signPoll = 100 * time.Millisecond
)

// CSRSigner gets certificates from the signers of the API server.
type CSRSigner struct {
	requests typedcertificatesv1.CertificateSigningRequestInterface
	life     time.Duration
}

// NewCSRSigner makes a CSRSigner. life is asked for each certificate; a signer may give less, and none gives less than
// 10 minutes.
func NewCSRSigner(requests typedcertificatesv1.CertificateSigningRequestInterface, life time.Duration) *CSRSigner {
	return &CSRSigner{requests: requests, life: life}
}

// Sign makes a CertificateSigningRequest, approves it, waits for the certificate and removes the object. The request must
// have been checked: see CheckCSR. Errors are errdefs.ErrRefused if the signer says no, else errdefs.ErrUnavailable.
func (s *CSRSigner) Sign(ctx context.Context, signer, user string, csr []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, signLimit)
	defer cancel()
	fail := func(kind, err error) ([]byte, error) {
		return nil, fmt.Errorf("certificate for %s: %w: %w", user, kind, err)
	}
	life := int32(s.life / time.Second)
	use := certificatesv1.UsageClientAuth
	if signer == certificatesv1.KubeletServingSignerName {
		use = certificatesv1.UsageServerAuth
	}
	made, err := s.requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "mesopod-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: csr, SignerName: signer, ExpirationSeconds: &life,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, use},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fail(errdefs.ErrUnavailable, err)
	}
	// What is left behind, a controller removes within hours.
	defer func() { _ = s.requests.Delete(context.WithoutCancel(ctx), made.Name, metav1.DeleteOptions{}) }()
	made.Status.Conditions = append(made.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: "MesopodExecutor", Message: "the scheduler has launched this executor there",
	})
	if _, err := s.requests.UpdateApproval(ctx, made.Name, made, metav1.UpdateOptions{}); err != nil {
		return fail(errdefs.ErrUnavailable, err)
	}
	tick := time.NewTicker(signPoll)
	defer tick.Stop()
	for {
		now, err := s.requests.Get(ctx, made.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return fail(errdefs.ErrUnavailable, err)
		case len(now.Status.Certificate) > 0:
			return now.Status.Certificate, nil
		}
		for _, c := range now.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed || c.Type == certificatesv1.CertificateDenied {
				return fail(errdefs.ErrRefused, errors.New(c.Message))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fail(errdefs.ErrUnavailable, fmt.Errorf("signer %s gave none in time: %w", signer, ctx.Err()))
		}
	}
}

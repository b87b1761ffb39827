package credentials

import (
	"errors"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// What the signer says is handed on, and the object is removed whatever it is. The real signers are in the tests of
// internal/controlplane.
func TestCSRSigner(t *testing.T) {
	for name, c := range map[string]struct {
		status certificatesv1.CertificateSigningRequestStatus
		err    error
	}{
		"signed": {status: certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("c")}},
		"failed": {status: certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateFailed, Message: "no"}}}, err: errdefs.ErrRefused},
	} {
		client := fake.NewClientset()
		// The fake does not generate names.
		client.PrependReactor("create", "certificatesigningrequests", func(a k8stesting.Action) (bool, runtime.Object, error) {
			a.(k8stesting.CreateAction).GetObject().(*certificatesv1.CertificateSigningRequest).Name = "mesopod-1"
			return false, nil, nil
		})
		client.PrependReactor("get", "certificatesigningrequests", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, &certificatesv1.CertificateSigningRequest{Status: c.status}, nil
		})
		requests := client.CertificatesV1().CertificateSigningRequests()
		got, err := NewCSRSigner(requests, time.Hour).Sign(t.Context(), certificatesv1.KubeAPIServerClientSignerName, "u", []byte("csr"))
		if !errors.Is(err, c.err) || string(got) != string(c.status.Certificate) {
			t.Errorf("%s: %q, %v, want %v", name, got, err, c.err)
		}
		left, err := requests.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(left.Items) > 0 {
			t.Errorf("%s: left behind: %v, %v", name, left.Items, err)
		}
	}
}

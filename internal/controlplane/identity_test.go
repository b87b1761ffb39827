package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func testExecutor(t *testing.T, p *Plane) {
	admin := mustClient(t, p.AdminKubeconfig())
	mustNode(t, admin, "a1")
	if _, err := admin.CoreV1().Pods("default").Create(t.Context(), pause("bound"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := p.ExecutorKubeconfig("a1")
	if err != nil {
		t.Fatal(err)
	}
	client := mustClient(t, kubeconfig)
	err = client.CoreV1().Pods("default").Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "bound"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "a1"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Errorf("bind: %v", err)
	}
	got, err := client.CoreV1().Pods("default").Get(t.Context(), "bound", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.NodeName != "a1" {
		t.Errorf("node = %q, want a1", got.Spec.NodeName)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "a1", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete node = %v, want forbidden", err)
	}
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list secrets = %v, want forbidden", err)
	}
}

func testScheduler(t *testing.T, p *Plane) {
	kubeconfig, err := p.SchedulerKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	client := mustClient(t, kubeconfig)
	mustNode(t, client, "a2")
	if _, err := client.CoreV1().Nodes().Patch(t.Context(), "a2", "application/merge-patch+json",
		[]byte(`{"status":{"capacity":{"cpu":"2"}}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("patch node status: %v", err)
	}
	if _, err := client.CoreV1().ConfigMaps(systemNamespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "framework"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("create config map: %v", err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("create config map in default = %v, want forbidden", err)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "a2", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete node: %v", err)
	}
}

// The scheduler gets an executor's kubelet a client certificate by the API.
func testCertificate(t *testing.T, p *Plane) {
	kubeconfig, err := p.SchedulerKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	requests := mustClient(t, kubeconfig).CertificatesV1().CertificateSigningRequests()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:c1", Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "c1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", Message: "asked for by the test",
	}}
	if _, err := requests.UpdateApproval(t.Context(), "c1", csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = poll(t.Context(), func(ctx context.Context) error {
		csr, err := requests.Get(ctx, "c1", metav1.GetOptions{})
		if err == nil && len(csr.Status.Certificate) == 0 {
			err = fmt.Errorf("no certificate yet: %v", csr.Status.Conditions)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// The Node authorizer and NodeRestriction hold a kubelet to its node.
func testKubelet(t *testing.T, p *Plane) {
	kubeconfig, err := p.KubeletKubeconfig("k1")
	if err != nil {
		t.Fatal(err)
	}
	client := mustClient(t, kubeconfig)
	mustNode(t, client, "k1")
	_, err = client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "k2"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("create foreign node = %v, want forbidden", err)
	}
}

func mustNode(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create node %s: %v", name, err)
	}
}

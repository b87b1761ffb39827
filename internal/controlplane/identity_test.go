package controlplane

import (
	"net"
	"os"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	executorcredentials "github.com/mesopod/mesopod/executor/credentials"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/credentials"
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

// The scheduler gets an executor its certificates by the API, with the signers of a stock control plane, and what they
// sign is whom it says.
func testCertificate(t *testing.T, p *Plane) {
	kubeconfig, err := p.SchedulerKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	requests := mustClient(t, kubeconfig).CertificatesV1().CertificateSigningRequests()
	sign := credentials.NewCSRSigner(requests, time.Hour).Sign
	store, err := executorcredentials.Open(t.TempDir(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	ask, err := store.Request(net.IP{10, 0, 0, 7})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(p.Authority().CertFile())
	if err != nil {
		t.Fatal(err)
	}
	got := messages.Credentials{Server: p.Server(), CA: ca, ClientCA: ca}
	if got.KubeletCertificate, err = sign(t.Context(), certificatesv1.KubeAPIServerClientKubeletSignerName, "kubelet", ask.KubeletCSR); err != nil {
		t.Fatal(err)
	}
	if got.ExecutorCertificate, err = sign(t.Context(), certificatesv1.KubeAPIServerClientSignerName, "executor", ask.ExecutorCSR); err != nil {
		t.Fatal(err)
	}
	if got.ServingCertificate, err = sign(t.Context(), certificatesv1.KubeletServingSignerName, "kubelet", ask.ServingCSR); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(ask, got); err != nil {
		t.Fatal(err)
	}
	left, err := requests.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d requests are left behind, %v", len(left.Items), err)
	}
	if at, err := store.RenewAt(); err != nil || time.Until(at) < 20*time.Minute || time.Until(at) > 40*time.Minute {
		t.Errorf("renew at %s, %v, want about 40 minutes from now", at, err)
	}
	for file, want := range map[string]string{store.KubeletKubeconfig(): "system:node:c1", store.ExecutorKubeconfig(): ExecutorUser("c1")} {
		self, err := mustClient(t, file).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || self.Status.UserInfo.Username != want {
			t.Errorf("%s is user %q, %v, want %s", file, self.Status.UserInfo.Username, err, want)
		}
	}
	admin := mustClient(t, p.AdminKubeconfig())
	mustNode(t, admin, "c1")
	if err := bindTo(t.Context(), mustClient(t, store.ExecutorKubeconfig()), mustPod(t, admin, ""), "c1", nil); err != nil {
		t.Errorf("bind with the new certificate: %v", err)
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

package credentials

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mesopod/mesopod/test/cluster"
)

func clientOf(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// The two identities that the scheduler gave to node 1, stolen, are good for node 1 alone: no binding to another node, no
// secret of a pod that is not bound there, no status of another node, no pod of another node, no further right.
func TestBounds(t *testing.T) {
	running(t, "here", node1)
	there := running(t, "there", node2)
	ctx, pods, secrets := t.Context(), suite.Client.CoreV1().Pods(cluster.Namespace), suite.Client.CoreV1().Secrets(cluster.Namespace)
	if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "wanted"}, StringData: map[string]string{"a": "b"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waiting := cluster.NewPod("waiting", cluster.Steady)
	waiting.Spec.SchedulerName = "nobody"
	waiting.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "wanted"}}}}
	suite.Create(t, waiting)

	executor, kubelet := clientOf(t, pki("1", "executor.kubeconfig")), clientOf(t, pki("1", "kubelet.kubeconfig"))
	foreign, err := suite.Client.CoreV1().Nodes().Get(ctx, node2, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for who, c := range map[string]kubernetes.Interface{"executor": executor, "kubelet": kubelet} {
		for what, try := range map[string]func() error{
			"bind to another node": func() error {
				return c.CoreV1().Pods(cluster.Namespace).Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "waiting"},
					Target: corev1.ObjectReference{Kind: "Node", Name: node2}}, metav1.CreateOptions{})
			},
			"read the secret of an unbound pod": func() error {
				_, err := c.CoreV1().Secrets(cluster.Namespace).Get(ctx, "wanted", metav1.GetOptions{})
				return err
			},
			"list secrets": func() error {
				_, err := c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
				return err
			},
			"write another node's status": func() error {
				_, err := c.CoreV1().Nodes().UpdateStatus(ctx, foreign, metav1.UpdateOptions{})
				return err
			},
			"delete another node's pod": func() error {
				return c.CoreV1().Pods(cluster.Namespace).Delete(ctx, there.Name, metav1.DeleteOptions{})
			},
			"write another node's pod": func() error {
				_, err := c.CoreV1().Pods(cluster.Namespace).UpdateStatus(ctx, there, metav1.UpdateOptions{})
				return err
			},
			"read the scheduler's key": func() error {
				_, err := c.CoreV1().Secrets("mesopod-system").Get(ctx, "mesopod-scheduler-serving", metav1.GetOptions{})
				return err
			},
			"approve certificates": func() error {
				csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "any"}}
				_, err := c.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, "any", csr, metav1.UpdateOptions{})
				return err
			},
		} {
			if err := try(); !apierrors.IsForbidden(err) {
				t.Errorf("%s may %s: %v, want forbidden", who, what, err)
			}
		}
	}
	// The identities themselves are good, so it is not that which is refused.
	if _, err := executor.CoreV1().Pods(cluster.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node1}); err != nil {
		t.Errorf("the executor cannot list its own pods: %v", err)
	}
	if _, err := kubelet.CoreV1().Nodes().Get(ctx, node1, metav1.GetOptions{}); err != nil {
		t.Errorf("the kubelet cannot read its own node: %v", err)
	}
	if _, err := pods.Get(ctx, there.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the other node's pod: %v", err)
	}
}

package network

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mesopod/mesopod/test/cluster"
)

// A Deployment of three pods is asked by its name all the time while one of its agents is drained: no request is lost, and
// its pods go elsewhere.
func TestDrainLosesNoRequest(t *testing.T) {
	labels := map[string]string{"app": "shop"}
	template := cluster.NewPod("shop", "")
	serveWeb(&template.Spec)
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
	}}
	apps := suite.Client.AppsV1().Deployments(cluster.Namespace)
	if _, err := apps.Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template.Spec},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := apps.Delete(context.WithoutCancel(t.Context()), "shop", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	createService(t, "shop", nil)
	ready := func(ctx context.Context) error {
		d, err := apps.Get(ctx, "shop", metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas != 3 {
			err = fmt.Errorf("%d pods are ready", d.Status.ReadyReplicas)
		}
		return err
	}
	cluster.Eventually(t, "three pods of the shop", ready)
	suite.Create(t, asker("shopper", "http://shop/", suite.Node(1)))
	suite.WaitPhase(t, "shopper", corev1.PodRunning)
	early := waitServed(t, "shopper")

	// Not the agent of the shopper, nor that of the DNS server, whose one pod would be away for a moment.
	victim := drainable(t)
	defer suite.Kubectl(t, "uncordon", victim)
	suite.Kubectl(t, "drain", victim, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=60s")
	cluster.Eventually(t, "three pods elsewhere", ready)
	waitAnswers(t, "shopper", 100)
	if _, failed := answers(t, "shopper"); len(failed) > len(early) {
		t.Errorf("requests were lost: %s", strings.Join(failed[len(early):], "\n"))
	}
	list, err := suite.Client.CoreV1().Pods(cluster.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=shop", FieldSelector: "spec.nodeName=" + victim})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("%d pods are left on %s (%v)", len(list.Items), victim, err)
	}
}

// drainable is an agent with a pod of the shop and nothing else that must not go.
func drainable(t *testing.T) string {
	t.Helper()
	dns, err := suite.Client.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= 3; n++ {
		busy := false
		for _, pod := range dns.Items {
			busy = busy || pod.Spec.NodeName == suite.Node(n)
		}
		if !busy {
			return suite.Node(n)
		}
	}
	t.Fatal("no agent is free")
	return ""
}

package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/messages"
)

// The kubelet gets the host ports that the annotations tell, also of a pod that is being ended; the API server's copy stays as it is.
func TestHostPortsForKubelet(t *testing.T) {
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{messages.LabelPortMapping: messages.PortsWildcard},
			Annotations: map[string]string{messages.AnnotationPrefix + "/port_TCP_80": "31007"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}},
	}
	for name, p := range map[string]*pod{"runs": {object: object}, "ends": {object: object, mark: &mark{at: metav1.NewTime(time.Unix(0, 0))}}} {
		got := p.forKubelet()
		if port := got.Spec.Containers[0].Ports[0].HostPort; port != 31007 {
			t.Errorf("%s: host port %d, want 31007", name, port)
		}
		if (got.DeletionTimestamp != nil) != (p.mark != nil) || object.DeletionTimestamp != nil || object.Spec.Containers[0].Ports[0].HostPort != 0 {
			t.Errorf("%s: got deletion %v; the API server's copy is now %+v", name, got.DeletionTimestamp, object)
		}
	}
}

package messages

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// Ports without a hostPort are open where the label says so, until annotations assign them; the pod itself is not written to.
func TestHostPorts(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "side", Ports: []corev1.ContainerPort{{ContainerPort: 9000}}}},
		Containers: []corev1.Container{
			{Name: "a", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 31005}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}, {ContainerPort: 53}}},
			{Name: "b", Ports: []corev1.ContainerPort{{ContainerPort: 9000}}},
		},
	}}
	for label, want := range map[string][]string{"": nil, "fixed": nil, "wildcard": {"k8s.mesosphere.io/port_TCP_9000", "k8s.mesosphere.io/port_UDP_53", "k8s.mesosphere.io/port_TCP_53"}} {
		pod.Labels = map[string]string{LabelPortMapping: label}
		if got, err := OpenPorts(pod); err != nil || !cmp.Equal(got, want) {
			t.Errorf("label %q: open are %v (%v), want %v", label, got, err, want)
		}
	}
	pod.Labels[LabelPortMapping] = "any"
	if _, err := OpenPorts(pod); err == nil {
		t.Error("label any was taken")
	}
	pod.Labels[LabelPortMapping] = PortsWildcard
	pod.Annotations = map[string]string{"k8s.mesosphere.io/port_TCP_9000": "31000", "k8s.mesosphere.io/port_UDP_53": "31001", "k8s.mesosphere.io/port_TCP_53": "70000"}
	if got, err := OpenPorts(pod); err != nil || !cmp.Equal(got, []string{"k8s.mesosphere.io/port_TCP_53"}) {
		t.Errorf("open are %v (%v), want the one whose annotation is no port", got, err)
	}
	before := pod.DeepCopy()
	got := WithHostPorts(pod)
	var ports []int32
	for _, container := range append(got.Spec.InitContainers, got.Spec.Containers...) {
		for _, port := range container.Ports {
			ports = append(ports, port.HostPort)
		}
	}
	if want := []int32{31000, 31005, 31001, 0, 0}; !cmp.Equal(ports, want) {
		t.Errorf("host ports are %v, want %v", ports, want)
	}
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("the pod was written to: %s", diff)
	}
	delete(pod.Labels, LabelPortMapping)
	if WithHostPorts(pod) != pod {
		t.Error("a pod without the label was copied")
	}
}

package messages

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// LabelPortMapping on a pod says what its ports without a hostPort are: PortsFixed leaves them on the pod's own address alone,
// PortsWildcard gives each a port of the host, any that Mesos offers. The key and its values are k8sm's.
const LabelPortMapping = AnnotationPrefix + "/portMapping"

// Values of LabelPortMapping; fixed is what holds without it.
const (
	PortsFixed    = "fixed"
	PortsWildcard = "wildcard"
)

// AnnotationPort is the key of the annotation that tells the port of the host that a container's port has got, in digits:
// k8s.mesosphere.io/port_TCP_8080.
func AnnotationPort(port *corev1.ContainerPort) string {
	return AnnotationPrefix + "/port_" + string(cmp.Or(port.Protocol, corev1.ProtocolTCP)) + "_" + strconv.Itoa(int(port.ContainerPort))
}

// OpenPorts are the annotations (see AnnotationPort) of those ports of the pod that are to get a port of the host and have none
// yet, in the order of its containers. A port that several containers name is one. The error tells of a label that is none.
func OpenPorts(pod *corev1.Pod) (keys []string, err error) {
	switch mapping := pod.Labels[LabelPortMapping]; mapping {
	case "", PortsFixed:
		return nil, nil
	case PortsWildcard:
	default:
		return nil, fmt.Errorf("label %s is %q: want %s or %s", LabelPortMapping, mapping, PortsFixed, PortsWildcard)
	}
	mapped(pod, func(port *corev1.ContainerPort, key string) {
		if _, has := assigned(pod, key); !has {
			keys = append(keys, key)
		}
	})
	return keys, nil
}

// WithHostPorts is the pod with the ports of the host that its annotations tell, as containers' hostPorts: in the API server a pod's
// containers cannot be changed any more. A pod that has none is returned as it is; a copy shares memory with the pod.
func WithHostPorts(pod *corev1.Pod) *corev1.Pod {
	if pod.Labels[LabelPortMapping] != PortsWildcard {
		return pod
	}
	spec := *pod
	spec.Spec.InitContainers, spec.Spec.Containers = ownPorts(pod.Spec.InitContainers), ownPorts(pod.Spec.Containers)
	mapped(&spec, func(port *corev1.ContainerPort, key string) {
		if host, has := assigned(pod, key); has {
			port.HostPort = host
		}
	})
	return &spec
}

// mapped visits the first of each port without a hostPort.
func mapped(pod *corev1.Pod, visit func(port *corev1.ContainerPort, key string)) {
	seen := map[string]bool{}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for j := range containers[i].Ports {
				port := &containers[i].Ports[j]
				if key := AnnotationPort(port); port.HostPort == 0 && !seen[key] {
					seen[key] = true
					visit(port, key)
				}
			}
		}
	}
}

// assigned reads an annotation; a value that is no port is none.
func assigned(pod *corev1.Pod, key string) (port int32, has bool) {
	n, err := strconv.ParseUint(pod.Annotations[key], 10, 16)
	return int32(n), err == nil && n > 0
}

// ownPorts copies containers as far as their ports can be written to.
func ownPorts(containers []corev1.Container) []corev1.Container {
	own := append([]corev1.Container(nil), containers...)
	for i := range own {
		own[i].Ports = append([]corev1.ContainerPort(nil), own[i].Ports...)
	}
	return own
}

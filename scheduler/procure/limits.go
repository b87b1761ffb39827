package procure

import (
	"math"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// limitOf is the pod's effective limit of a resource; all is false when some container has none, and with it the pod.
func limitOf(pod *corev1.Pod, name corev1.ResourceName) (limit resource.Quantity, all bool) {
	if pod.Spec.Resources == nil || !has(pod.Spec.Resources.Limits, name) {
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				if !has(containers[i].Resources.Limits, name) {
					return resource.Quantity{}, false
				}
			}
		}
	}
	limit, all = resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})[name]
	return limit, all && !limit.IsZero()
}

func has(list corev1.ResourceList, name corev1.ResourceName) bool {
	amount, found := list[name]
	return found && !amount.IsZero()
}

// limits is TaskInfo.limits: the pod's limits, infinite where it has none. Mesos refuses a limit below the request.
func limits(pod *corev1.Pod, need Need) map[string]mesos.Value_Scalar {
	cpus, mem := math.Inf(1), math.Inf(1)
	if limit, all := limitOf(pod, corev1.ResourceCPU); all {
		cpus = float64(max(limit.MilliValue(), need.CPUs)) / 1000
	}
	if limit, all := limitOf(pod, corev1.ResourceMemory); all {
		mem = float64(max(divideUp(limit, 1<<20), need.MemMB))
	}
	return map[string]mesos.Value_Scalar{"cpus": {Value: cpus}, "mem": {Value: mem}}
}

package procure

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/offers"
)

// The least that a task asks for: Mesos refuses a task without resources, and an offer below this is not made.
const (
	// LeastMilliCPUs in thousandths of a core.
	LeastMilliCPUs = 10
	// LeastMemMB in MiB.
	LeastMemMB = 32
)

// Config is what procurement knows beside pod and agent. Equal configurations make equal ExecutorInfos.
type Config struct {
	// Executor is the executor's fixed share of each agent.
	Executor messages.Resources
	// KeeperURI is where the fetcher finds mesopod-keeper: a path on the agent's host or an http(s) URL.
	KeeperURI string
	// BundleDir is where the keeper finds or puts the bundle, on the agent's host.
	BundleDir string
	// Bundle is what the keeper runs instead, where its SHA-256 is not empty.
	Bundle Bundle
	// User runs the executor; empty leaves it to the framework's user.
	User string
	// DefaultCPUs (cores) and DefaultMemMB (MiB) are what a pod without any request of that resource takes.
	DefaultCPUs, DefaultMemMB float64
	// GPUResource is the extended resource that stands for Mesos' gpus; empty: none does.
	GPUResource corev1.ResourceName
	// Roles say which roles pods may use.
	Roles RolePolicy
}

// Need is what one pod takes from an agent: comparable, computed once per scheduling cycle.
type Need = offers.Need

// NeedOf is what a pod takes, and the roles that it may use: namespaceRoles is the annotation messages.AnnotationRoles of
// its namespace, empty for none. The error is errdefs.ErrInvalid and says in one sentence what is not supported or not
// allowed.
func NeedOf(pod *corev1.Pod, namespaceRoles string, cfg Config) (Need, error) {
	need, err := SizeOf(pod, cfg)
	if err != nil {
		return Need{}, err
	}
	need.Roles, err = cfg.Roles.Of(pod, namespaceRoles)
	return need, err
}

// SizeOf is the pod's effective request, with init containers, sidecars and overhead, in the amounts of Mesos: at
// least 0.01 cpus and 32 MB, defaults where the pod asks for nothing, and its host ports. Roles are left out. The error is
// errdefs.ErrInvalid and says in one sentence what is not supported.
func SizeOf(pod *corev1.Pod, cfg Config) (Need, error) {
	if pod.Spec.OS != nil && pod.Spec.OS.Name != corev1.Linux {
		return Need{}, fmt.Errorf("pods of operating system %q are not supported, the agents run linux: %w", pod.Spec.OS.Name, errdefs.ErrInvalid)
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	need := Need{}
	need.CPUs = ceil(requests, corev1.ResourceCPU, 1, cfg.DefaultCPUs*1000)
	need.MemMB = ceil(requests, corev1.ResourceMemory, 1<<20, cfg.DefaultMemMB)
	need.DiskMB = ceil(requests, corev1.ResourceEphemeralStorage, 1<<20, 0)
	if gpus, asked := requests[cfg.GPUResource]; asked {
		need.GPUs = gpus.Value()
	}
	need.CPUs = max(need.CPUs, LeastMilliCPUs)
	need.MemMB = max(need.MemMB, LeastMemMB)
	if limit, all := limitOf(pod, corev1.ResourceMemory); all {
		if mem := divideUp(limit, 1<<20); mem > need.MemMB {
			need.MemLimitMB = mem
		}
	}
	need.Ports = HostPorts(pod)
	open, err := messages.OpenPorts(pod)
	if err != nil {
		return Need{}, fmt.Errorf("%w: %w", err, errdefs.ErrInvalid)
	}
	need.AnyPorts = len(open)
	return need, nil
}

// ceil is the amount of a resource in units, rounded up; other when the list has none of it.
func ceil(list corev1.ResourceList, name corev1.ResourceName, unit int64, other float64) int64 {
	amount, found := list[name]
	if !found || amount.IsZero() {
		return int64(math.Ceil(other))
	}
	if name == corev1.ResourceCPU {
		return amount.MilliValue()
	}
	return divideUp(amount, unit)
}

func divideUp(amount resource.Quantity, unit int64) int64 {
	value := amount.Value()
	if value <= 0 {
		return 0
	}
	return (value-1)/unit + 1
}

// HostPorts are the ports of the host that the pod's containers ask for, and those that it was given before. Mesos knows neither protocols nor addresses:
// a port asked for over TCP and UDP is one port.
func HostPorts(pod *corev1.Pod) offers.PortSet {
	var ports []uint16
	add := func(containers []corev1.Container) {
		for i := range containers {
			for _, port := range containers[i].Ports {
				if port.HostPort > 0 && port.HostPort <= math.MaxUint16 {
					ports = append(ports, uint16(port.HostPort))
				}
			}
		}
	}
	pod = messages.WithHostPorts(pod)
	add(pod.Spec.InitContainers)
	add(pod.Spec.Containers)
	return offers.NewPortSet(ports...)
}

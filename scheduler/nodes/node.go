package nodes

import (
	"fmt"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

// Agent is what the Node is made of.
type Agent struct {
	ID       string
	Hostname string
	// Total is the agent's size in roles that the framework may use.
	Total      messages.Resources
	Attributes []mesos.Attribute
	Domain     *mesos.DomainInfo
	// Limits: the agent has the capability TASK_RESOURCE_LIMITS.
	Limits bool
}

// Config is what all nodes share.
type Config struct {
	// Executor is the executor's fixed share.
	Executor messages.Resources
	// Arch is the value of kubernetes.io/arch.
	Arch string
	// MaxPods is the pod capacity.
	MaxPods int
	// GPUResource is the extended resource that an agent's gpus are shown as; empty: not at all.
	GPUResource corev1.ResourceName
}

// Desired is the Node of an agent, named by its host name, with our labels and annotations and its size; conditions are
// left to those who keep it alive. notes tell of attributes that no label can carry. The error is errdefs.ErrInvalid:
// the agent cannot be a node.
func Desired(agent Agent, cfg Config) (node *corev1.Node, notes []string, err error) {
	if faults := validation.IsDNS1123Subdomain(agent.Hostname); len(faults) > 0 {
		return nil, nil, fmt.Errorf("agent %s: host name %q is no node name (%s), start the agent with --hostname: %w",
			agent.ID, agent.Hostname, strings.Join(faults, "; "), errdefs.ErrInvalid)
	}
	size, err := messages.NodeCapacity(agent.Total, cfg.Executor)
	if err != nil {
		return nil, nil, fmt.Errorf("agent %s on %s: %w", agent.ID, agent.Hostname, err)
	}
	labels, notes := labelsOf(agent, cfg)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(size.Cores), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(size.MemoryBytes, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(int64(cfg.MaxPods), resource.DecimalSI),
	}
	if disk := int64(agent.Total.DiskMB); disk > 0 {
		capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(disk<<20, resource.BinarySI)
	}
	if gpus := int64(agent.Total.GPUs); gpus > 0 && cfg.GPUResource != "" {
		capacity[cfg.GPUResource] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	allocatable := capacity.DeepCopy()
	allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(size.MilliCPU, resource.DecimalSI)
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   agent.Hostname,
			Labels: labels,
			Annotations: map[string]string{
				messages.AnnotationAgentID:           agent.ID,
				messages.AnnotationExecutorID:        messages.ExecutorID,
				messages.AnnotationExecutorResources: fmt.Sprintf("cpus:%g;mem:%g", cfg.Executor.CPUs, cfg.Executor.MemMB),
			},
		},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: allocatable},
	}, notes, nil
}

// labelsOf are the node's labels: stock ones, attributes (EX-105), and the fault domain.
func labelsOf(agent Agent, cfg Config) (labels map[string]string, notes []string) {
	labels = map[string]string{
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: cfg.Arch,
	}
	add := func(what, key, value string) {
		if faults := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(faults) > 0 {
			notes = append(notes, fmt.Sprintf("%s of agent %s is left out of the node's labels: %s", what, agent.ID, strings.Join(faults, "; ")))
			return
		}
		labels[key] = value
	}
	add("host name "+agent.Hostname, corev1.LabelHostname, agent.Hostname)
	for i := range agent.Attributes {
		attribute := &agent.Attributes[i]
		what := "attribute " + attribute.Name
		switch attribute.Type {
		case mesos.TEXT:
			add(what, messages.LabelAttributePrefix+attribute.Name, attribute.GetText().GetValue())
		case mesos.SCALAR:
			add(what, messages.LabelAttributePrefix+attribute.Name, strconv.FormatFloat(attribute.GetScalar().GetValue(), 'f', -1, 64))
		case mesos.RANGES:
			add(what, messages.LabelAttributePrefix+attribute.Name, rangesOf(attribute.GetRanges().GetRange()))
		case mesos.SET: // a label each, so that a selector can ask for one of them
			for _, item := range attribute.GetSet().GetItem() {
				add(what, messages.LabelAttributePrefix+attribute.Name+"."+item, "true")
			}
		default:
			notes = append(notes, fmt.Sprintf("%s of agent %s is left out of the node's labels: its type %s is not known", what, agent.ID, attribute.Type))
		}
	}
	if domain := agent.Domain.GetFaultDomain(); domain != nil {
		add("region", corev1.LabelTopologyRegion, domain.Region.Name)
		add("zone", corev1.LabelTopologyZone, domain.Zone.Name)
	}
	return labels, notes
}

// rangesOf writes ranges as a label's value can: "1000-1500_2000-2010".
func rangesOf(ranges []mesos.Value_Range) string {
	words := make([]string, len(ranges))
	for i, r := range ranges {
		words[i] = fmt.Sprintf("%d-%d", r.Begin, r.End)
	}
	return strings.Join(words, "_")
}

// Keeper says who keeps a node alive: the zero value is nobody, yet.
type Keeper int

// The keepers.
const (
	// Nobody: not decided yet, as after the scheduler's start.
	Nobody Keeper = iota
	// Scheduler renews Lease and Ready condition, since no executor runs there.
	Scheduler
	// Kubelet of the executor does.
	Kubelet
)

// Next is who keeps the node alive from now on, and whether the scheduler has to be told. A scheduler that starts
// beside a running executor leaves the node to it without a word.
func (k Keeper) Next(executorRuns bool) (next Keeper, tell bool) {
	switch {
	case executorRuns:
		return Kubelet, k == Scheduler
	default:
		return Scheduler, k != Scheduler
	}
}

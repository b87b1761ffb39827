package nodes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/nodes"
)

var cfg = nodes.Config{Executor: messages.Resources{CPUs: 0.5, MemMB: 256}, Arch: "amd64", MaxPods: 110}

// TestDesired proves EX-105, EX-106 and EX-107: labels from attributes and fault domain, size less the executor's share; to the
// thousandth of a core, where EX-107 cut to whole ones.
func TestDesired(t *testing.T) {
	node, notes, err := nodes.Desired(nodes.Agent{
		ID: "A1", Hostname: "a1.example", Total: messages.Resources{CPUs: 4, MemMB: 4096, DiskMB: 1000},
		Attributes: []mesos.Attribute{
			{Name: "rack", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: "r1"}},
			{Name: "weight", Type: mesos.SCALAR, Scalar: &mesos.Value_Scalar{Value: 2.5}},
			{Name: "bad value", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: "x"}},
			{Name: "os", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: "a b"}},
			{Name: "keys", Type: mesos.RANGES, Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 1000, End: 1500}, {Begin: 7, End: 7}}}},
			{Name: "disks", Type: mesos.SET, Set: &mesos.Value_Set{Item: []string{"ssd", "nvme", "a b"}}},
			{Name: "later", Type: 99},
		},
		Domain: &mesos.DomainInfo{FaultDomain: &mesos.DomainInfo_FaultDomain{
			Region: mesos.DomainInfo_FaultDomain_RegionInfo{Name: "eu"}, Zone: mesos.DomainInfo_FaultDomain_ZoneInfo{Name: "eu-1"}}},
	}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{
		"kubernetes.io/hostname": "a1.example", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"k8s.mesosphere.io/attribute-rack": "r1", "k8s.mesosphere.io/attribute-weight": "2.5",
		"k8s.mesosphere.io/attribute-keys": "1000-1500_7-7", "k8s.mesosphere.io/attribute-disks.ssd": "true", "k8s.mesosphere.io/attribute-disks.nvme": "true",
		"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-1",
	}, node.Labels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{
		"k8s.mesosphere.io/slaveId": "A1", "k8s.mesosphere.io/executorId": "mesopod-executor",
		"k8s.mesosphere.io/executorResources": "cpus:0.5;mem:256",
	}, node.Annotations); diff != "" {
		t.Error(diff)
	}
	if len(notes) != 4 {
		t.Errorf("%d notes, want one for each of 4 attributes: %q", len(notes), notes)
	}
	size := map[corev1.ResourceName]string{}
	for name, amount := range node.Status.Allocatable {
		size[name] = amount.String()
	}
	if diff := cmp.Diff(map[corev1.ResourceName]string{"cpu": "3500m", "memory": "3840Mi", "pods": "110", "ephemeral-storage": "1000Mi"}, size); diff != "" {
		t.Error(diff)
	}
	capacity := node.Status.Allocatable.DeepCopy()
	capacity[corev1.ResourceCPU] = resource.MustParse("4")
	if diff := cmp.Diff(capacity, node.Status.Capacity); diff != "" {
		t.Error(diff)
	}
}

// TestUnusable: EX-111 for small agents; host names that no node can have.
func TestUnusable(t *testing.T) {
	for name, agent := range map[string]nodes.Agent{
		"small":         {Hostname: "a1", Total: messages.Resources{CPUs: 1.4, MemMB: 4096}},
		"nothing":       {Hostname: "a1"},
		"capitals":      {Hostname: "A1", Total: messages.Resources{CPUs: 4, MemMB: 4096}},
		"no host":       {Total: messages.Resources{CPUs: 4, MemMB: 4096}},
		"host too long": {Hostname: strings.Repeat("a", 254), Total: messages.Resources{CPUs: 4, MemMB: 4096}},
	} {
		if _, _, err := nodes.Desired(agent, cfg); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%s: error %v, want an invalid one", name, err)
		}
	}
}

func TestKeeper(t *testing.T) {
	for _, test := range []struct {
		from nodes.Keeper
		runs bool
		to   nodes.Keeper
		tell bool
	}{
		{nodes.Nobody, false, nodes.Scheduler, true},
		{nodes.Nobody, true, nodes.Kubelet, false},
		{nodes.Scheduler, false, nodes.Scheduler, false},
		{nodes.Scheduler, true, nodes.Kubelet, true},
		{nodes.Kubelet, false, nodes.Scheduler, true},
		{nodes.Kubelet, true, nodes.Kubelet, false},
	} {
		if to, tell := test.from.Next(test.runs); to != test.to || tell != test.tell {
			t.Errorf("%d with executor %t: %d told %t, want %d told %t", test.from, test.runs, to, tell, test.to, test.tell)
		}
	}
}

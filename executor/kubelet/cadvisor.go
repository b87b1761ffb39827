package kubelet

import (
	"context"
	"fmt"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"

	"github.com/mesopod/mesopod/messages"
)

// sized tells the kubelet the size of the node that Mesos gave us in place of the machine's (EX-107). The memory limit
// of the pods' common cgroup follows from it.
type sized struct {
	cadvisor.Interface
	capacity messages.Capacity
}

// MachineInfo is cadvisor's with cores and memory replaced. It returns a copy, since cadvisor keeps the original.
func (s *sized) MachineInfo(logger klog.Logger) (*cadvisorapi.MachineInfo, error) {
	info, err := s.Interface.MachineInfo(logger)
	if err != nil {
		return nil, err
	}
	ours := *info
	ours.NumCores = s.capacity.Cores
	ours.MemoryCapacity = uint64(s.capacity.MemoryBytes)
	return &ours, nil
}

// newCadvisor is what the kubelet would make for itself, wrapped.
func newCadvisor(ctx context.Context, server *options.KubeletServer, capacity messages.Capacity) (cadvisor.Interface, error) {
	roots := []string{cm.NodeAllocatableRoot(server.CgroupRoot, server.CgroupsPerQOS, server.CgroupDriver)}
	inner, err := cadvisor.New(klog.FromContext(ctx), cadvisor.NewImageFsInfoProvider(server.ContainerRuntimeEndpoint),
		server.RootDirectory, roots, cadvisor.UsingLegacyCadvisorStats(server.ContainerRuntimeEndpoint),
		server.LocalStorageCapacityIsolation, false)
	if err != nil {
		return nil, fmt.Errorf("cadvisor: %w", err)
	}
	return &sized{Interface: inner, capacity: capacity}, nil
}

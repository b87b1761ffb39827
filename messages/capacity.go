package messages

import (
	"fmt"
	"math"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Resources are amounts of the scalar resources of Mesos that a node is made of.
type Resources struct {
	// CPUs in cores, to three decimals as Mesos keeps them.
	CPUs float64
	// MemMB in MiB, which Mesos calls MB.
	MemMB float64
	// DiskMB in MiB.
	DiskMB float64
	// GPUs are whole ones.
	GPUs float64
}

// Sub subtracts amount by amount; the result may be negative. It is rounded to three decimals, or 4.1 - 0.1 cpus
// would be a little less than 4.
func (r Resources) Sub(o Resources) Resources {
	sub := func(a, b float64) float64 { return math.Round((a-b)*1000) / 1000 }
	return Resources{CPUs: sub(r.CPUs, o.CPUs), MemMB: sub(r.MemMB, o.MemMB), DiskMB: sub(r.DiskMB, o.DiskMB), GPUs: sub(r.GPUs, o.GPUs)}
}

// String is Mesos' own notation, "cpus:4;mem:1024;disk:0", with gpus where there are any.
func (r Resources) String() string {
	text := fmt.Sprintf("cpus:%g;mem:%g;disk:%g", r.CPUs, r.MemMB, r.DiskMB)
	if r.GPUs != 0 {
		text += fmt.Sprintf(";gpus:%g", r.GPUs)
	}
	return text
}

// Capacity is the size of a node, in Kubernetes' units.
type Capacity struct {
	// Cores is the node's capacity, whole and rounded up: the kubelet counts machines in whole cores.
	Cores int
	// MilliCPU is what pods may have of them, the node's allocatable: thousandths of a core.
	MilliCPU int64
	// MemoryBytes is a multiple of 1 MiB.
	MemoryBytes int64
}

// NodeCapacity is the size of an agent's node: the agent's total in roles that the framework may use, less the
// executor's fixed share. The scheduler writes it on the Node that it creates and the executor tells it to the
// kubelet, so both say the same (design section 4, EX-107; half a core
// of an agent is not thrown away, though). An agent too small for one core and 32 MiB beside the
// executor is errdefs.ErrInvalid, never a wrapped-around number (EX-111).
func NodeCapacity(agent, executor Resources) (Capacity, error) {
	rest := agent.Sub(executor)
	const least = 32
	if rest.CPUs < 1 || rest.MemMB < least || math.IsNaN(rest.CPUs) || math.IsNaN(rest.MemMB) {
		return Capacity{}, fmt.Errorf("agent with %s is too small: beside the executor's %s a node needs 1 cpu and %d MB: %w",
			agent, executor, least, errdefs.ErrInvalid)
	}
	const huge = 1 << 40 // MiB; far above any machine, far below overflow
	milli := int64(math.Round(math.Min(rest.CPUs, huge) * 1000))
	return Capacity{
		Cores:       int((milli + 999) / 1000),
		MilliCPU:    milli,
		MemoryBytes: int64(math.Min(rest.MemMB, huge)) << 20,
	}, nil
}

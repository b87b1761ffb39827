package local

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler"
)

// machineResources is what each of the agents offers by default.
func machineResources(agents int) string {
	return shareOut(runtime.NumCPU(), machineMemMB(), agents)
}

// machineMemMB is the machine's memory in MiB.
func machineMemMB() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 8192
	}
	return uint64(info.Totalram) * uint64(info.Unit) >> 20
}

// shareOut divides a machine between agents: all cores, as if there were 4 at least so that a small machine can run
// several pods, and 60 % of the memory, the rest being for the control plane. An agent has no less than 2 cores and
// 1 GiB, so that a pod fits beside the executor; what many agents offer together then overbooks the machine. Each has
// all ports, since each has an address.
func shareOut(cores int, memMB uint64, agents int) string {
	return fmt.Sprintf("cpus:%d;mem:%d;disk:20000;ports:[31000-32000]",
		max(2, max(4, cores)/agents), max(1024, memMB*6/10/uint64(agents)))
}

// checkResources tells what is wrong with --agent-resources: text that the agent would refuse, or so little that no
// node fits, for which the start would wait in vain. Resources as JSON, or in a file, are left to the agent.
func checkResources(text string, roles []string) error {
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") ||
		strings.HasPrefix(text, "/") || strings.HasPrefix(text, "file:") {
		return nil
	}
	wrong := func(format string, args ...any) error {
		return newFault(errdefs.ErrInvalid, "--agent-resources=%s: %s, such as cpus:4;mem:4096;ports:[31000-32000]", text, fmt.Sprintf(format, args...))
	}
	// What is not named the agent finds out by itself, from the same machine.
	found := map[string]float64{}
	for part := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, ok := strings.Cut(part, ":")
		name, role, _ := strings.Cut(strings.TrimSpace(name), "(")
		value = strings.TrimSpace(value)
		if !ok || name == "" || value == "" {
			return wrong("%q is not NAME:VALUE", part)
		}
		if value[0] == '[' || value[0] == '{' {
			if name == "cpus" || name == "mem" {
				return wrong("%s must be a number, not %q", name, value)
			}
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil || number < 0 || math.IsNaN(number) || math.IsInf(number, 0) {
			return wrong("%q is neither an amount nor a range nor a set", value)
		}
		if role = strings.TrimSuffix(role, ")"); role != "" && role != "*" && !slices.Contains(roles, role) {
			number = 0 // the scheduler is not offered what others have reserved
		}
		found[name] += number
	}
	amount := func(name string, machine float64) float64 {
		if given, ok := found[name]; ok {
			return given
		}
		return machine
	}
	agent := messages.Resources{
		CPUs: amount("cpus", float64(runtime.NumCPU())), MemMB: amount("mem", float64(machineMemMB())), DiskMB: found["disk"],
	}
	if _, err := messages.NodeCapacity(agent, scheduler.DefaultConfig().ExecutorResources); err != nil {
		return newFault(errdefs.ErrInvalid, "--agent-resources=%s: %v", text, err)
	}
	return nil
}

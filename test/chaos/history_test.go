package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/test/cluster"
)

// history holds what is seen of tasks and pods against laws that no trouble excuses:
//
//   - at most one task of a pod is live at a time;
//   - a task that has ended does not come back, and neither does a pod;
//   - a pod has one node for all its life;
//   - a task is of a pod that was made.
//
// Whoever looks at the cluster calls it, from any goroutine.
type history struct {
	mu     sync.Mutex
	pods   map[types.UID]podSeen
	ended  map[string]string // task id to state
	broken []string
	// strange are tasks of pods that were not seen yet: the master may be asked before the pod's event is here.
	strange map[string]types.UID
	// looks counts what was held against the laws.
	looks struct{ tasks, pods int }
}

type podSeen struct {
	name, node string
	ended      corev1.PodPhase // empty for none
}

func newHistory() *history {
	return &history{pods: map[types.UID]podSeen{}, ended: map[string]string{}, strange: map[string]types.UID{}}
}

func (h *history) breaks(format string, args ...any) {
	if law := fmt.Sprintf(format, args...); !slices.Contains(h.broken, law) {
		h.broken = append(h.broken, law)
	}
}

// verdict is every breach, each once.
func (h *history) verdict() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(h.strange)) {
		if _, made := h.pods[h.strange[id]]; !made {
			h.breaks("task %s is of a pod that nobody made", id)
		}
	}
	return slices.Clone(h.broken)
}

// pod takes a pod as the API server shows it. Copies of one pod must come in their order.
func (h *history) pod(p *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks.pods++
	seen := h.pods[p.UID]
	seen.name = p.Name
	if seen.node != "" && p.Spec.NodeName != seen.node {
		h.breaks("pod %s went from node %s to %q", p.Name, seen.node, p.Spec.NodeName)
	}
	seen.node = p.Spec.NodeName
	phase := p.Status.Phase
	if seen.ended != "" && phase != seen.ended {
		h.breaks("pod %s is %s after %s", p.Name, phase, seen.ended)
	}
	if phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		seen.ended = phase
	}
	h.pods[p.UID] = seen
}

// ends tells whether a task in this state is over. TASK_UNREACHABLE is not: its agent may come back with it.
func ends(state string) bool {
	return slices.Contains([]string{
		"TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_ERROR", "TASK_LOST", "TASK_DROPPED", "TASK_GONE", "TASK_GONE_BY_OPERATOR",
	}, state)
}

// tasks takes all tasks of one answer of the master's.
func (h *history) tasks(all []cluster.Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks.tasks++
	live := map[types.UID][]string{}
	for _, one := range all {
		id := one.TaskID.Value
		uid, _, err := messages.ParseTaskID(id)
		if err != nil {
			h.breaks("task %s is of no pod: %v", id, err)
			continue
		}
		before, over := h.ended[id]
		switch {
		case over && !ends(one.State):
			h.breaks("task %s of pod %s is %s after %s", id, h.pods[uid].name, one.State, before)
		case ends(one.State):
			h.ended[id] = one.State
		case one.State != "TASK_UNREACHABLE":
			live[uid] = append(live[uid], id+" "+one.State)
		}
		if _, made := h.pods[uid]; !made {
			h.strange[id] = uid
		}
	}
	for uid, ids := range live {
		if len(ids) > 1 {
			slices.Sort(ids)
			h.breaks("pod %s has %d live tasks: %s", h.pods[uid].name, len(ids), strings.Join(ids, ", "))
		}
	}
}

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Task is a Mesos task as the operator API's GET_TASKS tells of it.
type Task struct {
	TaskID  struct{ Value string } `json:"task_id"`
	AgentID struct{ Value string } `json:"agent_id"`
	Name    string                 `json:"name"`
	State   string                 `json:"state"`
	Labels  struct {
		Labels []struct{ Key, Value string } `json:"labels"`
	} `json:"labels"`
	Statuses []TaskStatus `json:"statuses"`
	// Resources are the task's share of the agent, Limits what it may use.
	Resources []struct {
		Name   string  `json:"name"`
		Scalar *Scalar `json:"scalar"`
		Ranges struct {
			Range []Range `json:"range"`
		} `json:"ranges"`
		AllocationInfo struct {
			Role string `json:"role"`
		} `json:"allocation_info"`
		Reservations []struct {
			Role string `json:"role"`
		} `json:"reservations"`
	} `json:"resources"`
	Limits map[string]Scalar `json:"limits"`
}

// Range is one of a resource such as ports, both ends included.
type Range struct {
	Begin uint64 `json:"begin"`
	End   uint64 `json:"end"`
}

// Scalar is an amount as Mesos writes it: infinite ones are text.
type Scalar struct {
	Value any `json:"value"`
}

// Amount is how much of a resource the task has, 0 for none.
func (t Task) Amount(name string) float64 {
	for _, r := range t.Resources {
		if value, ok := r.Scalar.value(); ok && r.Name == name {
			return value
		}
	}
	return 0
}

// Ranges are those of a resource that the task has, such as ports.
func (t Task) Ranges(name string) (ranges []Range) {
	for _, r := range t.Resources {
		if r.Name == name {
			ranges = append(ranges, r.Ranges.Range...)
		}
	}
	return ranges
}

// Reserved is how much of a resource the task has that is reserved for a role.
func (t Task) Reserved(name, role string) (sum float64) {
	for _, r := range t.Resources {
		if n := len(r.Reservations); r.Name == name && n > 0 && r.Reservations[n-1].Role == role {
			value, _ := r.Scalar.value() // no amount is none
			sum += value
		}
	}
	return sum
}

// Limit is how much of a resource the task may use, +Inf where it is bounded by the agent alone, 0 for none.
func (t Task) Limit(name string) float64 {
	limit, found := t.Limits[name]
	if value, ok := (&limit).value(); found && ok {
		return value
	}
	return 0
}

func (s *Scalar) value() (float64, bool) {
	if s == nil {
		return 0, false
	}
	switch v := s.Value.(type) {
	case float64:
		return v, true
	case string:
		value, err := strconv.ParseFloat(v, 64)
		return value, err == nil
	}
	return 0, false
}

// TaskStatus is one status of a task.
type TaskStatus struct {
	State     string  `json:"state"`
	Message   string  `json:"message"`
	Reason    string  `json:"reason"`
	Timestamp float64 `json:"timestamp"` // seconds
	Labels    struct {
		Labels []struct{ Key, Value string } `json:"labels"`
	} `json:"labels"`
	ContainerStatus struct {
		NetworkInfos []struct {
			IPAddresses []struct {
				IPAddress string `json:"ip_address"`
			} `json:"ip_addresses"`
		} `json:"network_infos"`
	} `json:"container_status"`
}

// Last is the newest status.
func (t Task) Last() TaskStatus {
	if len(t.Statuses) == 0 {
		return TaskStatus{}
	}
	return t.Statuses[len(t.Statuses)-1]
}

// IPs are the addresses of the newest status.
func (t Task) IPs() []string {
	var ips []string
	for _, network := range t.Last().ContainerStatus.NetworkInfos {
		for _, address := range network.IPAddresses {
			ips = append(ips, address.IPAddress)
		}
	}
	return ips
}

// Label is the value of a label, empty if there is none.
func (t Task) Label(key string) string {
	for _, l := range t.Labels.Labels {
		if l.Key == key {
			return l.Value
		}
	}
	return ""
}

// Get reads JSON over HTTP.
func Get(ctx context.Context, address string, query url.Values, result any) error {
	if query != nil {
		address += "?" + query.Encode()
	}
	return Request(ctx, http.MethodGet, address, nil, result)
}

// Request does one call of a Mesos program; a nil result is for one that answers nothing.
func Request(ctx context.Context, method, address string, body []byte, result any) (retErr error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, answer.Body.Close()) }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusAccepted {
		return fmt.Errorf("%s: %s: %s", address, answer.Status, data)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(data, result)
}

// TasksOf lists the tasks of a pod, those that ended included.
func (c *Cluster) TasksOf(ctx context.Context, pod *corev1.Pod) ([]Task, error) {
	return c.TasksNamed(ctx, string(pod.UID)+".")
}

// TasksNamed lists the tasks whose ids begin so, those that ended included.
func (c *Cluster) TasksNamed(ctx context.Context, prefix string) ([]Task, error) {
	var answer struct {
		GetTasks struct {
			Tasks          []Task `json:"tasks"`
			CompletedTasks []Task `json:"completed_tasks"`
			PendingTasks   []Task `json:"pending_tasks"`
		} `json:"get_tasks"`
	}
	if err := Request(ctx, http.MethodPost, MasterURL+"/api/v1", []byte(`{"type":"GET_TASKS"}`), &answer); err != nil {
		return nil, err
	}
	var found []Task
	all := append(append(answer.GetTasks.Tasks, answer.GetTasks.CompletedTasks...), answer.GetTasks.PendingTasks...)
	for _, one := range all {
		if strings.HasPrefix(one.TaskID.Value, prefix) {
			found = append(found, one)
		}
	}
	return found, nil
}

// WaitTask waits until the pod's one task is in a state.
func (c *Cluster) WaitTask(t *testing.T, pod *corev1.Pod, state string) Task {
	t.Helper()
	var found Task
	Eventually(t, "task of pod "+pod.Name+" to be "+state, func(ctx context.Context) error {
		all, err := c.TasksOf(ctx, pod)
		if err != nil {
			return err
		}
		if len(all) != 1 {
			return fmt.Errorf("pod has %d tasks, want 1", len(all))
		}
		if found = all[0]; found.State != state {
			return fmt.Errorf("task is %s: %s", found.State, found.Last().Message)
		}
		return nil
	})
	return found
}

// Sandbox is the folder of the executor on the agent of a node.
func (c *Cluster) Sandbox(t *testing.T, node string) string {
	t.Helper()
	var state struct {
		Frameworks []struct {
			Executors []struct {
				Directory string `json:"directory"`
			} `json:"executors"`
		} `json:"frameworks"`
	}
	if err := Get(t.Context(), c.AgentURL(node)+"/state", nil, &state); err != nil {
		t.Fatalf("ask agent %s: %v", node, err)
	}
	for _, f := range state.Frameworks {
		for _, e := range f.Executors {
			return e.Directory
		}
	}
	t.Fatalf("agent %s has no executor", node)
	return ""
}

// ReadFile reads a file in a sandbox on the agent of a node the way Mesos' web pages do.
func (c *Cluster) ReadFile(t *testing.T, node, path string) string {
	t.Helper()
	var text strings.Builder
	for {
		var piece struct {
			Data   string `json:"data"`
			Offset int    `json:"offset"`
		}
		query := url.Values{"path": {path}, "offset": {fmt.Sprint(text.Len())}, "length": {"50000"}}
		if err := Get(t.Context(), c.AgentURL(node)+"/files/read", query, &piece); err != nil {
			t.Fatalf("read %s through the agent: %v", path, err)
		}
		if piece.Data == "" {
			return text.String()
		}
		text.WriteString(piece.Data)
	}
}

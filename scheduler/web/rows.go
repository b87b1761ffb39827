package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// Amount is how much of the resources there is: CPUs in cores, the others in MB as Mesos counts them.
type Amount struct {
	CPUs   float64 `json:"cpus"`
	MemMB  int64   `json:"mem"`
	DiskMB int64   `json:"disk"`
	GPUs   int64   `json:"gpus,omitempty"`
}

func amount(a offers.Amounts) Amount {
	return Amount{CPUs: float64(a.CPUs) / 1000, MemMB: a.MemMB, DiskMB: a.DiskMB, GPUs: a.GPUs}
}

func (a Amount) plus(b Amount) Amount {
	return Amount{CPUs: a.CPUs + b.CPUs, MemMB: a.MemMB + b.MemMB, DiskMB: a.DiskMB + b.DiskMB, GPUs: a.GPUs + b.GPUs}
}

// AgentRow is one agent on a page.
type AgentRow struct {
	ID   string `json:"id"`
	Node string `json:"node"`
	// Use is used, new, refused or gone; Why says why it is not used.
	Use string `json:"use"`
	Why string `json:"why,omitempty"`
	// Attributes as name=value.
	Attributes []string `json:"attributes,omitempty"`
	Executor   bool     `json:"executor"`
	// Pods are those with a live task there.
	Pods int `json:"pods"`
	// Total is the agent's size in roles of the framework; Used what pods and executor of ours take of it; Offered what is on
	// offer and not reserved for a pod that is on its way.
	Total   Amount `json:"total"`
	Used    Amount `json:"used"`
	Offered Amount `json:"offered"`
	Offers  int    `json:"offers"`
	// Ports on offer, as ranges.
	Ports string `json:"ports,omitempty"`
}

// agentRows are the agents with the text in node, id or an attribute.
func agentRows(v *core.View, text string) []AgentRow {
	text = strings.ToLower(text)
	rows := []AgentRow{}
	for i := range v.Agents {
		a := &v.Agents[i]
		r := AgentRow{
			ID: a.ID, Node: a.Hostname, Use: a.Use(), Why: a.Refused, Attributes: attributes(a.Attributes), Executor: a.Executor,
			Pods: a.Tasks, Offers: a.Offers,
			Total: Amount{CPUs: a.Total.CPUs, MemMB: int64(a.Total.MemMB), DiskMB: int64(a.Total.DiskMB), GPUs: int64(a.Total.GPUs)},
		}
		if a.Gone {
			r.Why = "Mesos does not reach it; it may come back"
		}
		if a.Free != nil {
			all := a.Free.All()
			r.Offered, r.Ports = amount(all.Free), portRanges(all.Ports)
		}
		if text == "" || strings.Contains(strings.ToLower(strings.Join(append(r.Attributes, r.ID, r.Node), " ")), text) {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b AgentRow) int { return cmp.Compare(a.Node, b.Node) })
	return rows
}

// measure fills in what pods and executors of ours use on the agents, which are those that a page shows.
func measure(rows []AgentRow, v *core.View, cfg procure.Config) {
	shown := map[string]*AgentRow{}
	for i := range rows {
		r := &rows[i]
		if shown[r.ID] = r; r.Executor {
			r.Used = amount(procure.ExecutorShare(cfg))
		}
	}
	for i := range v.Pods {
		for _, task := range v.Pods[i].Tasks {
			r := shown[task.AgentID]
			if r == nil {
				continue
			}
			if need, err := procure.SizeOf(v.Pods[i].Pod, cfg); err == nil {
				r.Used = r.Used.plus(amount(need.Amounts))
			}
		}
	}
}

func attributes(all []mesos.Attribute) []string {
	var texts []string
	for i := range all {
		a, value := &all[i], ""
		switch {
		case a.Text != nil:
			value = a.Text.Value
		case a.Scalar != nil:
			value = fmt.Sprintf("%g", a.Scalar.Value)
		case a.Set != nil:
			value = "{" + strings.Join(a.Set.Item, ",") + "}"
		case a.Ranges != nil:
			var ranges offers.Ports
			for _, r := range a.Ranges.Range {
				ranges = append(ranges, offers.PortRange{Begin: r.Begin, End: r.End})
			}
			value = portRanges(ranges)
		}
		texts = append(texts, a.Name+"="+value)
	}
	return texts
}

// portRanges are the first ranges; an agent may have been left with very many.
func portRanges(ports offers.Ports) string {
	const most = 6
	var texts []string
	for i, r := range ports {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(ports)-most))
			break
		}
		if r.Begin == r.End {
			texts = append(texts, fmt.Sprint(r.Begin))
			continue
		}
		texts = append(texts, fmt.Sprintf("%d-%d", r.Begin, r.End))
	}
	return strings.Join(texts, ", ")
}

// PodRow is one pod on a page.
type PodRow struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	UID       string     `json:"uid"`
	Stage     core.Stage `json:"stage"`
	// Why says what it waits for, or of what it ended.
	Why string `json:"why,omitempty"`
	// Node and Agent (its id) are where it is, or is to be.
	Node    string    `json:"node,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Created time.Time `json:"created"`
	// Tasks are its live Mesos tasks; Task is the last one that is known.
	Tasks []TaskRow `json:"tasks,omitempty"`
	Task  string    `json:"task,omitempty"`
}

// TaskRow is a Mesos task.
type TaskRow struct {
	ID      string `json:"id"`
	Agent   string `json:"agent"`
	State   string `json:"state"`
	Killing bool   `json:"killing,omitempty"`
}

func podRow(p *core.PodView) PodRow {
	pod := p.Pod
	r := PodRow{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Stage: p.Stage, Why: p.Why, Node: pod.Spec.NodeName,
		Agent: pod.Annotations[messages.AnnotationAgentID], Task: pod.Annotations[messages.AnnotationTaskID], Created: pod.CreationTimestamp.Time,
	}
	for _, task := range p.Tasks {
		r.Tasks = append(r.Tasks, TaskRow{ID: task.ID, Agent: task.AgentID, State: task.State, Killing: task.Killing})
		r.Task, r.Agent = task.ID, task.AgentID
	}
	return r
}

// podFilter is which pods a page is about. Empty fields hold for all.
type podFilter struct {
	stages []core.Stage
	// agent is an id or a node's name, text a part of namespace/name.
	agent, text string
}

func (f podFilter) holds(p *core.PodView) bool {
	if len(f.stages) > 0 && !slices.Contains(f.stages, p.Stage) {
		return false
	}
	if f.text != "" && !strings.Contains(p.Pod.Namespace+"/"+p.Pod.Name, f.text) {
		return false
	}
	return f.agent == "" || p.Pod.Spec.NodeName == f.agent || p.Pod.Annotations[messages.AnnotationAgentID] == f.agent ||
		slices.ContainsFunc(p.Tasks, func(t core.TaskView) bool { return t.AgentID == f.agent })
}

// pods are those that the filter holds for, by namespace and name.
func (f podFilter) pods(v *core.View) []*core.PodView {
	var found []*core.PodView
	for i := range v.Pods {
		if f.holds(&v.Pods[i]) {
			found = append(found, &v.Pods[i])
		}
	}
	slices.SortFunc(found, func(a, b *core.PodView) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
	return found
}

// Reason is why pods are no further, and how many.
type Reason struct {
	Stage core.Stage `json:"stage"`
	Why   string     `json:"why"`
	Pods  int        `json:"pods"`
	// Oldest is when the first of them was made.
	Oldest time.Time `json:"oldest"`
}

// unplaced are the stages of pods that have no place yet.
var unplaced = []core.Stage{core.StageQueued, core.StageHeld, core.StageWaiting, core.StageLaunching}

// reasons are those of pods that are not placed, the most frequent first.
func reasons(pods []*core.PodView) []Reason {
	type key struct {
		stage core.Stage
		why   string
	}
	all := map[key]*Reason{}
	for _, p := range pods {
		k := key{p.Stage, p.Why}
		r := all[k]
		if r == nil {
			r = &Reason{Stage: p.Stage, Why: p.Why, Oldest: p.Pod.CreationTimestamp.Time}
			all[k] = r
		}
		if r.Pods++; p.Pod.CreationTimestamp.Time.Before(r.Oldest) {
			r.Oldest = p.Pod.CreationTimestamp.Time
		}
	}
	sorted := []Reason{}
	for _, r := range all {
		sorted = append(sorted, *r)
	}
	slices.SortFunc(sorted, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Why, b.Why))
	})
	return sorted
}

// OfferRow is one offer that is held.
type OfferRow struct {
	ID    string    `json:"id"`
	Agent string    `json:"agent"`
	Node  string    `json:"node"`
	Role  string    `json:"role"`
	Has   Amount    `json:"resources"`
	Ports string    `json:"ports,omitempty"`
	Until time.Time `json:"until"`
}

// offerRows are the held offers, of one agent if it is named, by node.
func offerRows(v *core.View, agent string) []OfferRow {
	hosts := map[string]string{}
	for i := range v.Agents {
		hosts[v.Agents[i].ID] = v.Agents[i].Hostname
	}
	rows := []OfferRow{}
	for i := range v.Offers {
		o := &v.Offers[i]
		if agent == "" || agent == o.AgentID || agent == hosts[o.AgentID] {
			rows = append(rows, OfferRow{ID: o.ID, Agent: o.AgentID, Node: hosts[o.AgentID], Role: o.Role, Has: amount(o.Amounts), Ports: portRanges(o.Ports), Until: o.Until})
		}
	}
	slices.SortFunc(rows, func(a, b OfferRow) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID)) })
	return rows
}

// Condition is one of a pod.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
}

func conditions(pod *corev1.Pod) []Condition {
	all := []Condition{}
	for _, c := range pod.Status.Conditions {
		all = append(all, Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time})
	}
	return all
}

// mesosLink is a page of Mesos' UI about an agent, or of our executor there; empty without a master.
func mesosLink(master, agent, framework string) string {
	if master == "" || agent == "" {
		return ""
	}
	link := strings.TrimSuffix(master, "/") + "/#/agents/" + url.PathEscape(agent)
	if framework != "" {
		link += "/frameworks/" + url.PathEscape(framework) + "/executors/" + url.PathEscape(messages.ExecutorID)
	}
	return link
}

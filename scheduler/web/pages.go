package web

import (
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/mesopod/mesopod/internal/zpages"
)

// Head is what every page begins with, and its JSON too.
type Head struct {
	Time     time.Time `json:"time"`
	Standing Standing  `json:"standing"`
	Leader   string    `json:"leader,omitempty"`
	Master   string    `json:"master,omitempty"`
	// title and page are for the HTML alone; root leads from the page to the first one.
	title, page, root string
	query             url.Values
}

// AsJSON leads to the same as JSON.
func (h Head) AsJSON() string {
	query := maps.Clone(h.query)
	query.Set("format", "json")
	return "?" + query.Encode()
}

// Title, Page and Root are for templates.
func (h Head) Title() string { return h.title }

// Page is the page's place in the navigation.
func (h Head) Page() string { return h.page }

// Root is the way to the first page; it is relative, since a proxy may have put the pages anywhere.
func (h Head) Root() string { return h.root }

// Part says which part of a long list is shown.
type Part struct {
	// Total is how many there are, From where the part begins, counted from 0, Limit how many it has at most.
	Total int `json:"total"`
	From  int `json:"from"`
	Limit int `json:"limit"`
	query url.Values
}

// The most that a page shows, unless less is asked for, and at all.
const defaultLimit, mostLimit = 50, 500

// part reads from and limit of a query.
func part(query url.Values, total int) (Part, error) {
	p := Part{Total: total, Limit: defaultLimit, query: query}
	for name, value := range map[string]*int{"from": &p.From, "limit": &p.Limit} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return p, fmt.Errorf("%s=%s: want a number", name, text)
		}
		*value = n
	}
	p.Limit = min(max(p.Limit, 1), mostLimit)
	p.From = min(p.From, total)
	return p, nil
}

// End is the first that is not shown.
func (p Part) End() int { return min(p.From+p.Limit, p.Total) }

// cut is the part of a list.
func cut[E any](p Part, all []E) []E { return all[p.From:p.End()] }

// Before and After are the queries of the parts before and after it; empty for none.
func (p Part) Before() string {
	if p.From == 0 {
		return ""
	}
	return p.at(max(p.From-p.Limit, 0))
}

// After is the next part.
func (p Part) After() string {
	if p.End() == p.Total {
		return ""
	}
	return p.at(p.End())
}

func (p Part) at(from int) string {
	query := maps.Clone(p.query)
	query.Set("from", strconv.Itoa(from))
	return "?" + query.Encode()
}

// Count is how many there are of something.
type Count struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

// OverviewPage is /.
type OverviewPage struct {
	Head
	Framework   string    `json:"framework"`
	FrameworkID string    `json:"frameworkID"`
	Roles       []string  `json:"roles"`
	Version     string    `json:"version"`
	Started     time.Time `json:"started"`
	// Since is when the connection to the master began or ended, Fault why it ended.
	Since time.Time `json:"since,omitzero"`
	Fault string    `json:"fault,omitempty"`
	// Waits says why no pod is placed; empty when pods are.
	Waits string `json:"waits,omitempty"`
	// Pods by stage, Agents by use.
	Pods      []Count `json:"pods"`
	Agents    []Count `json:"agents"`
	Executors int     `json:"executors"`
	Offers    int     `json:"offers"`
	// Total is the size of all agents that are used, Offered what of it is on offer.
	Total   Amount   `json:"total"`
	Offered Amount   `json:"offered"`
	Reasons []Reason `json:"reasons"`
	Recent  []Entry  `json:"recent"`
}

// AgentsPage is /agents.
type AgentsPage struct {
	Head
	Part
	Text   string     `json:"q,omitempty"`
	Agents []AgentRow `json:"agents"`
}

// PodsPage is /pods.
type PodsPage struct {
	Head
	Part
	Text  string   `json:"q,omitempty"`
	Stage string   `json:"stage,omitempty"`
	Agent string   `json:"agent,omitempty"`
	Pods  []PodRow `json:"pods"`
	// Stages counts the pods that match but for their stage.
	Stages []Count `json:"stages"`
}

// PodPage is /pods/NAMESPACE/NAME.
type PodPage struct {
	Head
	PodRow
	Phase     string   `json:"phase"`
	Scheduler string   `json:"schedulerName"`
	Needs     *Amount  `json:"needs,omitempty"`
	Ports     []uint16 `json:"hostPorts,omitempty"`
	// Role is the Mesos role that the pod's resources are of.
	Role       string      `json:"role,omitempty"`
	Fault      string      `json:"fault,omitempty"`
	Conditions []Condition `json:"conditions"`
	// Timeline is what is remembered of it, the oldest first: a scheduler that was started later, or that had much to do since,
	// has forgotten the beginning.
	Timeline []Entry `json:"timeline"`
	// framework is for links into Mesos' UI.
	framework string
}

// AgentLink and SandboxLink lead into Mesos' UI; empty without a master.
func (p PodPage) AgentLink() string { return mesosLink(p.Master, p.Agent, "") }

// SandboxLink leads to the executor.
func (p PodPage) SandboxLink() string { return mesosLink(p.Master, p.Agent, p.framework) }

// OffersPage is /offers.
type OffersPage struct {
	Head
	Part
	Agent  string     `json:"agent,omitempty"`
	Offers []OfferRow `json:"offers"`
}

// QueuePage is /queue.
type QueuePage struct {
	Head
	Part
	// Reasons of all pods without a place; Pods is a part of them, the oldest first.
	Reasons []Reason `json:"reasons"`
	Pods    []PodRow `json:"pods"`
}

// RecentPage is /recent.
type RecentPage struct {
	Head
	Text    string  `json:"q,omitempty"`
	Limit   int     `json:"limit"`
	Entries []Entry `json:"entries"`
}

//go:embed pages/*.html
var texts embed.FS

// templates are the pages by name.
var templates = func() map[string]*template.Template {
	all := map[string]*template.Template{}
	frame := read("frame")
	for _, name := range []string{"overview", "agents", "pods", "pod", "offers", "queue", "recent"} {
		all[name] = zpages.Template(name, frame+read(name), functions)
	}
	return all
}()

func read(name string) string {
	text, err := texts.ReadFile("pages/" + name + ".html")
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

var functions = template.FuncMap{
	"age":   age,
	"short": short,
	"gb":    func(mb int64) string { return size(mb) },
	"percent": func(part, whole any) float64 {
		p, w := number(part), number(whole)
		if w <= 0 {
			return 0
		}
		return min(max(p/w*100, 0), 100)
	},
	"left":   func(now, then time.Time) string { return max(then.Sub(now), 0).Truncate(time.Second).String() },
	"colour": colour,
	"query":  url.QueryEscape,
	"next":   func(n int) int { return n + 1 },
	"mesos":  func(master, agent string) string { return mesosLink(master, agent, "") },
	// list is what the template "happened" takes.
	"list": func(root string, entries []Entry) any {
		return struct {
			Root    string
			Entries []Entry
		}{root, entries}
	},
}

func number(v any) float64 {
	switch n := v.(type) {
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return 0
}

// short is the beginning of a text that may be long; the pod's own page has all of it.
func short(text string) string {
	const most = 240
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// age is how long ago something was, as kubectl tells it.
func age(now, then time.Time) string {
	d := now.Sub(then)
	switch {
	case then.IsZero():
		return "-"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(int(d.Seconds()), 0))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// size is an amount of memory or disk.
func size(mb int64) string {
	if mb < 10<<10 {
		return fmt.Sprintf("%d MB", mb)
	}
	return fmt.Sprintf("%.1f GB", float64(mb)/1024)
}

// colour is the style class of a stage, a use or a state.
func colour(word any) string {
	text := fmt.Sprint(word)
	switch {
	case slices.Contains([]string{"running", "succeeded", "used", "RUNNING", "True"}, text):
		return "good"
	case slices.Contains([]string{"failed", "away", "refused", "gone", "UNREACHABLE"}, text):
		return "bad"
	case slices.Contains([]string{"held", "waiting", "queued"}, text):
		return "wait"
	}
	return "soft"
}

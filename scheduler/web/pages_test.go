package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
)

// pod is one of a view, made n minutes ago.
func pod(name string, stage core.Stage, why string, minutes int, tasks ...core.TaskView) core.PodView {
	return core.PodView{
		Stage: stage, Why: why, Tasks: tasks,
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute))},
			Spec: corev1.PodSpec{SchedulerName: "mesos", Containers: []corev1.Container{{
				Name: "main", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hidden-secret"}}, Command: []string{"hidden-command"},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi")}},
			}}},
		},
	}
}

// busy is a scheduler with agents, offers and pods in several stages.
func busy() View {
	const few = "0/2 nodes are available: 2 too few cpus on offer."
	running := pod("web", core.StageRunning, "", 60, core.TaskView{ID: "uid-web.1", AgentID: "A1", State: "RUNNING"})
	running.Pod.Spec.NodeName, running.Pod.Annotations = "a1", map[string]string{messages.AnnotationAgentID: "A1", messages.AnnotationTaskID: "uid-web.1"}
	return View{
		Time: now, Started: now.Add(-time.Hour), Version: "v1", Name: "mesopod", Roles: []string{"*"}, Standing: Working, Master: "http://m1:5050", Since: now.Add(-time.Minute),
		Core: &core.View{
			FrameworkID: "F1", Connected: true, IDStored: true, PodsListed: true, Reconciled: true, Open: true, Waiting: 2,
			Agents: []core.AgentView{
				{ID: "A2", Hostname: "a2", Total: messages.Resources{CPUs: 2, MemMB: 2048}, Visible: true, Attributes: []mesos.Attribute{{Name: "rack", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: "r<2>"}}}},
				{
					ID: "A1", Hostname: "a1", Total: messages.Resources{CPUs: 4, MemMB: 4096}, Visible: true, Executor: true, Offers: 1, Tasks: 1,
					Free: &offers.View{Roles: []offers.RoleView{{Role: "*", Free: offers.Amounts{CPUs: 1000, MemMB: 512},
						Ports: offers.Ports{{Begin: 80, End: 80}, {Begin: 31000, End: 32000}}}}},
				},
			},
			Offers: []offers.Held{{ID: "o1", AgentID: "A1", Amounts: offers.Amounts{CPUs: 1000, MemMB: 512}, Until: now.Add(20 * time.Second)}},
			Pods:   []core.PodView{running, pod("giant", core.StageWaiting, few, 5), pod("huge", core.StageWaiting, few, 7), pod("new", core.StageQueued, "", 0)},
		},
	}
}

// Each page is there as HTML and as JSON, tells what it is for, and nothing that pods keep to themselves.
func TestPages(t *testing.T) {
	journal.Add(Entry{Time: now, Kind: Event, Name: "Waiting", UID: "uid-giant", Pod: "default/giant", Why: "0/2 nodes are <available>"})
	for path, parts := range map[string][]string{
		"/":                     {"subscribed", "http://m1:5050", "F1", "too few cpus on offer", "&lt;available&gt;", "kube-scheduler has yet to look at it"},
		"/agents":               {"rack=r&lt;2&gt;", "1.50 + 1.00 of 4.00", "http://m1:5050/#/agents/A1", "ports 80, 31000-32000"},
		"/agents?q=RACK=":       {"a2", "1 to 1 of 1"},
		"/pods":                 {"default/giant", "uid-web.1", "1 to 4 of 4"},
		"/pods?stage=waiting":   {"default/huge", "1 to 2 of 2"},
		"/pods?agent=A1":        {"default/web", "1 to 1 of 1"},
		"/pods?limit=2&from=2":  {"3 to 4 of 4", "?from=0&amp;limit=2"},
		"/pods/default/giant":   {"0/2 nodes are &lt;available&gt;", "1.5 cpus, 1024 MB memory", "too few cpus on offer", `href="../../agents"`},
		"/pods/default/web":     {"http://m1:5050/#/agents/A1/frameworks/F1/executors/", "RUNNING"},
		"/offers?agent=a1":      {"o1", "20s", "1.00"},
		"/queue":                {"default/huge", "7m", "1 to 3 of 3"},
		"/recent?q=waiting":     {"default/giant", "&lt;available&gt;"},
		"/recent?q=nothing-has": {"Nothing."},
	} {
		code, text := get(t, busy(), nil, path)
		for _, part := range parts {
			if code != 200 || !strings.Contains(text, part) {
				t.Errorf("%s answers %d and lacks %q:\n%s", path, code, part, text)
			}
		}
		if strings.Contains(text, "hidden-") || strings.Contains(text, "src=") || strings.Contains(text, "@import") {
			t.Errorf("%s shows what is a pod's own, or needs something from elsewhere:\n%s", path, text)
		}
		sign := "?"
		if strings.Contains(path, "?") {
			sign = "&"
		}
		code, text = get(t, busy(), nil, path+sign+"format=json")
		var answer struct{ Time time.Time }
		if err := json.Unmarshal([]byte(text), &answer); code != 200 || err != nil || !answer.Time.Equal(now) || strings.Contains(text, "hidden-") {
			t.Errorf("%s as JSON: %d, %v\n%s", path, code, err, text)
		}
	}
}

// What is asked for and is not there, or cannot be, is told.
func TestFaults(t *testing.T) {
	for path, want := range map[string]struct {
		code int
		says string
	}{
		"/pods/default/none":  {404, "/recent?q=none"},
		"/pods?stage=asleep":  {400, "want one of [queued"},
		"/pods?from=few":      {400, "from=few: want a number"},
		"/agents?limit=-1":    {400, "limit=-1: want a number"},
		"/nope":               {404, ""},
		"/pods?limit=1000000": {200, "1 to 4 of 4"},
	} {
		if code, text := get(t, busy(), nil, path); code != want.code || !strings.Contains(text, want.says) {
			t.Errorf("%s answers %d %q, want %d with %q", path, code, text, want.code, want.says)
		}
	}
}

// A scheduler that does not work says so, on pages that are empty.
func TestStandingBy(t *testing.T) {
	for _, path := range []string{"/", "/agents", "/pods", "/offers", "/queue", "/recent"} {
		if code, text := get(t, View{Time: now, Standing: StandingBy, Leader: "h2"}, nil, path); code != 200 || !strings.Contains(text, "standing by for h2") {
			t.Errorf("%s: %d\n%s", path, code, text)
		}
	}
}

// The reasons of pods without a place are counted, the most frequent first.
func TestReasons(t *testing.T) {
	v := busy()
	var got []string
	for _, r := range reasons(podFilter{stages: unplaced}.pods(v.Core)) {
		got = append(got, fmt.Sprintf("%d %s %s %s", r.Pods, r.Stage, r.Why, now.Sub(r.Oldest)))
	}
	want := []string{"2 waiting 0/2 nodes are available: 2 too few cpus on offer. 7m0s", "1 queued  0s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// A full journal forgets the oldest entries; what a pod repeats is counted, and does not count for another.
func TestJournal(t *testing.T) {
	j := NewJournal(4)
	for n, e := range []Entry{{UID: "a", Name: "1"}, {UID: "a", Name: "2"}, {UID: "b", Name: "2"}, {UID: "a", Name: "2"}, {Name: "x"}, {Name: "x"}, {UID: "a", Name: "3"}} {
		e.Time = now.Add(time.Duration(n) * time.Second)
		j.Add(e)
	}
	show := func(entries []Entry) (texts []string) {
		for _, e := range entries {
			texts = append(texts, fmt.Sprintf("%s%s×%d %s", e.UID, e.Name, e.Count, e.Last.Sub(e.Time)))
		}
		return texts
	}
	for what, c := range map[string]struct{ got, want []string }{
		"of a pod": {show(j.OfPod("a")), []string{"a2×2 2s", "a3×1 0s"}},
		"all":      {show(j.Newest(9, "")), []string{"a3×1 0s", "x×2 1s", "b2×1 0s", "a2×2 2s"}},
		"some":     {show(j.Newest(1, "X")), []string{"x×2 1s"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

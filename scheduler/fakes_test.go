package scheduler

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	mesosscheduler "github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
)

const patience = 30 * time.Second

// newAPIServer is a fake API server of this minor version.
func newAPIServer(minor string) *fake.Clientset {
	client := fake.NewClientset()
	client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{Major: "1", Minor: minor, GitVersion: "v1." + minor + ".0"}
	return client
}

// fakeMaster is a Mesos master with one agent, A1 on a1.test.
type fakeMaster struct {
	*httptest.Server
	calls chan *mesosscheduler.Call

	mu     sync.Mutex
	stream http.ResponseWriter
}

func newFakeMaster(t *testing.T) *fakeMaster {
	m := &fakeMaster{calls: make(chan *mesosscheduler.Call, 64)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /master/api/v1/scheduler", m.serveScheduler)
	mux.HandleFunc("POST /master/api/v1", m.serveOperator)
	m.Server = httptest.NewServer(mux)
	t.Cleanup(m.Close)
	return m
}

func (m *fakeMaster) host() string { return strings.TrimPrefix(m.URL, "http://") }

func (m *fakeMaster) serveScheduler(w http.ResponseWriter, r *http.Request) {
	var call mesosscheduler.Call
	body, err := io.ReadAll(r.Body)
	if err != nil || call.Unmarshal(body) != nil {
		http.Error(w, "malformed call", http.StatusBadRequest)
		return
	}
	if call.Type != mesosscheduler.Call_SUBSCRIBE {
		w.WriteHeader(http.StatusAccepted)
		m.answerTasks(&call)
		m.calls <- &call
		return
	}
	w.Header().Set("Mesos-Stream-Id", "S1")
	m.mu.Lock()
	m.stream = w
	m.mu.Unlock()
	m.send(&mesosscheduler.Event{Type: mesosscheduler.Event_SUBSCRIBED, Subscribed: &mesosscheduler.Event_Subscribed{
		FrameworkID: &mesos.FrameworkID{Value: "F1"}}})
	m.calls <- &call
	<-r.Context().Done()
	m.mu.Lock()
	m.stream = nil
	m.mu.Unlock()
}

// answerTasks answers an explicit RECONCILE: this master knows no task.
func (m *fakeMaster) answerTasks(call *mesosscheduler.Call) {
	for _, task := range call.GetReconcile().GetTasks() {
		m.send(&mesosscheduler.Event{Type: mesosscheduler.Event_UPDATE, Update: &mesosscheduler.Event_Update{Status: mesos.TaskStatus{
			TaskID: task.TaskID, AgentID: task.AgentID, State: mesos.TASK_UNKNOWN.Enum(),
			Source: mesos.SOURCE_MASTER.Enum(), Reason: mesos.REASON_RECONCILIATION.Enum(),
		}}})
	}
}

func (m *fakeMaster) send(event *mesosscheduler.Event) {
	data, err := event.Marshal()
	if err != nil {
		panic(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream == nil {
		return
	}
	fmt.Fprintf(m.stream, "%d\n%s", len(data), data)
	m.stream.(http.Flusher).Flush()
}

func (m *fakeMaster) serveOperator(w http.ResponseWriter, r *http.Request) {
	answer := master.Response{Type: master.Response_GET_AGENTS, GetAgents: &master.Response_GetAgents{
		Agents: []master.Response_GetAgents_Agent{{
			AgentInfo: mesos.AgentInfo{ID: &mesos.AgentID{Value: "A1"}, Hostname: "a1.test", Attributes: []mesos.Attribute{{
				Name: "rack", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: "r1"}}}},
			Active: true, Version: "1.11.0", TotalResources: agentResources(""),
			Capabilities: []mesos.AgentInfo_Capability{{Type: mesos.AgentInfo_Capability_TASK_RESOURCE_LIMITS}},
		}},
	}}
	var call master.Call
	if body, err := io.ReadAll(r.Body); err == nil && call.Unmarshal(body) == nil && call.Type == master.Call_GET_EXECUTORS {
		answer = master.Response{Type: master.Response_GET_EXECUTORS, GetExecutors: &master.Response_GetExecutors{}}
	}
	data, err := answer.Marshal()
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(data) // a client that went away is the test's own doing
}

// agentResources are 4 cpus, 4096 MB of memory and 1000 MB of disk, allocated to a role if it is named.
func agentResources(role string) []mesos.Resource {
	scalar := mesos.SCALAR
	var all []mesos.Resource
	for name, amount := range map[string]float64{"cpus": 4, "mem": 4096, "disk": 1000} {
		r := mesos.Resource{Name: name, Type: &scalar, Scalar: &mesos.Value_Scalar{Value: amount}}
		if role != "" {
			r.AllocationInfo = &mesos.Resource_AllocationInfo{Role: &role}
		}
		all = append(all, r)
	}
	return all
}

func (m *fakeMaster) offer(id string) {
	role := "*"
	m.send(&mesosscheduler.Event{Type: mesosscheduler.Event_OFFERS, Offers: &mesosscheduler.Event_Offers{Offers: []mesos.Offer{{
		ID: mesos.OfferID{Value: id}, FrameworkID: mesos.FrameworkID{Value: "F1"}, AgentID: mesos.AgentID{Value: "A1"},
		Hostname: "a1.test", Resources: agentResources(role), AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
	}}}})
}

// await returns the next call of this type; others in between are dropped.
func (m *fakeMaster) await(t *testing.T, kind mesosscheduler.Call_Type) *mesosscheduler.Call {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case call := <-m.calls:
			if call.Type == kind {
				return call
			}
		case <-deadline:
			t.Fatalf("no %s within %s", kind, patience)
		}
	}
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesosscheduler "github.com/mesos/mesos-go/api/v1/lib/scheduler"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	ktesting "k8s.io/client-go/testing"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/mesosconn"
	"github.com/mesopod/mesopod/scheduler/web"
)

func testConfig(master string) Config {
	cfg := DefaultConfig()
	cfg.Master, cfg.StatusAddress = master, NoStatus
	return cfg
}

// until asks again until ok, at a small pace: the fake API server has no way to say when.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func startScheduler(t *testing.T, client kubernetes.Interface, master string) (s *Scheduler, stop func() error) {
	t.Helper()
	s, err := New(testConfig(master), Deps{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { _ = stop() }) // a test that wants the error has asked before
	return s, stop
}

// The way of a pod through all parts but the executor: subscribe, offer, node, reserve, launch, binding, status,
// acknowledgement; and a stop that leaves it alone.
func TestOnePod(t *testing.T) {
	client, m := newAPIServer("37"), newFakeMaster(t)
	s, stop := startScheduler(t, client, m.host())

	if call := m.await(t, mesosscheduler.Call_SUBSCRIBE); call.FrameworkID != nil {
		t.Errorf("SUBSCRIBE as %v, want a new framework", call.FrameworkID)
	}
	select {
	case <-s.Ready():
	case <-time.After(patience):
		t.Fatal("not ready")
	}
	stored, err := client.CoreV1().ConfigMaps(Namespace).Get(t.Context(), ConfigMapName, metav1.GetOptions{})
	if err != nil || stored.Data[FrameworkIDKey] != "F1" {
		t.Fatalf("got stored id %v, %v, want F1", stored, err)
	}

	m.offer("O1")
	until(t, "node kept alive", func() bool {
		node, err := client.CoreV1().Nodes().Get(t.Context(), "a1.test", metav1.GetOptions{})
		return err == nil && keptByUs(node) && node.Labels[messages.LabelAttributePrefix+"rack"] == "r1"
	})
	if _, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "a1.test", metav1.GetOptions{}); err != nil {
		t.Errorf("lease of the node: %v", err)
	}

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "11111111-2222-3333-4444-555555555555"},
		Spec: corev1.PodSpec{SchedulerName: "mesos", Containers: []corev1.Container{{Name: "c", Image: "i",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("500m")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	accept := m.await(t, mesosscheduler.Call_ACCEPT).Accept
	task := accept.Operations[0].Launch.TaskInfos[0]
	if uri := task.Executor.Command.URIs[0].Value; uri != "/opt/mesopod/mesopod-keeper" {
		t.Errorf("got keeper %s", uri)
	}
	launch, err := messages.DecodeLaunch(task.Data)
	if err != nil || accept.OfferIDs[0].Value != "O1" || launch.Pod.UID != pod.UID || launch.Node != "a1.test" {
		t.Fatalf("got ACCEPT of %v with launch %+v, %v", accept.OfferIDs, launch, err)
	}

	// The executor binds and reports.
	bound := pod.DeepCopy()
	bound.Spec.NodeName, bound.Annotations = "a1.test", messages.OurAnnotations(launch.Pod.Annotations)
	if _, err := client.CoreV1().Pods("default").Update(t.Context(), bound, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	state, source := mesos.TASK_RUNNING, mesos.SOURCE_EXECUTOR
	m.send(&mesosscheduler.Event{Type: mesosscheduler.Event_UPDATE, Update: &mesosscheduler.Event_Update{Status: mesos.TaskStatus{
		TaskID: task.TaskID, AgentID: &mesos.AgentID{Value: "A1"}, State: &state, Source: &source, UUID: []byte("0123456789abcdef")}}})
	if ack := m.await(t, mesosscheduler.Call_ACKNOWLEDGE).Acknowledge; ack.TaskID != task.TaskID || string(ack.UUID) != "0123456789abcdef" {
		t.Errorf("got ACKNOWLEDGE %v", ack)
	}
	view, err := s.View(t.Context())
	if err != nil || view.Core == nil || view.Core.FrameworkID != "F1" || len(view.Core.Pods) != 1 || view.Master != m.URL {
		t.Errorf("got view %+v, %v, want one pod of F1 at %s", view, err, m.URL)
	}
	// Its agent has no offer now: a plan for another pod goes by what Mesos says is free there.
	other := pod.DeepCopy()
	other.Name, other.UID, other.Spec.NodeName = "other", "uid-other", ""
	until(t, "plan", func() bool {
		plan, err := s.Plan(t.Context(), other)
		return err == nil && plan.Fits == 1 && plan.Agents[0] == web.PlanRow{Node: "a1.test", Agent: "A1", Fits: true, Offer: web.OfferExpected}
	})
	other.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("64")
	if plan, err := s.Plan(t.Context(), other); err != nil || plan.Fits != 0 || plan.Sentence != "0/1 nodes are available: 1 too few cpus on offer." {
		t.Errorf("plan of a large pod: %+v, %v", plan, err)
	}
	// Whether the binding or the status is seen first is chance.
	want := []string{"Accept launch on offers O1", "Bind kube-scheduler chose the node", "BindDone bound", "PodChanged Pending", "PodChanged on node a1.test", "StatusUpdate RUNNING"}
	until(t, "the pod's timeline", func() bool {
		var told []string
		for _, e := range s.loop.chronicle.journal.OfPod(string(pod.UID)) {
			if told = append(told, strings.TrimSpace(e.Name+" "+e.What)); e.Pod != "default/"+pod.Name {
				t.Errorf("entry %+v is of another pod", e)
			}
		}
		slices.Sort(told)
		return slices.Equal(told, want)
	})
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	for {
		select {
		case call := <-m.calls:
			if call.Type == mesosscheduler.Call_TEARDOWN || call.Type == mesosscheduler.Call_KILL {
				t.Errorf("got %s at the end; pods live on", call.Type)
			}
			continue
		default:
		}
		break
	}
}

// The next scheduler subscribes with the stored id.
func TestStoredFrameworkID(t *testing.T) {
	client, m := newAPIServer("38+"), newFakeMaster(t)
	if err := storeFrameworkID(t.Context(), client, "F1"); err != nil {
		t.Fatal(err)
	}
	_, stop := startScheduler(t, client, m.host())
	if call := m.await(t, mesosscheduler.Call_SUBSCRIBE); call.FrameworkID.GetValue() != "F1" {
		t.Errorf("SUBSCRIBE as %v, want F1", call.FrameworkID)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := storeFrameworkID(t.Context(), client, "F1"); err != nil {
		t.Errorf("same id again: %v", err)
	}
	if err := storeFrameworkID(t.Context(), client, "F2"); !errors.Is(err, errdefs.ErrConflict) {
		t.Errorf("another id: got %v, want conflict", err)
	}
}

// A framework that ended is forgotten by its id, and only that one: the flag may stay.
func TestForgetFramework(t *testing.T) {
	client, m := newAPIServer("37"), newFakeMaster(t)
	if err := storeFrameworkID(t.Context(), client, "F0"); err != nil {
		t.Fatal(err)
	}
	if err := forgetFrameworkID(t.Context(), client, "another"); err != nil {
		t.Fatal(err)
	}
	if id, err := loadFrameworkID(t.Context(), client); err != nil || id != "F0" {
		t.Fatalf("got id %q, %v, want F0", id, err)
	}
	cfg := testConfig(m.host())
	cfg.ForgetFramework = "F0"
	for range 2 { // the second time with the flag still there
		ctx, cancel := context.WithCancel(t.Context())
		s, err := New(cfg, Deps{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		if call := m.await(t, mesosscheduler.Call_SUBSCRIBE); call.FrameworkID.GetValue() == "F0" {
			t.Errorf("SUBSCRIBE as the framework that was to be forgotten")
		}
		<-s.Ready()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if id, err := loadFrameworkID(t.Context(), client); err != nil || id != "F1" {
			t.Errorf("got id %q, %v, want F1", id, err)
		}
	}
}

// Another scheduler has stored its id meanwhile: this one ends and says so.
func TestFrameworkConflict(t *testing.T) {
	client, m := newAPIServer("37"), newFakeMaster(t)
	var stored atomic.Bool
	client.PrependReactor("get", "configmaps", func(ktesting.Action) (bool, runtime.Object, error) {
		// The id is not there at the start, and another one when it is to be stored.
		if !stored.Swap(true) {
			return true, nil, apierrors.NewNotFound(corev1.Resource("configmaps"), ConfigMapName)
		}
		return true, &corev1.ConfigMap{Data: map[string]string{FrameworkIDKey: "F2"}}, nil
	})
	s, err := New(testConfig(m.host()), Deps{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Run(ctx); !errors.Is(err, errdefs.ErrConflict) || !strings.Contains(err.Error(), "F2") {
		t.Errorf("got %v, want the conflict with framework F2", err)
	}
}

// A node that somebody deletes comes back while its agent is there.
func TestNodeDeleted(t *testing.T) {
	client, m := newAPIServer("37"), newFakeMaster(t)
	s, stop := startScheduler(t, client, m.host())
	m.await(t, mesosscheduler.Call_SUBSCRIBE)
	m.offer("O1")
	nodes := client.CoreV1().Nodes()
	there := func() bool {
		node, err := nodes.Get(t.Context(), "a1.test", metav1.GetOptions{})
		return err == nil && keptByUs(node)
	}
	until(t, "node kept alive", there)
	// The fake API server tells a watch nothing of what came between its list and itself: a change shows the node to it.
	until(t, "node seen", func() bool {
		if node, err := nodes.Get(t.Context(), "a1.test", metav1.GetOptions{}); err == nil {
			if _, err := nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		}
		return s.kube.Node("a1.test") != nil
	})
	if err := nodes.Delete(t.Context(), "a1.test", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "node made anew and kept alive", there)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestServerVersion(t *testing.T) {
	for minor, good := range map[string]bool{"36": false, "37": true, "37+": true, "38": true, "39": false} {
		t.Run(minor, func(t *testing.T) {
			err := checkServer(newAPIServer(minor))
			if good != (err == nil) {
				t.Fatalf("got %v", err)
			}
			if !good && (!errors.Is(err, errdefs.ErrRefused) || !strings.Contains(err.Error(), "needs 1.37 or 1.38")) {
				t.Fatalf("got %v, want a refusal that says what is needed", err)
			}
		})
	}
	// Run ends by it.
	m := newFakeMaster(t)
	s, err := New(testConfig(m.host()), Deps{Client: newAPIServer("36")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, errdefs.ErrRefused) {
		t.Fatalf("got %v, want a refusal", err)
	}
}

// API servers of other versions are refused over HTTP too, before anything is written: by stand-ins that know nothing but
// their version.
func TestServerSkew(t *testing.T) {
	for minor, good := range map[string]bool{"36": false, "37": true, "39": false} {
		t.Run(minor, func(t *testing.T) {
			others := make(chan string, 100)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/version" {
					select {
					case others <- r.Method + " " + r.URL.Path:
					default: // enough of them
					}
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"major":"1","minor":"%s","gitVersion":"v1.%s.2"}`, minor, minor)
			}))
			defer server.Close()
			kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
			text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],
"users":[{"name":"c","user":{}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`, server.URL)
			if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			deps, err := connect(kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			if good {
				if err := checkServer(deps.Client); err != nil {
					t.Error(err)
				}
				return
			}
			s, err := New(testConfig(newFakeMaster(t).host()), deps)
			if err != nil {
				t.Fatal(err)
			}
			err = s.Run(t.Context())
			if want := "the API server is Kubernetes 1." + minor + " (v1." + minor + ".2); this mesopod needs 1.37 or 1.38"; !errors.Is(err, errdefs.ErrRefused) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if len(others) > 0 {
				t.Errorf("it was also asked for %s", <-others)
			}
		})
	}
}

// All faults are told together.
func TestConfigCheck(t *testing.T) {
	if err := testConfig("m:5050").Check(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	bad := Config{Master: "zk://a/mesos", MasterTLS: mesosconn.TLS{KeyFile: "k"}, Roles: []string{"prod//x", "*"}, DefaultRoles: []string{"dev"}, AgentRules: []string{"rack", "=x"}, FailoverTimeout: time.Second, KeeperURI: "keeper", BundleDir: "x",
		SchedulerNames: []string{"mesos", "mesos", "No"}}
	err := bad.Check()
	if !errors.Is(err, errdefs.ErrInvalid) || strings.Count(err.Error(), "invalid") != 1 {
		t.Fatalf("got %v, want invalid, told once", err)
	}
	for _, want := range []string{`master: zk://: "a" is not host:port`, "masterCertFile: ", `roles[0]: "prod//x"`, `defaultRoles[0]: "dev" is none of roles`, `agentRules[1]: "=x" is none of`, "frameworkName: ", "user: it is empty", "failoverTimeout: ", "keeperURI: ", "bundleDir: ",
		"executorCPUs: ", "executorMem: ", "named twice", `schedulerNames[2]: "No"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not tell of %s: %v", want, err)
		}
	}
	// strconv takes these for numbers, and so do flags.
	for _, odd := range []float64{math.NaN(), math.Inf(1)} {
		c := testConfig("m:5050")
		c.ExecutorResources.CPUs = odd
		if err := c.Check(); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%g cpus: got %v, want invalid", odd, err)
		}
	}
}

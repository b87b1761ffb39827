package procure_test

import (
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

var update = flag.Bool("update", false, "rewrite golden files")

var cfg = procure.Config{
	Executor:  messages.Resources{CPUs: 0.5, MemMB: 256},
	KeeperURI: "/opt/mesopod/mesopod-keeper", BundleDir: "/opt/mesopod",
	DefaultCPUs: 0.1, DefaultMemMB: 64,
}

// list reads "cpu=1 memory=1Gi".
func list(t *testing.T, text string) corev1.ResourceList {
	t.Helper()
	amounts := corev1.ResourceList{}
	for _, field := range strings.Fields(text) {
		name, amount, _ := strings.Cut(field, "=")
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			t.Fatal(err)
		}
		amounts[corev1.ResourceName(name)] = quantity
	}
	return amounts
}

// container reads requests and limits: "cpu=1 memory=1Gi / memory=2Gi".
func container(t *testing.T, text string, ports ...int32) corev1.Container {
	t.Helper()
	requests, limits, _ := strings.Cut(text, "/")
	c := corev1.Container{Name: "main", Image: "busybox", Resources: corev1.ResourceRequirements{Requests: list(t, requests), Limits: list(t, limits)}}
	for _, port := range ports {
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 80, HostPort: port})
	}
	return c
}

// need is the short form of what a test expects.
func need(cpus, mem, disk, limit int64, ports ...uint16) procure.Need {
	return procure.Need{Amounts: offers.Amounts{CPUs: cpus, MemMB: mem, DiskMB: disk}, MemLimitMB: limit, Ports: offers.NewPortSet(ports...), Roles: "*"}
}

// TestNeedOf is the table of effective requests (design decision 4).
func TestNeedOf(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container(t, "cpu=200m memory=64Mi")
	sidecar.RestartPolicy = &always
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		want procure.Need
	}{
		"nothing asked for":    {corev1.PodSpec{Containers: []corev1.Container{container(t, "")}}, need(100, 64, 0, 0)},
		"floors":               {corev1.PodSpec{Containers: []corev1.Container{container(t, "cpu=1m memory=1Mi")}}, need(10, 32, 0, 0)},
		"sums, rounded up":     {corev1.PodSpec{Containers: []corev1.Container{container(t, "cpu=250m memory=100M"), container(t, "cpu=1 memory=1Gi ephemeral-storage=1500k")}}, need(1250, 1120, 2, 0)},
		"cpu only":             {corev1.PodSpec{Containers: []corev1.Container{container(t, "cpu=2")}}, need(2000, 64, 0, 0)},
		"init container wins":  {corev1.PodSpec{InitContainers: []corev1.Container{container(t, "cpu=3 memory=32Mi")}, Containers: []corev1.Container{container(t, "cpu=1 memory=64Mi")}}, need(3000, 64, 0, 0)},
		"sidecar adds":         {corev1.PodSpec{InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{container(t, "cpu=1 memory=64Mi")}}, need(1200, 128, 0, 0)},
		"overhead adds":        {corev1.PodSpec{Overhead: list(t, "cpu=100m memory=120Mi"), Containers: []corev1.Container{container(t, "cpu=1 memory=64Mi")}}, need(1100, 184, 0, 0)},
		"host ports, once":     {corev1.PodSpec{Containers: []corev1.Container{container(t, "", 31002, 31000), container(t, "", 31002)}}, need(100, 64, 0, 0, 31000, 31002)},
		"limit above request":  {corev1.PodSpec{Containers: []corev1.Container{container(t, "memory=64Mi / memory=1Gi")}}, need(100, 64, 0, 1024)},
		"limit equals request": {corev1.PodSpec{Containers: []corev1.Container{container(t, "memory=64Mi / memory=64Mi")}}, need(100, 64, 0, 0)},
		"one without a limit":  {corev1.PodSpec{Containers: []corev1.Container{container(t, "memory=64Mi / memory=1Gi"), container(t, "memory=64Mi")}}, need(100, 128, 0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := procure.NeedOf(&corev1.Pod{Spec: test.spec}, "", cfg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := procure.NeedOf(&corev1.Pod{Spec: corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}}}, "", cfg); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("a windows pod gives %v, want an invalid one", err)
	}
}

// TestAnyPorts: ports that a pod takes whichever they are come from what is on offer beside those that it names, and its launch tells
// which they are; a pod that was told before takes these.
func TestAnyPorts(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container(t, "", 31001)}}}
	pod.Name, pod.Namespace, pod.UID = "p", "default", "uid"
	pod.Labels = map[string]string{messages.LabelPortMapping: messages.PortsWildcard}
	pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{ContainerPort: 80}, corev1.ContainerPort{ContainerPort: 81})
	got, err := procure.NeedOf(pod, "", cfg)
	want := need(100, 64, 0, 0, 31001)
	want.AnyPorts = 2
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("need (%v): %s", err, diff)
	}
	view := func(last uint64) *offers.View {
		return &offers.View{Limits: true, Roles: []offers.RoleView{{Role: "*", Free: offers.Amounts{CPUs: 1000, MemMB: 512}, Ports: offers.Ports{{Begin: 31000, End: last}}}}}
	}
	if why := procure.Fits(view(31001), got); why != procure.FewPorts {
		t.Errorf("with one port too few: %q, want %q", why, procure.FewPorts)
	}
	if why := procure.Fits(view(31002), got); why != "" {
		t.Errorf("with just enough ports: %q", why)
	}
	settled := procure.Settle(view(31005), "*", got)
	if diff := cmp.Diff(need(100, 64, 0, 0, 31000, 31001, 31002), settled); diff != "" {
		t.Errorf("settled: %s", diff)
	}
	info, err := procure.Task(cfg, procure.Launch{Pod: pod, AgentID: "a", Node: "n", Need: settled, Role: "*"})
	if err != nil {
		t.Fatal(err)
	}
	launch, err := messages.DecodeLaunch(info.Data)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, key := range []string{"port_TCP_80", "port_TCP_81"} {
		told[key] = launch.Pod.Annotations[messages.AnnotationPrefix+"/"+key]
	}
	if diff := cmp.Diff(map[string]string{"port_TCP_80": "31000", "port_TCP_81": "31002"}, told); diff != "" {
		t.Errorf("annotations: %s", diff)
	}
	if again, err := procure.NeedOf(launch.Pod, "", cfg); err != nil || again != settled {
		t.Errorf("a pod that was told its ports needs %+v (%v), want %+v", again, err, settled)
	}
	if _, err := procure.Task(cfg, procure.Launch{Pod: pod, AgentID: "a", Node: "n", Need: want, Role: "*"}); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("a launch without the ports gives %v", err)
	}
	pod.Labels[messages.LabelPortMapping] = "some"
	if _, err := procure.NeedOf(pod, "", cfg); !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("a label that is none gives %v", err)
	}
}

// TestFits: the verdicts are constant texts, and an agent without task limits must have the pod's memory limit free.
func TestFits(t *testing.T) {
	view := func(limits bool) *offers.View {
		return &offers.View{Limits: limits, Roles: []offers.RoleView{{Role: "*", Free: offers.Amounts{CPUs: 1000, MemMB: 512, DiskMB: 100},
			Ports: offers.Ports{{Begin: 31000, End: 31001}, {Begin: 31005, End: 31005}}}}}
	}
	for name, test := range map[string]struct {
		view *offers.View
		need procure.Need
		want string
	}{
		"no view":           {nil, need(10, 32, 0, 0), procure.NoOffer},
		"all of it":         {view(true), need(1000, 512, 100, 0, 31000, 31001, 31005), ""},
		"cpus":              {view(true), need(1001, 32, 0, 0), procure.FewCPUs},
		"memory":            {view(true), need(10, 513, 0, 0), procure.LittleMem},
		"disk":              {view(true), need(10, 32, 101, 0), procure.LittleDisk},
		"port":              {view(true), need(10, 32, 0, 0, 31002), procure.PortTaken},
		"limit, new agents": {view(true), need(10, 32, 0, 1024), ""},
		"limit, old agents": {view(false), need(10, 32, 0, 1024), procure.LittleMem},
	} {
		if got := procure.Fits(test.view, test.need); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestTaskLimits(t *testing.T) {
	inf := math.Inf(1)
	for name, test := range map[string]struct {
		containers []corev1.Container
		cpus, mem  float64
	}{
		"none":         {[]corev1.Container{container(t, "")}, inf, inf},
		"some":         {[]corev1.Container{container(t, "/ cpu=1 memory=1Gi"), container(t, "/ cpu=1")}, 2, inf},
		"all":          {[]corev1.Container{container(t, "/ cpu=1 memory=1Gi"), container(t, "/ cpu=500m memory=512Mi")}, 1.5, 1536},
		"below floors": {[]corev1.Container{container(t, "cpu=1m memory=1Mi / cpu=1m memory=1Mi")}, 0.01, 32},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}, Spec: corev1.PodSpec{Containers: test.containers}}
			n, err := procure.NeedOf(pod, "", cfg)
			if err != nil {
				t.Fatal(err)
			}
			task, err := procure.Task(cfg, procure.Launch{AgentID: "A1", Node: "a1", Attempt: 1, Pod: pod, Need: n.On(true), Limits: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := task.Limits["cpus"].Value; got != test.cpus {
				t.Errorf("cpus limit %g, want %g", got, test.cpus)
			}
			if got := task.Limits["mem"].Value; got != test.mem {
				t.Errorf("mem limit %g, want %g", got, test.mem)
			}
		})
	}
}

// TestTaskGolden holds the wire form of a launch: TaskInfo with its ExecutorInfo, and the envelope in its data.
func TestTaskGolden(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-0", UID: "0f9e3f6e-0000-4000-8000-000000000001",
			Labels:          map[string]string{"app": "web", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u2", Controller: ptr(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: corev1.PodSpec{SchedulerName: "mesos", Containers: []corev1.Container{container(t, "cpu=250m memory=100M / memory=1Gi", 31000, 31001, 31003)}},
	}
	n, err := procure.NeedOf(pod, "", cfg)
	if err != nil {
		t.Fatal(err)
	}
	stock := stockOf("*", scalar("cpus", 4), scalar("mem", 4096), mesos.Resource{Name: "ports", Type: mesos.RANGES.Enum(),
		Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 31000, End: 32000}}}})
	share, _ := stock.TakeExecutor(cfg.Executor.CPUs, cfg.Executor.MemMB)
	taken, _ := stock.Take(n)
	task, err := procure.Task(cfg, procure.Launch{
		AgentID: "A1", Node: "a1.example", OfferIDs: []string{"o1", "o2"}, Attempt: 2, Pod: pod, Need: n.On(true), Limits: true,
		Role: "*", Resources: taken, Executor: procure.Executor(cfg, "fw-1", share),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pod.Annotations) != 0 {
		t.Errorf("the pod is written to: %v", pod.Annotations)
	}
	golden(t, "launch.json", string(task.Data)+"\n")
	task.Data = nil
	golden(t, "task.pbtxt", proto.MarshalTextString(&task))
}

func scalar(name string, v float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: v}}
}

func stockOf(role string, resources ...mesos.Resource) *offers.Stock {
	pool := offers.NewPool(offers.Amounts{})
	pool.Add(&mesos.Offer{ID: mesos.OfferID{Value: "o1"}, AgentID: mesos.AgentID{Value: "A1"}, Resources: resources,
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role}}, time.Time{})
	return pool.Stock("A1", role)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (rewrite with -update): %s", path, diff)
	}
}

// TestExecutorIsConstant: equal shares make equal ExecutorInfos, and another task names the one that runs, in whatever role
// it was started (design decision 6).
func TestExecutorIsConstant(t *testing.T) {
	share := func() []mesos.Resource {
		taken, _ := stockOf("prod", scalar("cpus", 4), scalar("mem", 4096)).TakeExecutor(cfg.Executor.CPUs, cfg.Executor.MemMB)
		return taken
	}
	first := procure.Executor(cfg, "fw", share())
	if !proto.Equal(first, procure.Executor(cfg, "fw", share())) {
		t.Errorf("the same makes another ExecutorInfo")
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "c"}}
	task, err := procure.Task(cfg, procure.Launch{AgentID: "A1", Node: "a1", Attempt: 1, Pod: pod, Need: need(10, 32, 0, 0), Role: "*", Executor: first})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(first, task.Executor) {
		t.Errorf("ExecutorInfo differs: %v", task.Executor)
	}
	if task.Limits != nil {
		t.Errorf("limits for an agent that does not know them")
	}
	odd := cfg
	odd.BundleDir = "/opt/it's here"
	if got, want := procure.Executor(odd, "fw", nil).Command.GetValue(), `exec ./mesopod-keeper --bundle-dir='/opt/it'\''s here'`; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
}

func TestTaskTooLarge(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "c", Annotations: map[string]string{"x": strings.Repeat("x", messages.MaxLaunchBytes)}}}
	_, err := procure.Task(cfg, procure.Launch{AgentID: "A1", Node: "a1", Attempt: 1, Pod: pod, Need: need(10, 32, 0, 0)})
	if !errors.Is(err, errdefs.ErrInvalid) {
		t.Errorf("error %v, want an invalid one", err)
	}
}

func ptr[T any](v T) *T { return &v }

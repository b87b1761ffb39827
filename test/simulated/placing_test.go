package simulated

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/procure"
	"github.com/mesopod/mesopod/test/cluster"
)

// What Mesos' attributes of the agents are on nodes.
const (
	zone = messages.LabelAttributePrefix + "zone"
	rack = messages.LabelAttributePrefix + "rack"
)

// onRack is a pod for the two hosts of a rack.
func onRack(name, of string) *corev1.Pod {
	pod := onActed(name, nil)
	pod.Spec.NodeSelector[rack] = of
	return pod
}

// onHost is a pod for one agent that acts pods out.
func onHost(name, host string) *corev1.Pod {
	pod := onActed(name, nil)
	pod.Spec.NodeSelector[corev1.LabelHostname] = host
	return pod
}

// place creates a pod, waits until it runs, and returns the labels of its node.
func place(t *testing.T, pod *corev1.Pod) map[string]string {
	t.Helper()
	suite.Create(t, pod)
	return nodeOf(t, pod.Name)
}

func nodeOf(t *testing.T, pod string) map[string]string {
	t.Helper()
	node, err := suite.Client.CoreV1().Nodes().Get(t.Context(), suite.WaitPhase(t, pod, corev1.PodRunning).Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node.Labels
}

// waits waits until a pod that has no node is told why, in these words, and returns the pod.
func waits(t *testing.T, pod, why string) *corev1.Pod {
	t.Helper()
	return suite.WaitPod(t, pod, "to wait", func(p *corev1.Pod) string {
		if told := cluster.Unscheduled(p); p.Spec.NodeName != "" || !strings.Contains(told, why) {
			return fmt.Sprintf("it is told %q, want %q", told, why)
		}
		return ""
	})
}

func alike(pod *corev1.Pod) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
}

// Pods are spread evenly over zones, racks and hosts, which their constraint names by the labels that Mesos' attributes become.
func TestTopologySpread(t *testing.T) {
	t.Parallel()
	for key, domains := range map[string]int{zone: 2, rack: 4, corev1.LabelHostname: 8} {
		short := key[strings.LastIndexAny(key, "-/")+1:]
		t.Run(short, func(t *testing.T) {
			t.Parallel()
			for n := range 8 {
				pod := onActed(fmt.Sprintf("spread-%s-%d", short, n), nil)
				pod.Labels["app"] = "spread-" + short
				pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
					{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: alike(pod)}}
				suite.Create(t, pod)
			}
			counts := map[string]int{}
			for n := range 8 {
				counts[nodeOf(t, fmt.Sprintf("spread-%s-%d", short, n))[key]]++
			}
			for domain, n := range counts {
				if len(counts) != domains || n != 8/domains {
					t.Errorf("%s has %d of 8 pods, want %d in each of %d: %v", domain, n, 8/domains, domains, counts)
				}
			}
		})
	}
}

// Affinities to nodes and to pods hold together, and anti-affinity keeps the fifth pod off four racks until one is free.
func TestAffinities(t *testing.T) {
	t.Parallel()
	chooser := onActed("chooser", nil)
	chooser.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z2"}}, {Key: rack, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"r2"}}}}}}}}
	if got := place(t, chooser); got[zone] != "z2" || got[rack] != "r4" {
		t.Errorf("the pod is in zone %s, rack %s, want z2, r4", got[zone], got[rack])
	}

	leader := onActed("leader", nil)
	first := place(t, leader)
	follower := onActed("follower", nil)
	follower.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: rack, LabelSelector: alike(leader)}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: alike(leader)}}},
	}
	if got := place(t, follower); got[rack] != first[rack] || got[corev1.LabelHostname] == first[corev1.LabelHostname] {
		t.Errorf("the follower is on %s in rack %s, want another host than %s in rack %s", got[corev1.LabelHostname], got[rack], first[corev1.LabelHostname], first[rack])
	}

	apart := func(n int) *corev1.Pod {
		pod := onActed(fmt.Sprintf("apart-%d", n), nil)
		pod.Labels["app"] = "apart"
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: rack, LabelSelector: alike(pod)}}}}
		return pod
	}
	racks := map[string]bool{}
	for n := range 4 {
		racks[place(t, apart(n))[rack]] = true
	}
	if len(racks) != 4 {
		t.Errorf("four pods that keep apart are on racks %v", slices.Sorted(maps.Keys(racks)))
	}
	suite.Create(t, apart(4))
	waits(t, "apart-4", "anti-affinity")
	free := nodeOf(t, "apart-2")
	if err := suite.DeletePod(t.Context(), "apart-2"); err != nil {
		t.Fatal(err)
	}
	if got := nodeOf(t, "apart-4"); got[rack] != free[rack] {
		t.Errorf("the fifth pod is on rack %s, want %s, which is free", got[rack], free[rack])
	}
}

// A taint that somebody puts on a node stays there, and keeps pods away that do not tolerate it.
func TestTaints(t *testing.T) {
	const host = "sim6.mesos"
	suite.Kubectl(t, "taint", "node", host, "kept=for-few:NoSchedule")
	untaint := func(ctx context.Context) {
		if out, err := suite.TryKubectl(ctx, "taint", "node", host, "kept-"); err != nil && !strings.Contains(out+err.Error(), "not found") {
			t.Errorf("remove taint: %v: %s", err, out)
		}
	}
	t.Cleanup(func() { untaint(context.WithoutCancel(t.Context())) })
	suite.Create(t, onHost("plain", host))
	waits(t, "plain", "untolerated taint(s)")
	tolerant := onHost("tolerant", host)
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: "kept", Operator: corev1.TolerationOpEqual, Value: "for-few", Effect: corev1.TaintEffectNoSchedule}}
	place(t, tolerant)
	waits(t, "plain", "untolerated taint(s)")
	untaint(t.Context())
	suite.WaitPhase(t, "plain", corev1.PodRunning)
}

// All that a pod asks for reaches its task in Mesos: init containers, sidecars, the overhead of its RuntimeClass (and the nodes
// that this chooses), requests of the pod as a whole, disk and ports.
func TestTaskAmounts(t *testing.T) {
	t.Parallel()
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "heavy"}, Handler: "runc",
		Overhead:   &nodev1.Overhead{PodFixed: cluster.Requests("250m", "120Mi")},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{rack: "r2"}}}
	if _, err := suite.Client.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := suite.Client.NodeV1().RuntimeClasses().Delete(context.WithoutCancel(t.Context()), class.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	always := corev1.ContainerRestartPolicyAlways
	before := func(name, cpus, mem string, policy *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{Name: name, Image: cluster.Busybox, RestartPolicy: policy, Resources: corev1.ResourceRequirements{Requests: cluster.Requests(cpus, mem)}}
	}
	type amounts struct {
		CPUs, Mem, Disk float64
		Ports           []cluster.Range
	}
	for _, tc := range []struct {
		name string
		set  func(*corev1.PodSpec)
		want amounts
	}{
		{"init-container", func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{before("init", "1", "256Mi", nil)} }, amounts{CPUs: 1, Mem: 256}},
		{"sidecar", func(s *corev1.PodSpec) { // the second one runs beside the first: 200m + 500m; then the sidecar beside the container: 64 MiB + 64 MiB
			s.InitContainers = []corev1.Container{before("side", "200m", "64Mi", &always), before("init", "500m", "32Mi", nil)}
		}, amounts{CPUs: 0.7, Mem: 128}},
		{"overhead", func(s *corev1.PodSpec) { s.RuntimeClassName = &class.Name }, amounts{CPUs: 0.35, Mem: 184}},
		{"pod-level", func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Requests: cluster.Requests("1500m", "300Mi")}
		}, amounts{CPUs: 1.5, Mem: 300}},
		{"disk", func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("500Mi")
		}, amounts{CPUs: 0.1, Mem: 64, Disk: 500}},
		{"ports", func(s *corev1.PodSpec) { // one port for both protocols
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 53, HostPort: 31010, Protocol: corev1.ProtocolUDP},
				{ContainerPort: 53, HostPort: 31010, Protocol: corev1.ProtocolTCP}, {ContainerPort: 80, HostPort: 31012}}
		}, amounts{CPUs: 0.1, Mem: 64, Ports: []cluster.Range{{Begin: 31010, End: 31010}, {Begin: 31012, End: 31012}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := onActed("amounts-"+tc.name, nil)
			pod.Spec.Containers[0].Resources.Requests = cluster.Requests("100m", "64Mi")
			tc.set(&pod.Spec)
			labels := place(t, pod)
			made := suite.WaitPhase(t, pod.Name, corev1.PodRunning)
			task := suite.WaitTask(t, made, "TASK_RUNNING")
			got := amounts{CPUs: task.Amount("cpus"), Mem: task.Amount("mem"), Disk: task.Amount("disk"), Ports: task.Ranges("ports")}
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
				t.Errorf("resources of the task: %s", diff)
			}
			if pod.Spec.RuntimeClassName != nil && labels[rack] != "r2" {
				t.Errorf("the pod is on rack %s, want r2, which its RuntimeClass says", labels[rack])
			}
		})
	}
}

// A host port belongs to one pod of an agent at a time; one that the agent does not offer is nobody's.
func TestHostPorts(t *testing.T) {
	t.Parallel()
	with := func(name string, port int32) *corev1.Pod {
		pod := onHost(name, "sim7.mesos")
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: port}}
		return pod
	}
	place(t, with("has-port", 31500))
	suite.Create(t, with("wants-port", 31500))
	suite.Create(t, with("no-port", 80))
	waits(t, "wants-port", "host port 31500 is taken or not on offer")
	if err := suite.DeletePod(t.Context(), "has-port"); err != nil {
		t.Fatal(err)
	}
	suite.WaitPhase(t, "wants-port", corev1.PodRunning)
	waits(t, "no-port", "host port 80 is taken or not on offer")
}

// By its label a pod gets ports of the host that nobody else has, as many as it has ports; annotations name them.
func TestWildcardPorts(t *testing.T) {
	t.Parallel()
	taken := map[uint64]string{}
	for n := range 3 {
		pod := onHost(fmt.Sprintf("any-port-%d", n), "sim7.mesos")
		pod.Labels[messages.LabelPortMapping] = messages.PortsWildcard
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}}
		made := suite.Create(t, pod)
		running := suite.WaitPhase(t, pod.Name, corev1.PodRunning)
		var has []uint64
		for _, r := range suite.WaitTask(t, made, "TASK_RUNNING").Ranges("ports") {
			for port := r.Begin; port <= r.End; port++ {
				has = append(has, port)
				if other := taken[port]; other != "" {
					t.Errorf("port %d of pod %s is one of pod %s", port, pod.Name, other)
				}
				taken[port] = pod.Name
			}
		}
		var told []uint64
		for _, key := range []string{"port_TCP_80", "port_UDP_53"} {
			port, err := strconv.ParseUint(running.Annotations[messages.AnnotationPrefix+"/"+key], 10, 16)
			if err != nil {
				t.Errorf("annotation %s: %v", key, err)
			}
			told = append(told, port)
		}
		if slices.Sort(told); len(has) != 2 || !slices.Equal(has, told) {
			t.Errorf("the task of pod %s has ports %v, its annotations tell %v", pod.Name, has, told)
		}
	}
	odd := onHost("odd-ports", "sim7.mesos")
	odd.Labels[messages.LabelPortMapping] = "some"
	suite.Create(t, odd)
	waits(t, odd.Name, `label k8s.mesosphere.io/portMapping is "some": want fixed or wildcard`)
}

// A pod with a scheduling gate has no task until the gate is gone.
func TestSchedulingGates(t *testing.T) {
	t.Parallel()
	pod := onActed("gated", nil)
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	pod = suite.Create(t, pod)
	place(t, onActed("not-gated", nil)) // the scheduler has seen what was made before
	got := suite.WaitPod(t, pod.Name, "to be gated", func(p *corev1.Pod) string {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
				return ""
			}
		}
		return "it has no such condition"
	})
	if tasks, err := suite.TasksOf(t.Context(), pod); err != nil || len(tasks) > 0 || got.Spec.NodeName != "" {
		t.Errorf("the gated pod has node %q and tasks %v (%v)", got.Spec.NodeName, tasks, err)
	}
	if _, err := suite.Client.CoreV1().Pods(cluster.Namespace).Patch(t.Context(), pod.Name, types.JSONPatchType,
		[]byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	suite.WaitPhase(t, pod.Name, corev1.PodRunning)
}

// A more important pod has a less important one of its agent evicted; one whose class says Never waits for room.
func TestPriorities(t *testing.T) {
	never := corev1.PreemptNever
	for name, class := range map[string]schedulingv1.PriorityClass{"low": {Value: -10}, "high": {Value: 1000}, "patient": {Value: 500, PreemptionPolicy: &never}} {
		class.Name = name
		if _, err := suite.Client.SchedulingV1().PriorityClasses().Create(t.Context(), &class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := suite.Client.SchedulingV1().PriorityClasses().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	of := func(class string) *corev1.Pod {
		pod := onHost(class, "sim8.mesos")
		pod.Spec.PriorityClassName = class
		pod.Spec.Containers[0].Resources.Requests = cluster.Requests("5", "64Mi")
		return pod
	}
	low := suite.Create(t, of("low"))
	suite.WaitPhase(t, "low", corev1.PodRunning)
	suite.Create(t, of("patient"))
	waits(t, "patient", procure.FewCPUs)
	high := suite.Create(t, of("high"))
	suite.WaitPhase(t, "high", corev1.PodRunning)
	suite.WaitTask(t, low, "TASK_KILLED")
	if _, err := suite.Client.CoreV1().Pods(cluster.Namespace).Get(t.Context(), "low", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the less important pod is still there (%v)", err)
	}
	waits(t, "patient", procure.FewCPUs)
	if err := suite.DeletePod(t.Context(), "high"); err != nil {
		t.Fatal(err)
	}
	suite.WaitTask(t, high, "TASK_KILLED")
	suite.WaitPhase(t, "patient", corev1.PodRunning)
}

// Pods of two scheduler names are placed by two profiles: that of the second one (scheduler.yaml) adds an affinity to a rack.
func TestTwoProfiles(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		pod := cluster.NewPod(fmt.Sprintf("third-%d", n), "nothing runs this")
		pod.Spec.SchedulerName = "third-rack"
		if got := place(t, pod); got[rack] != "r3" {
			t.Errorf("pod %s is on rack %s, want r3, which its profile says", pod.Name, got[rack])
		}
	}
	place(t, onRack("first", "r1"))
	elsewhere := onRack("elsewhere", "r1")
	elsewhere.Spec.SchedulerName = "third-rack"
	suite.Create(t, elsewhere)
	waits(t, "elsewhere", "scheduler-enforced node affinity")
}

// A claim that waits for its first pod is bound to the local volume of a host, and the pod goes there.
func TestLocalVolume(t *testing.T) {
	t.Parallel()
	const name, host = "local-disk", "sim5.mesos"
	late := storagev1.VolumeBindingWaitForFirstConsumer
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Mi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: name, Capacity: size, AccessModes: once, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/nothing/mounts/this"}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}}}}}},
	}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class.Name, AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size}}}
	c := suite.Client
	_, err1 := c.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{})
	_, err2 := c.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{})
	_, err3 := c.CoreV1().PersistentVolumeClaims(cluster.Namespace).Create(t.Context(), claim, metav1.CreateOptions{})
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(c.CoreV1().PersistentVolumeClaims(cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{}),
			c.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{}), c.StorageV1().StorageClasses().Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	uses := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
		return pod
	}
	suite.Create(t, uses(onRack("far-from-disk", "r4")))
	waits(t, "far-from-disk", "persistent volumes")
	if got := place(t, uses(onActed("near-disk", nil))); got[corev1.LabelHostname] != host {
		t.Errorf("the pod is on %s, want %s, which has the volume", got[corev1.LabelHostname], host)
	}
	bound, err := c.CoreV1().PersistentVolumeClaims(cluster.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || bound.Spec.VolumeName != volume.Name {
		t.Errorf("the claim has volume %q (%v)", bound.Spec.VolumeName, err)
	}
}

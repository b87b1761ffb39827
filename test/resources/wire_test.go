package resources

import (
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/test/cluster"
)

// What a pod asks for is what its task has in Mesos, and what it may use is the task's limit and the kernel's: floors,
// defaults, init containers, sidecars, and limits, which are infinite where one container has none (design decision 4).
func TestTaskResources(t *testing.T) {
	inf := math.Inf(1)
	always := corev1.ContainerRestartPolicyAlways
	container := func(name, script, requests, limits string) corev1.Container {
		c := cluster.NewPod("x", script).Spec.Containers[0]
		c.Name, c.Resources = name, corev1.ResourceRequirements{}
		if requests != "" {
			c.Resources.Requests = cluster.Requests("100m", requests)
		}
		if limits != "" {
			c.Resources.Limits = cluster.Requests("1", limits)
		}
		return c
	}
	sidecar := container("side", cluster.Steady, "40Mi", "80Mi")
	sidecar.RestartPolicy = &always
	small := container("main", cluster.Steady, "1Mi", "")
	small.Resources.Requests = cluster.Requests("1m", "1Mi")
	steady := container("main", cluster.Steady, "64Mi", "128Mi")
	for name, c := range map[string]struct {
		init, main                   []corev1.Container
		cpus, mem, cpuLimit, memMost float64 // cores and MiB
	}{
		"floors":      {nil, []corev1.Container{small}, 0.01, 32, inf, inf},
		"defaults":    {nil, []corev1.Container{container("main", cluster.Steady, "", "")}, 0.1, 64, inf, inf},
		"limits":      {nil, []corev1.Container{steady}, 0.1, 64, 1, 128},
		"one-without": {nil, []corev1.Container{steady, container("second", cluster.Steady, "64Mi", "")}, 0.2, 128, inf, inf},
		"init-wins":   {[]corev1.Container{container("init", "exit 0", "200Mi", "300Mi")}, []corev1.Container{steady}, 0.1, 200, 1, 300},
		"sidecar":     {[]corev1.Container{sidecar}, []corev1.Container{steady}, 0.2, 104, 2, 208},
	} {
		pod := cluster.NewPod("wire-"+name, "")
		pod.Spec.InitContainers, pod.Spec.Containers = c.init, c.main
		suite.Create(t, pod)
		running := suite.WaitPhase(t, pod.Name, corev1.PodRunning)
		task := suite.WaitTask(t, running, "TASK_RUNNING")
		got := []float64{task.Amount("cpus"), task.Amount("mem"), task.Limit("cpus"), task.Limit("mem")}
		if want := []float64{c.cpus, c.mem, c.cpuLimit, c.memMost}; !slices.Equal(got, want) {
			t.Errorf("%s: the task has cpus, mem, and limits of both %v, want %v", name, got, want)
		}
		if name != "limits" {
			continue
		}
		group := "kubepods/burstable/pod" + string(running.UID)
		e := theExecutor(t)
		if quota := e.cgroupValue(t, "cpu", group, "cpu.cfs_quota_us"); quota != 100_000 {
			t.Errorf("the pod's CPU quota is %d µs, want 100000 for 1 core", quota)
		}
		if limit := e.cgroupValue(t, "memory", group, "memory.limit_in_bytes"); limit != 128<<20 {
			t.Errorf("the pod's memory limit is %d, want 128 MiB", limit)
		}
	}
}

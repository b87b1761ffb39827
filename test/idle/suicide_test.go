package idle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mesopod/mesopod/test/cluster"
)

const cold = "mesopod-agent2" // the agent whose executor comes and goes here

// readiness watches a node and keeps what was ever wrong with it.
type readiness struct {
	mu      sync.Mutex
	uid     string
	reasons []string // of the condition Ready, each when it changed
	faults  []string
}

func watchNode(t *testing.T, name string) *readiness {
	t.Helper()
	nodes := suite.Client.CoreV1().Nodes()
	node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := &readiness{uid: string(node.UID)}
	r.see(watch.Event{Type: watch.Added, Object: node})
	w, err := nodes.Watch(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: node.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for event := range w.ResultChan() {
			r.see(event)
		}
	})
	t.Cleanup(func() { w.Stop(); done.Wait() })
	return r
}

func (r *readiness) see(event watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	node, is := event.Object.(*corev1.Node)
	if !is || event.Type == watch.Deleted || string(node.UID) != r.uid {
		r.faults = append(r.faults, fmt.Sprintf("%s of %T", event.Type, event.Object))
		return
	}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status != corev1.ConditionTrue {
			r.faults = append(r.faults, fmt.Sprintf("%s: Ready is %s: %s: %s", time.Now().Format(time.TimeOnly), c.Status, c.Reason, c.Message))
		}
		if len(r.reasons) == 0 || r.reasons[len(r.reasons)-1] != c.Reason {
			r.reasons = append(r.reasons, c.Reason)
		}
	}
}

func (r *readiness) state() (reasons, faults []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.reasons...), append([]string(nil), r.faults...)
}

// waitCold waits until no executor runs on the cold agent.
func waitCold(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, "executor to end for want of pods", func(context.Context) error {
		if pid, err := suite.PartPID(suite.OfAgent(2), cluster.ExecutorWords); err == nil {
			return fmt.Errorf("process %d runs", pid)
		}
		return nil
	})
}

// An executor without pods ends, and the next pod starts another: the Node stays, and is Ready all the time. Finished pods of
// Jobs stay as they were; their logs are in the sandbox, since no kubelet is left to show them.
func TestSuicide(t *testing.T) {
	node := watchNode(t, cold)
	pod := finishedJob(t, "outlives")
	dir := suite.Sandbox(t, cold)
	waitCold(t)
	cluster.Eventually(t, "node to be kept alive by the scheduler", func(context.Context) error {
		if reasons, _ := node.state(); reasons[len(reasons)-1] != "ExecutorNotRunning" {
			return fmt.Errorf("reasons of Ready were %v", reasons)
		}
		return nil
	})
	after, err := suite.Client.CoreV1().Pods(cluster.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || after.UID != pod.UID || after.Status.Phase != corev1.PodSucceeded || after.DeletionTimestamp != nil {
		t.Errorf("the finished pod is %v (%v), want it as it was", after, err)
	}
	path := fmt.Sprintf("%s/pods/%s_%s_%s/main/0.log", dir, cluster.Namespace, pod.Name, pod.UID)
	if log := suite.ReadFile(t, cold, path); !strings.Contains(log, "all done") {
		t.Errorf("the log in the sandbox is %q", log)
	}
	out, err := exec.CommandContext(t.Context(), cluster.Mesopod(), "kubectl", "--kubeconfig", suite.Kubeconfig(), "logs", pod.Name).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "refused") {
		t.Errorf("kubectl logs without a kubelet: %v: %s", err, out)
	}
	suite.Create(t, cluster.OnNode(cluster.NewPod("wakes", cluster.Steady), cold))
	suite.WaitPhase(t, "wakes", corev1.PodRunning)
	cluster.Eventually(t, "node to be its kubelet's", func(context.Context) error {
		if reasons, _ := node.state(); reasons[len(reasons)-1] != "KubeletReady" {
			return fmt.Errorf("reasons of Ready were %v", reasons)
		}
		return nil
	})
	if reasons, faults := node.state(); len(faults) > 0 {
		t.Errorf("node %s was not Ready all the time: %s; reasons were %v", cold, strings.Join(faults, "; "), reasons)
	}
	// What the new kubelet makes of the old pod.
	if after, err := suite.Client.CoreV1().Pods(cluster.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || after.Status.Phase != corev1.PodSucceeded {
		t.Errorf("the finished pod is %v (%v) beside the next executor", after, err)
	}
}

func finishedJob(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	spec := cluster.OnNode(cluster.NewPod(name, "echo all done"), cold).Spec
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
	jobs := suite.Client.BatchV1().Jobs(cluster.Namespace)
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		background := metav1.DeletePropagationBackground
		if err := jobs.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			t.Error(err)
		}
	})
	var finished *corev1.Pod
	cluster.Eventually(t, "job to finish", func(ctx context.Context) error {
		pods, err := suite.Client.CoreV1().Pods(cluster.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "job-name=" + name})
		if err == nil && (len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodSucceeded) {
			err = fmt.Errorf("%d pods, none has succeeded", len(pods.Items))
		}
		if err == nil {
			finished = &pods.Items[0]
		}
		return err
	})
	return finished
}

// A claim that waits for its first consumer is bound to a volume of an agent that runs no executor, and the pod starts one
// there: kube-scheduler knows the agent by its Node.
func TestVolumeOnColdAgent(t *testing.T) {
	waitCold(t)
	folder := filepath.Join(suite.StateDir, "volume")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	provision(t, "cold-disk", folder)
	pod := cluster.NewPod("consumer", "echo kept > /data/file; "+cluster.Steady)
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "cold-disk"}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	suite.Create(t, pod)
	running := suite.WaitPhase(t, "consumer", corev1.PodRunning)
	if running.Spec.NodeName != cold {
		t.Errorf("the pod is on %s, its volume on %s", running.Spec.NodeName, cold)
	}
	claim, err := suite.Client.CoreV1().PersistentVolumeClaims(cluster.Namespace).Get(t.Context(), "cold-disk", metav1.GetOptions{})
	if err != nil || claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName != "cold-disk" {
		t.Errorf("the claim is %s of volume %q (%v)", claim.Status.Phase, claim.Spec.VolumeName, err)
	}
	cluster.Eventually(t, "file in the volume", func(context.Context) error {
		data, err := os.ReadFile(filepath.Join(folder, "file"))
		if err == nil && string(data) != "kept\n" {
			err = fmt.Errorf("it holds %q", data)
		}
		return err
	})
}

// provision makes a storage class without a provisioner, one local volume on the cold agent, and a claim, all of one name.
func provision(t *testing.T, name, folder string) {
	t.Helper()
	late, retain := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimRetain
	size := corev1.ResourceList{corev1.ResourceStorage: cluster.Requests("1", "10Mi")[corev1.ResourceMemory]}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late, ReclaimPolicy: &retain}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: name, Capacity: size, AccessModes: once, PersistentVolumeReclaimPolicy: retain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{cold}}},
		}}}},
	}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &name, AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size}}}
	c := suite.Client
	_, err1 := c.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{})
	_, err2 := c.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{})
	_, err3 := c.CoreV1().PersistentVolumeClaims(cluster.Namespace).Create(t.Context(), claim, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), cluster.Limit)
		defer cancel()
		err := errors.Join(
			c.CoreV1().PersistentVolumeClaims(cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{}),
			c.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{}),
			c.StorageV1().StorageClasses().Delete(ctx, name, metav1.DeleteOptions{}))
		if err == nil {
			err = cluster.Poll(ctx, func(ctx context.Context) error {
				_, err := c.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return errors.Join(err, fmt.Errorf("volume %s is still there", name))
			})
		}
		if err != nil {
			t.Error(err)
		}
	})
}

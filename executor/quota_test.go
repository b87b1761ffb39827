package executor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/agentconn"
	"github.com/mesopod/mesopod/executor/ledger"
)

// quotaWorld is a kernel with the quotas of pods' cgroups, and a Mesos that sets our container's at each terminal status.
type quotaWorld struct {
	t     *testing.T
	guard *quotaGuard
	// folders are cgroups that can be seen; kernel has those too that the kernel has not forgotten; limits are what Mesos
	// counts. All in µs.
	folders, kernel, limits map[types.UID]int64
	sent                    []string
}

const testShare = 50_000

func newQuotaWorld(t *testing.T) *quotaWorld {
	w := &quotaWorld{t: t, folders: map[types.UID]int64{}, kernel: map[types.UID]int64{}, limits: map[types.UID]int64{}}
	w.guard = newQuotaGuard("none", w.take)
	w.guard.share = testShare
	w.guard.quotas = func() (map[types.UID]int64, error) {
		copied := map[types.UID]int64{}
		for uid, quota := range w.folders {
			copied[uid] = quota
		}
		return copied, nil
	}
	w.guard.probe = w.set
	return w
}

// set is the kernel's answer to a quota for our container.
func (w *quotaWorld) set(quota int64) error {
	for uid, own := range w.kernel {
		if own > quota {
			return fmt.Errorf("pod %s has %d: %w", uid, own, syscall.EINVAL)
		}
	}
	return nil
}

// take is the agent: it shrinks the quota, and a refusal is the end of all pods.
func (w *quotaWorld) take(u ledger.Update) {
	w.sent = append(w.sent, u.TaskID+" "+u.State.String())
	if !ledger.IsTerminal(u.State) {
		return
	}
	delete(w.limits, uidOf(u.TaskID))
	quota := int64(testShare)
	for _, limit := range w.limits {
		quota += limit
	}
	if err := w.set(quota); err != nil {
		w.t.Fatalf("after %s Mesos sets %d and destroys the container: %v", u.TaskID, quota, err)
	}
}

func uidOf(task string) types.UID { return types.UID(task[:len(task)-len(".1")]) }

func (w *quotaWorld) start(uid types.UID, quota int64) {
	w.limits[uid], w.folders[uid], w.kernel[uid] = quota, quota, quota
	w.guard.Send(status(uid, mesos.TASK_RUNNING))
}

func status(uid types.UID, state mesos.TaskState) ledger.Update {
	return ledger.Update{TaskID: string(uid) + ".1", UUID: []byte(string(uid) + state.String()), State: state}
}

// A terminal status waits for the kernel to forget the pod, also when two end at once, and others do not.
func TestQuotaGuardHolds(t *testing.T) {
	w := newQuotaWorld(t)
	w.start("a", 200_000)
	w.start("b", 200_000)
	w.guard.Send(status("a", mesos.TASK_FINISHED))
	w.guard.Send(status("b", mesos.TASK_FINISHED))
	if left := w.guard.release(time.Now()); left != 1 {
		t.Errorf("%d statuses are held back, want that of b: after a's Mesos still counts b", left)
	}
	delete(w.folders, "a")
	delete(w.folders, "b")
	if left := w.guard.release(time.Now()); left != 1 {
		t.Errorf("%d statuses are held back, want one as long as the kernel remembers the groups", left)
	}
	if got := w.guard.Unsaid([]ledger.Update{status("a", mesos.TASK_FINISHED), status("b", mesos.TASK_FINISHED), status("c", mesos.TASK_RUNNING)}); len(got) != 2 {
		t.Errorf("a subscription carries %d statuses, want those of a and c", len(got))
	}
	clear(w.kernel)
	if left := w.guard.release(time.Now()); left != 0 {
		t.Errorf("%d statuses are held back when all is gone", left)
	}
	want := []string{"a.1 TASK_RUNNING", "b.1 TASK_RUNNING", "a.1 TASK_FINISHED", "b.1 TASK_FINISHED"}
	if !slices.Equal(w.sent, want) {
		t.Errorf("sent %v, want %v", w.sent, want)
	}
}

// What an earlier executor has not got acknowledged is held back too, and sent once.
func TestQuotaGuardAfterRestart(t *testing.T) {
	w := newQuotaWorld(t)
	w.kernel["a"] = 200_000
	old := []ledger.Update{status("a", mesos.TASK_RUNNING), status("a", mesos.TASK_FAILED)}
	for range 2 {
		if got := w.guard.Unsaid(old); len(got) != 1 || got[0].State != mesos.TASK_RUNNING {
			t.Fatalf("a subscription carries %v, want TASK_RUNNING alone", got)
		}
	}
	w.guard.release(time.Now())
	clear(w.kernel)
	w.guard.release(time.Now())
	if !slices.Equal(w.sent, []string{"a.1 TASK_FAILED"}) {
		t.Errorf("sent %v, want TASK_FAILED once", w.sent)
	}
	if got := w.guard.Unsaid(old); len(got) != 2 {
		t.Errorf("the next subscription carries %v, want both: the first may be lost", got)
	}
}

// Without Mesos' quotas nothing is held back.
func TestQuotaGuardOff(t *testing.T) {
	w := newQuotaWorld(t)
	w.guard.Send(status("a", mesos.TASK_FINISHED))
	w.guard.off = true
	w.guard.release(time.Now())
	w.guard.Send(status("b", mesos.TASK_FAILED))
	if len(w.sent) != 2 || len(w.guard.Unsaid([]ledger.Update{status("b", mesos.TASK_FAILED)})) != 1 {
		t.Errorf("sent %v", w.sent)
	}
}

// Law: whatever ends in whatever order, Mesos never sets a quota that the kernel refuses, and all statuses go out.
func TestQuotaGuardLaw(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := newQuotaWorld(t)
		var ending []types.UID // ended, cgroup still there or remembered
		for i := range 60 {
			uid := types.UID(fmt.Sprintf("pod%d", i))
			w.start(uid, int64(1+random.IntN(40))*10_000)
			for other := range w.limits {
				if random.IntN(4) == 0 && !slices.Contains(ending, other) {
					w.guard.Send(status(other, mesos.TASK_FINISHED))
					ending = append(ending, other)
				}
			}
			for _, uid := range ending {
				if random.IntN(2) == 0 {
					delete(w.folders, uid)
				}
				if _, seen := w.folders[uid]; !seen && random.IntN(2) == 0 {
					delete(w.kernel, uid)
				}
			}
			w.guard.release(time.Now())
		}
		for _, uid := range ending {
			delete(w.folders, uid)
			delete(w.kernel, uid)
		}
		if left := w.guard.release(time.Now()); left != 0 {
			t.Fatalf("seed %d: %d statuses are held back for ever", seed, left)
		}
	}
}

// The real kernel: a quota below that of a group is refused until the group is gone, and a probe changes nothing.
func TestProbeQuota(t *testing.T) {
	folder := filepath.Join(cpuRoot, "mesopod", fmt.Sprintf("probe-%d", os.Getpid()))
	pod := filepath.Join(folder, "kubepods", "pod1")
	if err := os.MkdirAll(pod, 0o755); err != nil {
		t.Skipf("no cgroup v1 that we may write: %v", err)
	}
	t.Cleanup(func() {
		for _, dir := range []string{pod, filepath.Dir(pod), folder} {
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
		_ = os.Remove(filepath.Dir(folder)) // others may have groups there
	})
	if err := errors.Join(writeInt(filepath.Join(folder, cpuQuota), 400_000), writeInt(filepath.Join(pod, cpuQuota), 200_000)); err != nil {
		t.Fatal(err)
	}
	quotas, err := podQuotas(folder)
	if err != nil || quotas["1"] != 200_000 {
		t.Errorf("quotas of pods are %v (%v)", quotas, err)
	}
	if err := probeQuota(folder, 100_000); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a quota below a pod's: %v, want EINVAL", err)
	}
	if err := probeQuota(folder, 200_000); err != nil {
		t.Errorf("a quota that is no lower: %v", err)
	}
	if now, err := readInt(filepath.Join(folder, cpuQuota)); err != nil || now != 400_000 {
		t.Errorf("the quota is %d (%v) after a probe, want it as it was", now, err)
	}
	if err := os.Remove(pod); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for err = probeQuota(folder, 100_000); err != nil && time.Now().Before(deadline); {
		err = probeQuota(folder, 100_000)
	}
	if err != nil {
		t.Errorf("the pod is gone: %v", err)
	}
	if err := probeQuota(filepath.Join(folder, "nobody"), 100_000); err != nil {
		t.Errorf("a container without quotas: %v", err)
	}
}

// Pods may have quotas unless they would be larger than ours.
func TestMayLimitCPU(t *testing.T) {
	for _, c := range []struct {
		about agentconn.About
		err   error
		want  bool
	}{
		{about: agentconn.About{CPUQuotas: false, TaskLimits: true}, want: true},
		{about: agentconn.About{CPUQuotas: true, TaskLimits: true}, want: true},
		{about: agentconn.About{CPUQuotas: true, TaskLimits: false}, want: false},
		{about: agentconn.About{}, want: true},
		{err: errors.New("no answer"), want: true}, // no such cgroup, so no quota
	} {
		if got := mayLimitCPU("mesopod/nobody", func() (agentconn.About, error) { return c.about, c.err }); got != c.want {
			t.Errorf("%+v, %v: %t, want %t", c.about, c.err, got, c.want)
		}
	}
}

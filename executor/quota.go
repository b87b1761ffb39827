package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/golang/glog"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/agentconn"
	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/messages"
)

const (
	cpuRoot  = "/sys/fs/cgroup/cpu"
	cpuQuota = "cpu.cfs_quota_us"
	noQuota  = -1
	// quotaPeriod is the period of Mesos' CPU quotas and of the kubelet's.
	quotaPeriod = 100 * time.Millisecond
	// leastQuota in µs is the kernel's and Mesos' lower bound.
	leastQuota = 1000
	// probeInterval is the pace of asking the kernel while a status is held back: a pod's cgroup outlives the pod by some
	// hundred milliseconds, and the kernel's memory of it some ten more.
	probeInterval = 10 * time.Millisecond
	// heldTooLong is when a status that is still held back is worth a line in the log, and then again each time.
	heldTooLong = 10 * time.Second
)

// quotaGuard holds back terminal statuses where Mesos sets CPU quotas. At a terminal status the agent shrinks the quota
// of our container; while the cgroup of some pod has a larger one the kernel refuses that, and Mesos then destroys the
// container with every pod in it. So before each such status the guard tries with a quota that is no larger than what
// Mesos will set, and sends only when the kernel takes it.
//
// Send and Unsaid may be called from any goroutine; Run is one more, which its caller owns.
type quotaGuard struct {
	// share is the executor's own quota in µs: what the container has without tasks. Run sets it.
	share int64
	send  func(ledger.Update)
	// quotas are those of the pods' cgroups in µs; probe is the kernel's answer to a quota for our container.
	quotas func() (map[types.UID]int64, error)
	probe  func(quota int64) error
	wake   chan struct{} // has one place

	mu   sync.Mutex
	off  bool // Mesos sets no quotas
	held []held
	// said are the ids of terminal statuses that were sent, as long as they may be asked for again.
	said map[string]bool
	// ended are the pods whose terminal status was sent, as long as they may have a cgroup: Mesos counts them no more.
	ended map[types.UID]bool
}

// held is a status that waits.
type held struct {
	update ledger.Update
	since  time.Time
	told   time.Time // last line in the log
}

func newQuotaGuard(cgroup string, send func(ledger.Update)) *quotaGuard {
	folder := filepath.Join(cpuRoot, cgroup)
	return &quotaGuard{
		send:   send,
		quotas: func() (map[types.UID]int64, error) { return podQuotas(folder) },
		probe:  func(quota int64) error { return probeQuota(folder, quota) },
		wake:   make(chan struct{}, 1), said: map[string]bool{}, ended: map[types.UID]bool{},
	}
}

// Send sends a status, a terminal one when Mesos can shrink our quota. Statuses of one task keep their order: nothing
// follows a terminal one.
func (g *quotaGuard) Send(update ledger.Update) {
	g.mu.Lock()
	hold := !g.off && ledger.IsTerminal(update.State)
	if hold {
		g.hold(update)
	} else if uid, _, err := messages.ParseTaskID(update.TaskID); err == nil {
		delete(g.ended, uid) // the next attempt lives
	}
	g.mu.Unlock()
	if !hold {
		g.send(update)
	}
}

// hold is called with the lock held.
func (g *quotaGuard) hold(update ledger.Update) {
	now := time.Now()
	g.held = append(g.held, held{update: update, since: now, told: now})
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Unsaid takes out of statuses that go along with a subscription the terminal ones that were never sent, and holds them
// back: the agent would act on them at once.
func (g *quotaGuard) Unsaid(updates []ledger.Update) []ledger.Update {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting, said := map[string]bool{}, map[string]bool{}
	for _, h := range g.held {
		waiting[string(h.update.UUID)] = true
	}
	var rest []ledger.Update
	for _, u := range updates {
		id := string(u.UUID)
		switch {
		case g.off || !ledger.IsTerminal(u.State):
			rest = append(rest, u)
		case g.said[id]:
			said[id] = true
			rest = append(rest, u)
		case !waiting[id]:
			g.hold(u)
		}
	}
	g.said = said
	return rest
}

// Run sends what is held back, each as soon as the kernel agrees, until ctx ends; cpus is the executor's own share. It first asks the agent whether there
// is anything to guard against; without an answer it is careful.
func (g *quotaGuard) Run(ctx context.Context, cpus float64, about func() (agentconn.About, error)) error {
	g.share = max(int64(cpus*float64(quotaPeriod.Microseconds())), leastQuota)
	agent, err := about()
	off := err == nil && !agent.CPUQuotas
	glog.Infof("guard cpu quota off=%t err=%v", off, err)
	g.mu.Lock()
	g.off = off
	g.mu.Unlock()
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		tick := ticker.C
		if g.release(time.Now()) == 0 {
			tick = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-g.wake:
		case <-tick:
		}
	}
}

// release sends what may be sent, in the order in which it came, and returns how much is still held back.
func (g *quotaGuard) release(now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) == 0 {
		return 0
	}
	if g.off {
		for _, h := range g.held {
			g.send(h.update)
		}
		g.held = nil
		return 0
	}
	quotas, err := g.quotas()
	if err != nil {
		glog.Warningf("read cpu quotas of pods err=%v", err)
	}
	for uid := range g.ended {
		if _, there := quotas[uid]; !there {
			delete(g.ended, uid)
		}
		delete(quotas, uid)
	}
	var waiting []held
	for _, h := range g.held {
		uid, _, _ := messages.ParseTaskID(h.update.TaskID) // a task of another form has no pod here
		if err := g.probe(g.atMost(quotas, uid)); err != nil {
			if now.Sub(h.told) >= heldTooLong {
				h.told = now
				glog.Warningf("hold status back task=%s since=%s reason=%q err=%v", h.update.TaskID, now.Sub(h.since),
					"the kernel would refuse the quota that Mesos sets next, and Mesos would destroy the container", err)
			}
			waiting = append(waiting, h)
			continue
		}
		glog.V(1).Infof("release status task=%s held=%s", h.update.TaskID, now.Sub(h.since))
		if _, there := quotas[uid]; there {
			g.ended[uid] = true
			delete(quotas, uid)
		}
		g.said[string(h.update.UUID)] = true
		g.send(h.update)
	}
	g.held = waiting
	return len(waiting)
}

// atMost is a quota in µs that Mesos will not go below when a pod has ended: that of the executor, or the largest of the
// pods that Mesos still counts, since the limit of each one's task is no less than its pod's quota.
func (g *quotaGuard) atMost(quotas map[types.UID]int64, ended types.UID) int64 {
	most := g.share
	for uid, quota := range quotas {
		if uid != ended {
			most = max(most, quota)
		}
	}
	return most
}

// probeQuota sets a quota in µs on a cgroup and takes it back at once. An error is the kernel's refusal; a container without
// the file has no quota to be shrunk.
func probeQuota(folder string, quota int64) error {
	file := filepath.Join(folder, cpuQuota)
	now, err := readInt(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if now != noQuota && now <= quota {
		return nil
	}
	if err := writeInt(file, quota); err != nil {
		return err
	}
	// Should Mesos have raised it in between, it will set it again at the status that follows.
	if err := writeInt(file, now); err != nil {
		glog.Warningf("give quota back err=%v", err)
	}
	return nil
}

// podQuotas are the CPU quotas in µs of the pods' cgroups by UID, those without one left out.
func podQuotas(folder string) (map[types.UID]int64, error) {
	quotas := map[types.UID]int64{}
	var errs []error
	for _, pattern := range []string{"kubepods/pod*", "kubepods/*/pod*"} {
		pods, err := filepath.Glob(filepath.Join(folder, pattern))
		errs = append(errs, err)
		for _, pod := range pods {
			quota, err := readInt(filepath.Join(pod, cpuQuota))
			switch {
			case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV):
				// It went meanwhile.
			case err != nil:
				errs = append(errs, err)
			case quota > 0:
				quotas[types.UID(strings.TrimPrefix(filepath.Base(pod), "pod"))] = quota
			}
		}
	}
	return quotas, errors.Join(errs...)
}

// mayLimitCPU tells whether pods may have CPU quotas of their own. Where Mesos gives our container one, each pod's must
// stay below it, which only limits of tasks see to; without them the kernel would refuse to start a pod whose limit is
// above its request.
func mayLimitCPU(cgroup string, about func() (agentconn.About, error)) bool {
	if agent, err := about(); err == nil {
		return !agent.CPUQuotas || agent.TaskLimits
	}
	quota, err := readInt(filepath.Join(cpuRoot, cgroup, cpuQuota))
	return errors.Is(err, fs.ErrNotExist) || err == nil && quota == noQuota
}

func readInt(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	return value, nil
}

// writeInt does one write: the kernel's verdict is its error.
func writeInt(path string, value int64) error {
	return os.WriteFile(path, []byte(strconv.FormatInt(value, 10)), 0)
}

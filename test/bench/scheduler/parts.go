package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/test/bench/figure"
)

// The targets of design section 8.
const (
	acceptsTarget, lastLaunchTarget  = 1, 1.0 // seconds
	failoverTarget, disturbedTarget  = 5.0, 0 // seconds, pods
	failoverGoal, lastLaunchGoal     = 2.0, 0.2
	offersPerPodTarget, offersGoal   = 2.0, 1.2
	startTarget, startGoal           = 30.0, 10.0 // seconds
	memoryTargetMB, memoryGoalMB     = 2000, 1000
	pendingPods, failoverPods, fresh = 100, 200, 20
)

// parts are what -part names.
var parts = map[string]func(context.Context, config) (good bool, err error){
	"pending": pending, "failover": failover, "offers": offersPerPod, "start": startWithTasks,
}

// on runs a part on a new cluster.
func on(ctx context.Context, work func(*cluster) error) (retErr error) {
	c, err := newCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, c.close()) }()
	return work(c)
}

// pending: one agent is full, 100 pods wait, and then it is free.
func pending(ctx context.Context, cfg config) (good bool, _ error) {
	cfg.nodes = 1
	return good, on(ctx, func(c *cluster) error {
		s := ours{cfg}
		if err := s.begin(ctx, c); err != nil {
			return err
		}
		if err := c.waitNodes(ctx, 1); err != nil {
			return err
		}
		blocker := sized("blocker", s.schedulerName(), strconv.Itoa(nodeCPUs))
		if err := c.create(ctx, blocker); err != nil {
			return err
		}
		if err := c.waitBound(ctx, "blocker", 1); err != nil {
			return err
		}
		for n := range pendingPods {
			if err := c.create(ctx, sized(fmt.Sprint("pending-", n), s.schedulerName(), "50m")); err != nil {
				return err
			}
		}
		waits := func(m map[string]float64) bool { return m[`mesopod_scheduler_pods{stage="waiting"}`] == pendingPods }
		if err := c.waitMetrics(ctx, waits); err != nil {
			return fmt.Errorf("pods wait: %w", err)
		}
		before, err := scrape(ctx)
		if err != nil {
			return err
		}
		freed := time.Now()
		if err := c.delete(ctx, blocker); err != nil {
			return err
		}
		if err := c.waitBound(ctx, "pending", pendingPods); err != nil {
			return err
		}
		after, err := scrape(ctx)
		if err != nil {
			return err
		}
		took, err := offerToLaunch(ctx, freed)
		if err != nil {
			return err
		}
		const accepts = "mesopod_scheduler_accept_tasks_count"
		good = figure.AtMost("pending-100-accepts", after[accepts]-before[accepts], "calls", acceptsTarget, 0)
		good = figure.AtMost("pending-100-offer-to-last-launch", took.Seconds(), "s", lastLaunchTarget, lastLaunchGoal) && good
		return nil
	})
}

// offerToLaunch is the time from the offer that the first launch since then is on to the last launch, as the scheduler's journal has it.
func offerToLaunch(ctx context.Context, since time.Time) (time.Duration, error) {
	accepts, err := journal(ctx, "Accept")
	if err != nil {
		return 0, err
	}
	offers, err := journal(ctx, "Offers")
	if err != nil {
		return 0, err
	}
	accepts = slices.DeleteFunc(accepts, func(t time.Time) bool { return t.Before(since) })
	if len(accepts) == 0 {
		return 0, errors.New("the journal tells of no launch")
	}
	first, last := accepts[len(accepts)-1], accepts[0]
	for _, offered := range offers {
		if !offered.After(first) {
			return last.Sub(offered), nil
		}
	}
	return 0, errors.New("the journal tells of no offer that pods were launched on")
}

// journal has the times of entries of a name in our scheduler's journal, the newest first.
func journal(ctx context.Context, name string) (times []time.Time, _ error) {
	data, err := fetch(ctx, "http://"+statusAddress+"/recent?format=json&limit=500&q="+name)
	if err != nil {
		return nil, err
	}
	var page struct {
		Entries []struct {
			Time time.Time `json:"time"`
			Name string    `json:"name"`
		} `json:"entries"`
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return nil, err
	}
	for _, e := range page.Entries {
		if e.Name == name {
			times = append(times, e.Time)
		}
	}
	return times, nil
}

// failover: the leader of two schedulers is killed. What is measured begins when its Lease is the other one's.
func failover(ctx context.Context, cfg config) (good bool, _ error) {
	return good, on(ctx, func(c *cluster) error {
		s := ours{cfg}
		if err := s.simulate(c, true); err != nil {
			return err
		}
		if err := s.schedule(c, "scheduler", statusAddress, "--leader-elect"); err != nil {
			return err
		}
		if err := c.waitNodes(ctx, cfg.nodes); err != nil {
			return err
		}
		leader := c.parts[len(c.parts)-1]
		if err := s.schedule(c, "standby", "127.0.0.1:15053", "--leader-elect"); err != nil {
			return err
		}
		if _, err := c.load(ctx, s, "basic", failoverPods); err != nil {
			return err
		}
		held, err := c.lease(ctx)
		if err != nil {
			return err
		}
		old := *held.Spec.HolderIdentity
		c.ended(leader)
		if err := leader.cmd.Process.Kill(); err != nil {
			return err
		}
		<-leader.ended
		killed := time.Now()
		for n := range fresh {
			if err := c.create(ctx, sized(fmt.Sprint("fresh-", n), s.schedulerName(), "50m")); err != nil {
				return err
			}
		}
		var taken time.Time
		if err := c.wait(ctx, func(ctx context.Context) error {
			now, err := c.lease(ctx)
			if err != nil {
				return err
			}
			if *now.Spec.HolderIdentity == old {
				return errors.New("nobody has taken the Lease over")
			}
			taken = now.Spec.AcquireTime.Time
			return nil
		}); err != nil {
			return err
		}
		if err := c.waitBound(ctx, "fresh", 1); err != nil {
			return err
		}
		launched := time.Now()
		if err := c.waitBound(ctx, "fresh", fresh); err != nil {
			return err
		}
		disturbed, err := c.disturbed(ctx, "basic", failoverPods)
		if err != nil {
			return err
		}
		figure.Show("failover-kill-to-lease", taken.Sub(killed).Seconds(), "s")
		good = figure.AtMost("failover-lease-to-first-launch", launched.Sub(taken).Seconds(), "s", failoverTarget, failoverGoal)
		good = figure.AtMost("failover-pods-disturbed", float64(disturbed), "pods", disturbedTarget, 0) && good
		return nil
	})
}

func (c *cluster) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := c.client.CoordinationV1().Leases("mesopod-system").Get(ctx, "mesopod-scheduler", metav1.GetOptions{})
	if err == nil && lease.Spec.HolderIdentity == nil {
		err = errors.New("nobody holds the Lease")
	}
	return lease, err
}

// disturbed is how many of the pods of a workload are not as they were: bound, alive and not being deleted.
func (c *cluster) disturbed(ctx context.Context, workload string, want int) (int, error) {
	list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "bench=" + workload})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed {
			want--
		}
	}
	return want, nil
}

// sized is a pod of a size; the part of its name before the last hyphen is its workload.
func sized(name, scheduler, cpus string) *corev1.Pod {
	p := pod("basic", scheduler, 0)
	workload := name
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		workload = name[:i]
	}
	p.Name, p.Labels["bench"] = name, workload
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return p
}

func (c *cluster) create(ctx context.Context, p *corev1.Pod) error {
	_, err := c.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
	return err
}

func (c *cluster) waitBound(ctx context.Context, workload string, want int) error {
	return c.waitEvery(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "bench=" + workload, ResourceVersion: "0"})
		if err != nil {
			return err
		}
		bound := 0
		for i := range list.Items {
			if list.Items[i].Spec.NodeName != "" {
				bound++
			}
		}
		if bound < want {
			return fmt.Errorf("%d of %d pods %s are bound", bound, want, workload)
		}
		return nil
	})
}

// scrapePause is what our scheduler is let alone between two looks at its metrics: each is one at all of its pods.
const scrapePause = 3 * time.Second

// waitMetrics waits until our scheduler's metrics are as wanted.
func (c *cluster) waitMetrics(ctx context.Context, wanted func(map[string]float64) bool) error {
	return c.waitEvery(ctx, scrapePause, func(ctx context.Context) error {
		m, err := scrape(ctx)
		if err == nil && !wanted(m) {
			err = errors.New("metrics do not say so")
		}
		return err
	})
}

// scrape reads our scheduler's metrics by their whole names.
func scrape(ctx context.Context) (map[string]float64, error) {
	data, err := fetch(ctx, "http://"+statusAddress+"/metrics")
	if err != nil {
		return nil, err
	}
	found := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, is := strings.Cut(lines.Text(), " ")
		if number, err := strconv.ParseFloat(value, 64); is && err == nil && !strings.HasPrefix(name, "#") {
			found[name] = number
		}
	}
	return found, lines.Err()
}

var peak = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peakMB is the most memory that a process has had, in MB (10^6 bytes).
func peakMB(p *program) (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		return 0, err
	}
	found := peak.FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%s tells no memory", p.name)
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	return kib * 1024 / 1e6, err
}

// sum adds up all series of a name, whatever their labels.
func sum(metrics map[string]float64, name string) (total float64) {
	for series, value := range metrics {
		if series == name || strings.HasPrefix(series, name+"{") {
			total += value
		}
	}
	return total
}

// ended takes a part out of those that must not end.
func (c *cluster) ended(p *program) {
	for i := range c.parts {
		if c.parts[i] == p {
			c.parts = append(c.parts[:i:i], c.parts[i+1:]...)
			return
		}
	}
}

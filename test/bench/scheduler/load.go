package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/mesopod/mesopod/test/bench/figure"
)

const (
	// creators is how many requests are under way while pods or nodes are made.
	creators = 32
	// limit is how long one step may take.
	limit     = 15 * time.Minute
	namespace = "default"
)

// sideNames are the names of the sides.
var sideNames = []string{ours{}.name(), peer{}.name(), peer{ourProfile: true}.name()}

var workloadNames = []string{"basic", "affinity", "spread", "churn"}

// pod of a workload.
func pod(workload, scheduler string, n int) *corev1.Pod {
	no := false
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", workload, n), Namespace: namespace, Labels: map[string]string{"bench": workload}},
		Spec: corev1.PodSpec{SchedulerName: scheduler, AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "x",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}}}}},
	}
	switch workload {
	case "affinity":
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux", "other"}}}}}}}}
	case "spread":
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}
	}
	return p
}

// measure runs all workloads of one side on a new cluster, and gives the share of the CPU that its simulator had, in percent.
func measure(ctx context.Context, cfg config, s side, results map[string]*outcome) (share float64, retErr error) {
	c, err := newCluster(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { retErr = errors.Join(retErr, c.close()) }()
	if err := s.begin(ctx, c); err != nil {
		return 0, err
	}
	if err := c.waitNodes(ctx, cfg.nodes); err != nil {
		return 0, err
	}
	// One pod, so that what is lazy is there.
	if _, err := c.load(ctx, s, "basic", 1); err != nil {
		return 0, err
	}
	cpu, err := c.cpu()
	if err != nil {
		return 0, err
	}
	for _, workload := range cfg.workloads {
		if err := c.clear(ctx, s); err != nil {
			return 0, fmt.Errorf("clear up before %s: %w", workload, err)
		}
		dir := cfg.profile
		if s.name() != (ours{}).name() {
			dir = ""
		}
		var m measured
		err := c.profiled(ctx, dir, workload, func() (err error) {
			m, err = c.load(ctx, s, workload, cfg.pods)
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("workload %s: %w", workload, err)
		}
		if results[workload] == nil {
			results[workload] = &outcome{}
		}
		o := results[workload]
		o.rate, o.p50, o.p99 = append(o.rate, m.rate), append(o.p50, m.p50), append(o.p99, m.p99)
		o.writes = append(o.writes, m.writes)
		fmt.Printf("# %s %s: %.0f pods/s, p50 %.2f s, p99 %.2f s, %.2f writes per pod\n", s.name(), workload, m.rate, m.p50, m.p99, m.writes)
	}
	after, err := c.cpu()
	total := 0.0
	for name := range after {
		total += after[name] - cpu[name]
	}
	for name := range after {
		fmt.Printf("# %s: %s had %.1f s of CPU, %.0f %%\n", s.name(), name, after[name]-cpu[name], 100*(after[name]-cpu[name])/total)
	}
	return 100 * (after["sim"] - cpu["sim"]) / total, err
}

// cpu is the CPU time of each process, in seconds.
func (c *cluster) cpu() (map[string]float64, error) {
	spent := map[string]float64{}
	var errs []error
	for _, p := range append(c.parts, c.plane) {
		d, err := figure.CPU(p.cmd.Process.Pid)
		spent[p.name] = d.Seconds()
		errs = append(errs, err)
	}
	return spent, errors.Join(errs...)
}

// wait polls until ask gives nil.
func (c *cluster) wait(ctx context.Context, ask func(context.Context) error) error {
	return c.waitEvery(ctx, 100*time.Millisecond, ask)
}

func (c *cluster) waitEvery(ctx context.Context, pause time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if err := c.check(); err != nil {
			return err
		}
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

func (c *cluster) waitNodes(ctx context.Context, want int) error {
	return c.wait(ctx, func(ctx context.Context) error {
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		ready := 0
		for i := range list.Items {
			for _, condition := range list.Items[i].Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready < want {
			return fmt.Errorf("%d of %d nodes are ready", ready, want)
		}
		return nil
	})
}

// clear deletes all pods and waits until nothing of them is left.
func (c *cluster) clear(ctx context.Context, s side) error {
	grace := int64(0)
	err := c.client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &grace}, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return c.wait(ctx, func(ctx context.Context) error {
		list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("pods are left")
		}
		return errors.Join(err, s.idle(ctx))
	})
}

// measured is one run of a workload.
type measured struct{ rate, p50, p99, writes float64 }

// load creates the pods and waits until all are bound.
func (c *cluster) load(ctx context.Context, s side, workload string, pods int) (measured, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	seen := c.boundPods(ctx, workload)
	before, err := c.writes(ctx)
	if err != nil {
		return measured{}, err
	}
	var mu sync.Mutex
	created := make(map[string]time.Time, pods)
	group, groupCtx := errgroup.WithContext(ctx)
	began := time.Now()
	group.Go(func() error {
		var makers errgroup.Group
		makers.SetLimit(creators)
		for n := range pods {
			makers.Go(func() error {
				one := pod(workload, s.schedulerName(), n)
				mu.Lock()
				created[one.Name] = time.Now()
				mu.Unlock()
				_, err := c.client.CoreV1().Pods(namespace).Create(groupCtx, one, metav1.CreateOptions{})
				return err
			})
		}
		return makers.Wait()
	})
	bound := make(map[string]time.Time, pods)
	deleted := 0
	for len(bound) < pods {
		select {
		case one := <-seen:
			p := one.pod
			if !bound[p.Name].IsZero() {
				continue
			}
			bound[p.Name] = one.at
			if workload == "churn" && len(bound)%2 == 0 {
				deleted++
				group.Go(func() error { return c.delete(groupCtx, p) })
			}
		case <-ctx.Done():
			return measured{}, fmt.Errorf("%d of %d pods are bound: %w", len(bound), pods, ctx.Err())
		case <-time.After(20 * time.Second):
			if err := c.check(); err != nil {
				return measured{}, err
			}
			fmt.Printf("# %d of %d pods are bound, and no more since 20 s\n", len(bound), pods)
		}
	}
	took := time.Since(began)
	if err := group.Wait(); err != nil {
		return measured{}, err
	}
	after, err := c.writes(ctx)
	if err != nil {
		return measured{}, err
	}
	var waits []float64
	for name, at := range bound {
		waits = append(waits, at.Sub(created[name]).Seconds())
	}
	// The creations and deletions are the bench's own.
	return measured{rate: float64(pods) / took.Seconds(), p50: figure.Quantile(waits, 0.5), p99: figure.Quantile(waits, 0.99),
		writes: (after - before - float64(pods+deleted)) / float64(pods)}, nil
}

// seen is a pod that was seen bound.
type seen struct {
	pod *corev1.Pod
	at  time.Time
}

// boundPods tells of the workload's pods that have a node, until ctx ends; of one perhaps several times.
func (c *cluster) boundPods(ctx context.Context, workload string) <-chan seen {
	found := make(chan seen, 1<<16)
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "bench=" + workload }))
	tell := func(object any) {
		if p, is := object.(*corev1.Pod); is && p.Spec.NodeName != "" {
			select {
			case found <- seen{p, time.Now()}:
			case <-ctx.Done():
			}
		}
	}
	informer := factory.Core().V1().Pods().Informer()
	// It fails only for an informer that has stopped.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, object any) { tell(object) }})
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	return found
}

func (c *cluster) delete(ctx context.Context, p *corev1.Pod) error {
	grace := int64(0)
	return c.client.CoreV1().Pods(namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
}

var writeMetric = regexp.MustCompile(`^apiserver_request_total\{code="2..".*resource="(pods|events)".*verb="(POST|PUT|PATCH|DELETE)".*\} ([0-9.e+]+)$`)

// writes is how often pods and events were written so far, by anybody, with success.
func (c *cluster) writes(ctx context.Context) (sum float64, err error) {
	text, err := c.client.CoreV1().RESTClient().(*rest.RESTClient).Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if found := writeMetric.FindStringSubmatch(lines.Text()); found != nil {
			value, err := strconv.ParseFloat(found[3], 64)
			if err != nil {
				return 0, err
			}
			sum += value
		}
	}
	return sum, lines.Err()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/mesopod/mesopod/test/bench/figure"
	"github.com/mesopod/mesopod/test/cluster"
)

const (
	services, endpoints = 1000, 5
	changes             = 20 // one by one, in each round
	ruleTarget          = 1.1
	// settle is how long a side is left alone before its memory is read.
	settle = 8 * time.Second
)

// proxied is one side: a process that keeps rules for Services.
type proxied interface {
	name() string
	// fresh starts its process anew, and returns when it has written all rules once.
	fresh(ctx context.Context) error
	// pids are the processes whose memory counts.
	pids() ([]int, error)
	// synced tells of the times that it wrote rules: all of them, and those that had changed.
	synced(ctx context.Context) (all, changed syncs, err error)
	// hold keeps it from doing anything until release.
	hold() error
	release() error
}

// syncs are how often rules were written, and how long it took in all, s.
type syncs struct{ count, sum float64 }

// cost is what was measured of one side, a value for each round.
type cost struct {
	empty, full, anonymousEmpty, anonymousFull []float64 // MB
	all, changed                               []float64 // ms
}

// rules compares the executor's part of kube-proxy with the whole.
func rules(ctx context.Context, program string, rounds int) (good bool, retErr error) {
	c := cluster.New(cluster.Options{Name: "bench", Agents: 2, Quiet: true})
	if err := c.Start(); err != nil {
		return false, err
	}
	defer func() { retErr = errors.Join(retErr, c.Stop()) }()
	us := &executor{cluster: c}
	if err := us.begin(ctx); err != nil {
		return false, err
	}
	them := &kubeProxy{cluster: c, program: program}
	defer func() { retErr = errors.Join(retErr, them.end()) }()
	costs := map[string]*cost{us.name(): {}, them.name(): {}}
	sides := []proxied{us, them}
	for range rounds {
		for _, side := range sides {
			one := costs[side.name()]
			if err := measureMemory(ctx, side, &one.empty, &one.anonymousEmpty); err != nil {
				return false, fmt.Errorf("%s: %w", side.name(), err)
			}
		}
	}
	slices, err := makeServices(ctx, c.Client)
	if err != nil {
		return false, err
	}
	for round := range rounds {
		for i, side := range sides {
			if err := measureRules(ctx, c.Client, side, sides[1-i], slices, costs[side.name()]); err != nil {
				return false, fmt.Errorf("%s: %w", side.name(), err)
			}
		}
		fmt.Printf("# round %d of %d\n", round+1, rounds)
	}
	return compareRules(costs[us.name()], costs[them.name()]), nil
}

func compareRules(us, them *cost) bool {
	good := true
	ratio := func(what, unit string, ours, theirs []float64) {
		a, b := figure.Spread("executor-"+what, ours, unit), figure.Spread("kube-proxy-"+what, theirs, unit)
		good = figure.AtMost("rules-"+what+"-ratio", a/b, "x", ruleTarget, 0) && good
	}
	ratio("all-rules-written", "ms", us.all, them.all)
	ratio("changed-rules-written", "ms", us.changed, them.changed)
	growth := func(c *cost, side string) float64 {
		before, after := figure.Spread(side+"-rss-without-services", c.empty, "MB"), figure.Spread(side+"-rss-with-services", c.full, "MB")
		figure.Show(side+"-anonymous-growth", figure.Quantile(c.anonymousFull, 0.5)-figure.Quantile(c.anonymousEmpty, 0.5), "MB")
		return after - before
	}
	ours, theirs := growth(us, "executor"), growth(them, "kube-proxy")
	figure.Show("executor-rss-growth", ours, "MB")
	figure.Show("kube-proxy-rss-growth", theirs, "MB")
	return figure.AtMost("rules-memory-growth-ratio", ours/theirs, "x", ruleTarget, 0) && good
}

func measureMemory(ctx context.Context, side proxied, rss, anonymous *[]float64) error {
	if err := side.fresh(ctx); err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	pids, err := side.pids()
	if err != nil {
		return err
	}
	var sum figure.Memory
	for _, pid := range pids {
		one, err := figure.MemoryOf(pid)
		if err != nil {
			return err
		}
		sum.Rss += one.Rss
		sum.Anonymous += one.Anonymous
	}
	*rss, *anonymous = append(*rss, sum.Rss), append(*anonymous, sum.Anonymous)
	return nil
}

// measureRules starts a side among all Services, then changes one after the other, while the other side holds still.
func measureRules(ctx context.Context, client kubernetes.Interface, side, other proxied, slices []*discoveryv1.EndpointSlice, into *cost) (retErr error) {
	if err := measureMemory(ctx, side, &into.full, &into.anonymousFull); err != nil {
		return err
	}
	all, before, err := side.synced(ctx)
	if err != nil {
		return err
	}
	into.all = append(into.all, all.sum/all.count*1000)
	if err := other.hold(); err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, other.release()) }()
	last := before
	for i := range changes {
		slice := slices[i]
		// An address that it has not had.
		address := slice.Endpoints[0].Addresses[0]
		slice.Endpoints[0].Addresses[0] = map[bool]string{true: "10.201.", false: "10.200."}[address[:7] == "10.200."] + address[7:]
		if slices[i], err = client.DiscoveryV1().EndpointSlices(cluster.Namespace).Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
			return err
		}
		limit, cancel := context.WithTimeout(ctx, cluster.Limit)
		err := cluster.Poll(limit, func(ctx context.Context) error {
			_, now, err := side.synced(ctx)
			if err == nil && now.count == last.count {
				err = fmt.Errorf("no rules written since %v", now)
			}
			if err == nil {
				last = now
			}
			return err
		})
		cancel()
		if err != nil {
			return err
		}
	}
	into.changed = append(into.changed, (last.sum-before.sum)/(last.count-before.count)*1000)
	return nil
}

// makeServices makes Services and endpoints that nobody is behind.
func makeServices(ctx context.Context, client kubernetes.Interface) ([]*discoveryv1.EndpointSlice, error) {
	made := make([]*discoveryv1.EndpointSlice, services)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(10)
	for i := range services {
		group.Go(func() error {
			name := fmt.Sprintf("bench-%d", i)
			_, err := client.CoreV1().Services(cluster.Namespace).Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
			}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			slice := &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
				AddressType: discoveryv1.AddressTypeIPv4,
				Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
			}
			for n := range endpoints {
				number := i*endpoints + n
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
					Addresses: []string{fmt.Sprintf("10.200.%d.%d", number/250, number%250+1)}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
				})
			}
			made[i], err = client.DiscoveryV1().EndpointSlices(cluster.Namespace).Create(ctx, slice, metav1.CreateOptions{})
			return err
		})
	}
	return made, group.Wait()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

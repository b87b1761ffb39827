package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/mesopod/mesopod/test/bench/figure"
	"github.com/mesopod/mesopod/test/cluster"
)

// bench makes pods and looks at processes.
type bench struct {
	client typed.PodInterface
	made   int // pods so far: names differ
	// profile is where CPU profiles at idle go, with a side's name at the end; "" for none.
	profile string
}

const (
	label      = "bench"
	oneByOne   = 20 // launches one after another, of which each waits for the one before
	atOnce     = 10 // creates and deletes under way
	batchLimit = 10 * time.Minute
)

// idleSeconds is idle for a profile.
var idleSeconds = strconv.Itoa(int(idle.Seconds()))

// measure is one round of one side.
func (b *bench) measure(ctx context.Context, s side, r *result) error {
	if err := s.fresh(ctx); err != nil {
		return err
	}
	if r.rss == nil {
		r.rss, r.pss, r.anonymous = map[int][]float64{}, map[int][]float64{}, map[int][]float64{}
	}
	running := 0
	for _, pods := range []int{0, 10, 50} {
		if _, err := b.start(ctx, s, pods-running); err != nil {
			return err
		}
		running = pods
		if err := b.memory(ctx, s, r, pods); err != nil {
			return err
		}
	}
	cpu, err := idleCPU(ctx, s)
	if err != nil {
		return err
	}
	r.cpu = append(r.cpu, cpu)
	if b.profile != "" {
		data, err := s.profile(ctx)
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		if err := os.WriteFile(b.profile+"."+s.name(), data, 0o600); err != nil {
			return err
		}
	}
	if err := b.clear(ctx, s); err != nil {
		return err
	}
	burst := func() error {
		took, err := b.start(ctx, s, many)
		if err != nil {
			return err
		}
		r.burst = append(r.burst, took.Seconds())
		fmt.Printf("# %d pods took %.1f s\n", many, took.Seconds())
		return nil
	}
	if o, ok := s.(*ours); ok {
		alone, together, err := b.feeds(ctx, o, burst)
		if err != nil {
			return err
		}
		r.feedAlone, r.feedTogether = append(r.feedAlone, alone*1000), append(r.feedTogether, together*1000)
	} else if err := burst(); err != nil {
		return err
	}
	if err := b.memory(ctx, s, r, many); err != nil {
		return err
	}
	return b.clear(ctx, s)
}

func (b *bench) memory(ctx context.Context, s side, r *result, pods int) error {
	if err := pause(ctx, settle); err != nil {
		return err
	}
	pids, err := s.processes()
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
		sum.Pss += one.Pss
		sum.Anonymous += one.Anonymous
	}
	fmt.Printf("# %d pods: %.1f MB Rss, %.1f MB Pss, %.1f MB anonymous in %d processes\n", pods, sum.Rss, sum.Pss, sum.Anonymous, len(pids))
	r.rss[pods], r.pss[pods] = append(r.rss[pods], sum.Rss), append(r.pss[pods], sum.Pss)
	r.anonymous[pods] = append(r.anonymous[pods], sum.Anonymous)
	return nil
}

// idleCPU is what a node with pods that do nothing uses, in thousandths of a core.
func idleCPU(ctx context.Context, s side) (float64, error) {
	total := func() (time.Duration, error) {
		pids, err := s.processes()
		var sum time.Duration
		for _, pid := range pids {
			one, err := figure.CPU(pid)
			if err != nil {
				return 0, err
			}
			sum += one
		}
		return sum, err
	}
	before, err := total()
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, idle); err != nil {
		return 0, err
	}
	after, err := total()
	return (after - before).Seconds() / idle.Seconds() * 1000, err
}

// start makes pods and waits until all of them run. It returns the time from the first create to the event that shows
// the last one Running.
func (b *bench) start(ctx context.Context, s side, pods int) (time.Duration, error) {
	if pods <= 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, batchLimit)
	defer cancel()
	watch, err := b.client.Watch(ctx, metav1.ListOptions{LabelSelector: label + "=" + s.name()})
	if err != nil {
		return 0, err
	}
	defer watch.Stop()
	waiting := map[string]bool{}
	var names []string
	for range pods {
		b.made++
		name := fmt.Sprintf("%s-%d", s.name(), b.made)
		waiting[name] = true
		names = append(names, name)
	}
	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range names {
		group.Go(func() error {
			pod := idlePod(name, s.name())
			s.place(pod)
			_, err := b.client.Create(groupCtx, pod, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	for event := range watch.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return 0, fmt.Errorf("watch of pods: %v", event.Object)
		}
		if pod.Status.Phase == corev1.PodFailed {
			return 0, fmt.Errorf("pod %s failed: %s: %s", pod.Name, pod.Status.Reason, pod.Status.Message)
		}
		if pod.Status.Phase == corev1.PodRunning {
			delete(waiting, pod.Name)
		}
		if len(waiting) == 0 {
			return time.Since(began), nil
		}
	}
	return 0, errors.Join(ctx.Err(), fmt.Errorf("%d of %d pods do not run", len(waiting), pods))
}

// clear deletes a side's pods and waits until they are gone.
func (b *bench) clear(ctx context.Context, s side) error {
	ctx, cancel := context.WithTimeout(ctx, batchLimit)
	defer cancel()
	options := metav1.ListOptions{LabelSelector: label + "=" + s.name()}
	if err := b.client.DeleteCollection(ctx, metav1.DeleteOptions{}, options); err != nil {
		return err
	}
	return cluster.Poll(ctx, func(ctx context.Context) error {
		list, err := b.client.List(ctx, options)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(list.Items))
		}
		return err
	})
}

func idlePod(name, side string) *corev1.Pod {
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: side}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name: "idle", Image: "mesopod.local/pause:1", ImagePullPolicy: corev1.PullIfNotPresent,
				Resources: corev1.ResourceRequirements{Requests: cluster.Requests("10m", "16Mi")},
			}},
		},
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

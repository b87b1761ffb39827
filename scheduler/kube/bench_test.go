package kube

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/scheduler/offers"
)

const (
	benchNodes   = 1000
	benchPods    = 1000
	benchChanges = 2000 // of offers, a second
)

// benchScheduler runs a scheduler on nodes with little on offer and on pods that want more.
func benchScheduler(b *testing.B, open bool) (*Scheduler, <-chan core.Event) {
	b.Helper()
	client := fake.NewClientset()
	views := map[string]*offers.View{}
	for i := range benchNodes {
		node := newNode(fmt.Sprint("n", i))
		views[node.Name] = view(node.Name, 1000)
		if _, err := client.CoreV1().Nodes().Create(b.Context(), node, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	events := make(chan core.Event, 4*benchPods)
	s, err := New(Config{Client: client, SchedulerNames: []string{"mesos"}}, Deps{Post: func(e core.Event) { events <- e }})
	if err != nil {
		b.Fatal(err)
	}
	s.Deliver(core.GateChanged{Open: open})
	s.Deliver(core.PoolChanged{Views: views})
	for i := range benchPods {
		pod := newPod(fmt.Sprint("p", i), "mesos", "2")
		pod.UID = types.UID(fmt.Sprint("uid-", i))
		if _, err := client.CoreV1().Pods("default").Create(b.Context(), pod, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() { cancel(); running.Wait() })
	return s, events
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkOffersWhilePodsWait: each round is one second of 2,000 changes of offers, none of which helps any of the 1,000
// pods that wait. What counts is the share of a core.
func BenchmarkOffersWhilePodsWait(b *testing.B) {
	s, events := benchScheduler(b, true)
	for waiting := 0; waiting < benchPods; {
		if _, is := (<-events).(core.Waiting); is {
			waiting++
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	<-time.After(2 * time.Second) // events and conditions of the pods are being written
	before, start := cpuTime(), time.Now()
	n := 0
	for b.Loop() {
		for range 100 {
			<-tick.C
			for range benchChanges / 100 {
				n++
				node := fmt.Sprint("n", n%benchNodes)
				s.Deliver(core.PoolChanged{Views: map[string]*offers.View{node: view(node, int64(900+n%100))}})
			}
		}
	}
	b.ReportMetric(100*float64(cpuTime()-before)/float64(time.Since(start)), "%core")
	b.ReportMetric(float64(n)/time.Since(start).Seconds(), "changes/s")
}

// BenchmarkGateOpens: 1,000 pods are let go at once; the time until the queue has taken them.
func BenchmarkGateOpens(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s, events := benchScheduler(b, false)
		for stopped := 0; stopped < benchPods; {
			<-time.After(10 * time.Millisecond)
			s.gate.mu.Lock()
			stopped = len(s.gate.stopped)
			s.gate.mu.Unlock()
		}
		b.StartTimer()
		s.Deliver(core.GateChanged{Open: true})
		<-events // the first of them has been through a cycle, after all are queued
	}
}

// BenchmarkGateClosed is what a held pod costs each time that it is looked at.
func BenchmarkGateClosed(b *testing.B) {
	g := newGate()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	for b.Loop() {
		if g.stop(pod) == "" {
			b.Fatal("the gate is open")
		}
	}
}

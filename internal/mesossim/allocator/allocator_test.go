package allocator

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mesopod/mesopod/internal/mesossim/resources"
)

var start = time.Unix(1000, 0)

func bag(t *testing.T, text string) resources.Bag {
	t.Helper()
	b, err := resources.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fresh() *Allocator { return New(Config{Interval: time.Second, MinCPUs: 10, MinMem: 32_000}) }

func show(grants []Grant) string {
	var lines []string
	for _, g := range grants {
		lines = append(lines, fmt.Sprintf("%s/%s@%s=%s", g.Framework, g.Role, g.Agent, g.Resources))
	}
	return strings.Join(lines, " ")
}

func want(t *testing.T, grants []Grant, text string) {
	t.Helper()
	if got := show(grants); got != text {
		t.Errorf("granted %q, want %q", got, text)
	}
}

// TestFairness: the role with the least dominant share is next.
func TestFairness(t *testing.T) {
	a := fresh()
	a.SetFramework("A", Framework{Roles: []string{"a"}})
	a.SetFramework("B", Framework{Roles: []string{"b"}})
	a.SetAgent("1", Agent{Total: bag(t, "cpus:4;mem:4000")})
	a.SetAgent("2", Agent{Total: bag(t, "cpus:2;mem:1000")})
	a.SetAgent("3", Agent{Total: bag(t, "cpus:1;mem:1000")})
	want(t, a.Allocate(start), "A/a@1=cpus:4;mem:4000 B/b@2=cpus:2;mem:1000 B/b@3=cpus:1;mem:1000")
}

// TestTree: a branch is served by what all of it has, with its weight, and a role that has roles below it counts among them.
func TestTree(t *testing.T) {
	for _, c := range []struct {
		name    string
		have    map[string]string
		weights map[string]float64
		want    string
	}{
		{"nobody has anything", nil, nil, "a a/x a/y b"},
		{"what x has counts against y", map[string]string{"a/x": "cpus:1"}, nil, "b a a/y a/x"},
		{"and against a itself", map[string]string{"a": "cpus:1", "a/y": "cpus:2"}, nil, "b a/x a a/y"},
		{"b has more", map[string]string{"a/x": "cpus:1", "b": "cpus:2"}, nil, "a a/y a/x b"},
		{"a is worth three", map[string]string{"a/x": "cpus:2", "b": "cpus:1"}, map[string]float64{"a": 3}, "a a/y a/x b"},
		{"in its branch y is worth three", map[string]string{"a/x": "cpus:1", "a/y": "cpus:2", "a": "cpus:4"}, map[string]float64{"a/y": 3}, "b a/y a/x a"},
	} {
		a := fresh()
		a.SetAgent("1", Agent{Total: bag(t, "cpus:10;mem:4000")})
		a.SetFramework("F", Framework{Roles: []string{"a", "a/x", "a/y", "b"}})
		for role, weight := range c.weights {
			a.SetWeight(role, weight)
		}
		for role, have := range c.have {
			a.Take(Grant{"F", role, "1", bag(t, have)})
		}
		if got := strings.Join(a.sorted(a.interested()), " "); got != c.want {
			t.Errorf("%s: served %q, want %q", c.name, got, c.want)
		}
	}
}

// TestQuotaOfReservations: what is reserved for a role counts for its quota, used or not; what nested roles have counts too,
// though no limit of an ancestor holds them.
func TestQuotaOfReservations(t *testing.T) {
	a := fresh()
	a.SetFramework("A", Framework{Roles: []string{"a"}})
	a.SetQuota("a", Quota{Limits: map[string]int64{"cpus": 3000}})
	a.SetAgent("1", Agent{Total: bag(t, "cpus:4;cpus(a):1;mem:100")})
	want(t, a.Allocate(start), "A/a@1=cpus:2;cpus(a):1;mem:100")
	a.SetAgent("2", Agent{Total: bag(t, "cpus:4;mem:100")})
	want(t, a.Allocate(start, "2"), "A/a@2=mem:100")
	a.SetFramework("N", Framework{Roles: []string{"a/n"}})
	want(t, a.Allocate(start, "2"), "N/a/n@2=cpus:4")
	if got := a.consumed("a", "cpus"); got != 7000 {
		t.Errorf("consumed %d thousandths, want 7000", got)
	}
}

// TestFilters: a decline keeps exactly that away, for its time and no less than an interval, until a revive (row 80, 82).
func TestFilters(t *testing.T) {
	a := fresh()
	a.SetFramework("A", Framework{Roles: []string{"*"}})
	a.SetAgent("1", Agent{Total: bag(t, "cpus:4;mem:4000")})
	grants := a.Allocate(start)
	a.Recover(start, grants[0], 10*time.Second)
	want(t, a.Allocate(start.Add(9*time.Second)), "")
	grants = a.Allocate(start.Add(10 * time.Second))
	want(t, grants, "A/*@1=cpus:4;mem:4000")
	a.Recover(start, grants[0], time.Hour)
	a.SetAgent("1", Agent{Total: bag(t, "cpus:5;mem:4000")})
	want(t, a.Allocate(start), "A/*@1=cpus:5;mem:4000")
	a.Recover(start, Grant{"A", "*", "1", bag(t, "cpus:5;mem:4000")}, time.Hour)
	a.Revive("A", nil)
	grants = a.Allocate(start)
	want(t, grants, "A/*@1=cpus:5;mem:4000")
	a.Suppress("A", nil)
	a.Recover(start, grants[0], 0)
	want(t, a.Allocate(start.Add(time.Hour)), "")
	a.Revive("A", []string{"*"})
	want(t, a.Allocate(start), "A/*@1=cpus:5;mem:4000")
}

// TestWhoMay: reservations, refinement, GPUs, regions and revocable resources reach only who may have them (row 100).
func TestWhoMay(t *testing.T) {
	for _, c := range []struct {
		name      string
		framework Framework
		agent     Agent
		want      string
	}{
		{"reserved for another", Framework{Roles: []string{"a"}}, Agent{Total: bag(t, "cpus(b):1;mem:50")}, "F/a@1=mem:50"},
		{"reserved for us", Framework{Roles: []string{"b"}}, Agent{Total: bag(t, "cpus(b):1;mem:50")}, "F/b@1=cpus(b):1;mem:50"},
		{"reserved for our ancestor", Framework{Roles: []string{"b/c"}}, Agent{Total: bag(t, "cpus(b):1")}, "F/b/c@1=cpus(b):1"},
		{"gpus", Framework{Roles: []string{"*"}}, Agent{Total: bag(t, "cpus:1;gpus:1")}, ""},
		{"gpus with the capability", Framework{Roles: []string{"*"}, GPUs: true}, Agent{Total: bag(t, "cpus:1;gpus:1")}, "F/*@1=cpus:1;gpus:1"},
		{"other region", Framework{Roles: []string{"*"}}, Agent{Total: bag(t, "cpus:1"), Remote: true}, ""},
		{"too little", Framework{Roles: []string{"*"}}, Agent{Total: bag(t, "cpus:0.009;mem:31")}, ""},
	} {
		a := fresh()
		a.SetFramework("F", c.framework)
		a.SetAgent("1", c.agent)
		if got := show(a.Allocate(start)); got != c.want {
			t.Errorf("%s: granted %q, want %q", c.name, got, c.want)
		}
	}
}

// TestQuota: a limit holds, a guarantee is served first and kept free for.
func TestQuota(t *testing.T) {
	a := fresh()
	a.SetFramework("A", Framework{Roles: []string{"a"}})
	a.SetQuota("a", Quota{Limits: map[string]int64{"cpus": 1000}})
	a.SetAgent("1", Agent{Total: bag(t, "cpus:4;mem:100")})
	want(t, a.Allocate(start), "A/a@1=cpus:1;mem:100")

	a = fresh()
	a.SetFramework("A", Framework{Roles: []string{"a"}})
	a.SetQuota("b", Quota{Guarantees: map[string]int64{"cpus": 3000}})
	a.SetAgent("1", Agent{Total: bag(t, "cpus:4")})
	want(t, a.Allocate(start), "A/a@1=cpus:1")
}

// TestNothingIsLost: whatever is granted, refused, suppressed and revived, free and allocated make the total.
func TestNothingIsLost(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	a := fresh()
	total := bag(t, "cpus:4;mem:4000;cpus(x):1;ports:[1-100]")
	var held []Grant
	for n := range 6 {
		a.SetAgent(fmt.Sprint(n), Agent{Total: total})
	}
	for _, id := range []string{"A", "B", "C"} {
		a.SetFramework(id, Framework{Roles: []string{"*", "x"}})
	}
	now := start
	for range 2000 {
		now = now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
		switch id := []string{"A", "B", "C"}[r.IntN(3)]; r.IntN(5) {
		case 0, 1:
			held = append(held, a.Allocate(now)...)
		case 2:
			if len(held) > 0 {
				n := r.IntN(len(held))
				a.Recover(now, held[n], time.Duration(r.IntN(10))*time.Second)
				held = append(held[:n], held[n+1:]...)
			}
		case 3:
			a.Suppress(id, nil)
		case 4:
			a.Revive(id, nil)
		}
		for id, one := range a.agents {
			sum := one.free
			for _, g := range held {
				if g.Agent == id {
					sum = sum.Plus(g.Resources)
				}
			}
			if !sum.Equal(total) {
				t.Fatalf("agent %s: free and held make %s, want %s", id, sum, total)
			}
		}
	}
}

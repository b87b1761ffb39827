package resources

import (
	"math/rand/v2"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

func parse(t *testing.T, text string) Bag {
	t.Helper()
	b, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSums(t *testing.T) {
	for _, c := range []struct{ a, b, sum, rest string }{
		{"cpus:1", "cpus:0.1", "cpus:1.1", "cpus:0.9"},
		{"cpus:1;mem:10", "mem:10", "cpus:1;mem:20", "cpus:1"},
		{"ports:[1-10]", "ports:[4-6]", "ports:[1-10]", "ports:[1-3,7-10]"},
		{"ports:[1-3]", "ports:[4-6]", "ports:[1-6]", "ports:[1-3]"},
		{"cpus:1", "cpus(web):1", "cpus:1;cpus(web):1", "cpus:1"},
		{"zones:{a,b}", "zones:{b,c}", "zones:{a,b,c}", "zones:{a}"},
	} {
		a, b := parse(t, c.a), parse(t, c.b)
		if got := a.Plus(b).String(); got != c.sum {
			t.Errorf("%s + %s = %s, want %s", c.a, c.b, got, c.sum)
		}
		if got := a.Minus(b).String(); got != c.rest {
			t.Errorf("%s - %s = %s, want %s", c.a, c.b, got, c.rest)
		}
	}
}

// TestLaws: what is added can be taken away again, in any order, and nothing else changes.
func TestLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func() Bag {
		var b Bag
		for range r.IntN(4) {
			text := []string{"cpus:2.5", "mem:100", "cpus(a):1", "mem(b):3", "disk:7"}[r.IntN(5)]
			b = b.Plus(parse(t, text))
		}
		return b
	}
	for range 500 {
		a, b := random(), random()
		if sum := a.Plus(b); !sum.Equal(b.Plus(a)) || !sum.Minus(b).Equal(a) || !sum.Contains(a) || !sum.Contains(b) {
			t.Fatalf("a=%s b=%s a+b=%s a+b-b=%s", a, b, sum, sum.Minus(b))
		}
		if a.Contains(b) != b.Minus(a).Equal(nil) {
			t.Fatalf("a=%s contains b=%s: %v, b-a=%s", a, b, a.Contains(b), b.Minus(a))
		}
	}
}

// TestNotations: both notations of one reservation are the same resource, and each is written as the framework wants it.
func TestNotations(t *testing.T) {
	role, principal := "web", "p"
	older := mesos.Resource{Name: "cpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 1}, Role: &role,
		Reservation: &mesos.Resource_ReservationInfo{Principal: &principal}}
	newer := older
	newer.Role, newer.Reservation = nil, nil
	newer.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_DYNAMIC.Enum(), Role: &role, Principal: &principal}}
	a, b := Must([]mesos.Resource{older}), Must([]mesos.Resource{newer})
	if !a.Equal(b) {
		t.Errorf("%v differs from %v", a, b)
	}
	if got := b.Proto(Notation{}); !got[0].Equal(older) {
		t.Errorf("older notation: %v", got[0])
	}
	if got := a.Proto(Notation{Refined: true}); !got[0].Equal(newer) {
		t.Errorf("newer notation: %v", got[0])
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{"cpus", "cpus:x", "ports:[5-1]", "cpus:-1", "cpus:NaN", "ports:[a-b]"} {
		if b, err := Parse(text); err == nil {
			t.Errorf("%q is read as %s", text, b)
		}
	}
}

func TestAttributes(t *testing.T) {
	list, err := Attributes("rack:r1;cores:8;ids:[1-3]")
	if err != nil || len(list) != 3 || list[0].Text.Value != "r1" || list[1].Scalar.Value != 8 || list[2].Ranges.Range[0].End != 3 {
		t.Errorf("%v %v", list, err)
	}
	if _, err := Attributes("rack"); err == nil {
		t.Error("rack is no attribute")
	}
}

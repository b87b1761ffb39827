package offers_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/scheduler/offers"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func scalar(name string, v float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: v}}
}

func offer(id, agent string, resources ...mesos.Resource) *mesos.Offer {
	return &mesos.Offer{ID: mesos.OfferID{Value: id}, AgentID: mesos.AgentID{Value: agent}, Resources: resources}
}

// TestPlain: only what any pod may take counts, and Mesos' three decimals add up.
func TestPlain(t *testing.T) {
	role, star := "prod", "*"
	reserved := scalar("cpus", 8)
	reserved.Role = &role
	refined := scalar("cpus", 8)
	refined.Reservations = []mesos.Resource_ReservationInfo{{Role: &role}}
	revocable := scalar("mem", 8)
	revocable.Revocable = &mesos.Resource_RevocableInfo{}
	volume := scalar("disk", 8)
	volume.Disk = &mesos.Resource_DiskInfo{}
	plain := scalar("cpus", 0.1)
	plain.Role = &star
	ports := mesos.Resource{Name: "ports", Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 5, End: 7}, {Begin: 1, End: 3}, {Begin: 4, End: 4}, {Begin: 20, End: 21}}}}
	amounts, got := offers.Plain([]mesos.Resource{reserved, refined, revocable, volume, plain, scalar("cpus", 0.2), scalar("mem", 100.9), scalar("disk", -1), scalar("gpus", 1), ports})
	if diff := cmp.Diff(offers.Amounts{CPUs: 300, MemMB: 100}, amounts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(offers.Ports{{Begin: 1, End: 7}, {Begin: 20, End: 21}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPorts(t *testing.T) {
	ports := offers.Ports{{Begin: 10, End: 12}, {Begin: 20, End: 20}}
	for _, test := range []struct {
		take offers.PortSet
		has  bool
		left offers.Ports
	}{
		{offers.NewPortSet(), true, ports},
		{offers.NewPortSet(11), true, offers.Ports{{Begin: 10, End: 10}, {Begin: 12, End: 12}, {Begin: 20, End: 20}}},
		{offers.NewPortSet(12, 10, 12), true, offers.Ports{{Begin: 11, End: 11}, {Begin: 20, End: 20}}},
		{offers.NewPortSet(20), true, offers.Ports{{Begin: 10, End: 12}}},
		{offers.NewPortSet(20, 13), false, offers.Ports{{Begin: 10, End: 12}}},
	} {
		if got := ports.Has(test.take); got != test.has {
			t.Errorf("has %v: %t", test.take.All(), got)
		}
		if diff := cmp.Diff(test.left, ports.Without(test.take)); diff != "" {
			t.Errorf("without %v: %s", test.take.All(), diff)
		}
	}
}

func TestView(t *testing.T) {
	pool := offers.NewPool(offers.Amounts{CPUs: 500, MemMB: 256})
	pool.Add(offer("o1", "A1", scalar("cpus", 2), scalar("mem", 1024)), start)
	if pool.View("A1") != nil {
		t.Errorf("an agent without a node is shown")
	}
	pool.Show("A1", "a1", true)
	want := &offers.View{AgentID: "A1", Node: "a1", Limits: true, NeedsExecutor: true, Free: offers.Amounts{CPUs: 1500, MemMB: 768}}
	if diff := cmp.Diff(want, pool.View("A1")); diff != "" {
		t.Error(diff)
	}
	pool.Claim("A1", "u", offers.Need{Amounts: offers.Amounts{CPUs: 1000, MemMB: 512}})
	pool.SetExecutor("A1", true)
	want = &offers.View{AgentID: "A1", Node: "a1", Limits: true, Free: offers.Amounts{CPUs: 1000, MemMB: 512}}
	if diff := cmp.Diff(want, pool.View("A1")); diff != "" {
		t.Error(diff)
	}
	freed := pool.View("A1").Freed(offers.Need{Amounts: offers.Amounts{CPUs: 1000}, Ports: offers.NewPortSet(80, 81)})
	want = &offers.View{AgentID: "A1", Node: "a1", Limits: true, Free: offers.Amounts{CPUs: 2000, MemMB: 512}, Ports: offers.Ports{{Begin: 80, End: 81}}}
	if diff := cmp.Diff(want, freed); diff != "" {
		t.Error(diff)
	}
	if !want.Equal(freed) || want.Equal(pool.View("A1")) || want.Equal(nil) {
		t.Errorf("Equal is wrong")
	}
}

// TestRescindDropsYoungest: claims that the rest covers stay, oldest first.
func TestRescindDropsYoungest(t *testing.T) {
	pool := offers.NewPool(offers.Amounts{})
	pool.Add(offer("o1", "A1", scalar("cpus", 2), scalar("mem", 1024)), start)
	pool.Add(offer("o2", "A1", scalar("cpus", 2), scalar("mem", 1024)), start)
	for _, uid := range []types.UID{"old", "big", "young"} {
		cpus := int64(800)
		if uid == "big" {
			cpus = 1500
		}
		pool.Claim("A1", uid, offers.Need{Amounts: offers.Amounts{CPUs: cpus, MemMB: 10}})
	}
	agent, dropped, found := pool.Rescind("o1")
	if diff := cmp.Diff([]types.UID{"big"}, dropped); diff != "" || agent != "A1" || !found {
		t.Errorf("agent %s found %t: %s", agent, found, diff)
	}
	if _, _, found := pool.Rescind("o1"); found {
		t.Errorf("an offer is rescinded twice")
	}
	if _, dropped, _ := pool.Rescind("o2"); len(dropped) != 2 {
		t.Errorf("dropped %v without any offer left", dropped)
	}
}

// TestEveryOfferEndsOnce: whatever is done, each offer leaves the pool in one way, once; claims that Fitting chose are
// covered by the offers that Take gives up; a claim keeps its agent's offers from expiry.
func TestEveryOfferEndsOnce(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		pool := offers.NewPool(offers.Amounts{CPUs: 100, MemMB: 10})
		open := map[string]offers.Amounts{}
		claims := map[types.UID]offers.Need{}
		end := func(how string, ids ...string) (sum offers.Amounts) {
			for _, id := range ids {
				if _, is := open[id]; !is {
					t.Fatalf("seed %d: offer %s ends by %s, but was not held", seed, id, how)
				}
				sum = sum.Add(open[id])
				delete(open, id)
			}
			return sum
		}
		now, made := start, 0
		for range 400 {
			now = now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
			agent, uid := fmt.Sprint("A", r.IntN(3)), types.UID(fmt.Sprint("u", r.IntN(6)))
			switch r.IntN(8) {
			case 0, 1:
				made++
				amounts := offers.Amounts{CPUs: int64(r.IntN(2000)), MemMB: int64(r.IntN(500))}
				id := fmt.Sprint("o", made)
				open[id] = amounts
				pool.Add(offer(id, agent, scalar("cpus", float64(amounts.CPUs)/1000), scalar("mem", float64(amounts.MemMB))), now.Add(5*time.Second))
				pool.Show(agent, agent, true)
			case 2, 3:
				need := offers.Need{Amounts: offers.Amounts{CPUs: int64(r.IntN(1000)), MemMB: int64(r.IntN(200))}}
				if view := pool.View(agent); view != nil && view.Free.CPUs >= need.CPUs && view.Free.MemMB >= need.MemMB {
					pool.Claim(agent, uid, need)
					claims[uid] = need
				}
			case 4:
				pool.SetExecutor(agent, r.IntN(2) == 0)
				fitting := pool.Fitting(agent, []types.UID{"u3", "u1", "u0", "u2"})
				var sum offers.Amounts
				for _, u := range fitting {
					sum = sum.Add(claims[u].Amounts)
				}
				if len(fitting) == 0 {
					continue
				}
				if given := end("Take", pool.Take(agent, fitting)...); sum.CPUs > given.CPUs || sum.MemMB > given.MemMB {
					t.Fatalf("seed %d: %+v is placed on %+v", seed, sum, given)
				}
			case 5:
				id := fmt.Sprint("o", r.IntN(made+1))
				if _, _, found := pool.Rescind(id); found {
					end("Rescind", id)
				}
			case 6:
				for _, expired := range pool.Expire(now) {
					end("Expire", expired.OfferIDs...)
				}
				if next, waits := pool.NextExpiry(); waits && !next.After(now) {
					t.Fatalf("seed %d: an expiry of the past stays", seed)
				}
			case 7:
				switch r.IntN(10) {
				case 0:
					pool.Clear()
					clear(open)
				case 1:
					held, _ := pool.Drop(agent)
					end("Drop", held...)
				default:
					pool.Release(uid)
				}
			}
			held := 0
			for i := range 3 {
				held += len(pool.Holds(fmt.Sprint("A", i)))
			}
			if held != len(open) {
				t.Fatalf("seed %d: %d offers are held, %d are open", seed, held, len(open))
			}
		}
	}
}

// TestWhatIf: what comes and goes in a what-if shows in a new view, and never in the published one.
func TestWhatIf(t *testing.T) {
	view := &offers.View{Free: offers.Amounts{CPUs: 1000, MemMB: 100}, Ports: offers.Ports{{Begin: 80, End: 90}}}
	need := offers.Need{Amounts: offers.Amounts{CPUs: 400, MemMB: 30}, Ports: offers.NewPortSet(85)}
	less := view.Taken(need)
	want := &offers.View{Free: offers.Amounts{CPUs: 600, MemMB: 70}, Ports: offers.Ports{{Begin: 80, End: 84}, {Begin: 86, End: 90}}}
	if diff := cmp.Diff(want, less); diff != "" {
		t.Error(diff)
	}
	if back := less.Freed(need); !back.Equal(view) || view.Free.CPUs != 1000 {
		t.Errorf("got %+v, want %+v", back, view)
	}
	if (*offers.View)(nil).Taken(need) != nil {
		t.Error("something is left of nothing")
	}
}

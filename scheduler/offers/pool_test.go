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

func offerIn(role, id, agent string, resources ...mesos.Resource) *mesos.Offer {
	o := offer(id, agent, resources...)
	o.AllocationInfo = &mesos.Resource_AllocationInfo{Role: &role}
	return o
}

func reserved(r mesos.Resource, roles ...string) mesos.Resource {
	for _, role := range roles {
		r.Reservations = append(r.Reservations, mesos.Resource_ReservationInfo{Type: mesos.Resource_ReservationInfo_DYNAMIC.Enum(), Role: &role,
			Labels: &mesos.Labels{Labels: []mesos.Label{{Key: "by"}}}})
	}
	return r
}

func ports(ranges ...mesos.Value_Range) mesos.Resource {
	return mesos.Resource{Name: "ports", Type: mesos.RANGES.Enum(), Ranges: &mesos.Value_Ranges{Range: ranges}}
}

// TestTakeable: only what pods can use counts, and Mesos' three decimals add up.
func TestTakeable(t *testing.T) {
	revocable := scalar("mem", 8)
	revocable.Revocable = &mesos.Resource_RevocableInfo{}
	volume := scalar("disk", 8)
	volume.Disk = &mesos.Resource_DiskInfo{}
	shared := scalar("disk", 8)
	shared.Shared = &mesos.Resource_SharedInfo{}
	pool := offers.NewPool(offers.Amounts{})
	pool.Show("A1", "a1", true)
	pool.Add(offerIn("prod", "o1", "A1", reserved(scalar("cpus", 8), "prod"), revocable, volume, shared, scalar("cpus", 0.1), scalar("cpus", 0.2),
		scalar("mem", 100.9), scalar("disk", -1), scalar("gpus", 2), scalar("fpgas", 1),
		ports(mesos.Value_Range{Begin: 5, End: 7}, mesos.Value_Range{Begin: 1, End: 3}, mesos.Value_Range{Begin: 4, End: 4}, mesos.Value_Range{Begin: 20, End: 21})), start)
	in, _ := pool.View("A1").In("prod")
	want := offers.RoleView{Role: "prod", Free: offers.Amounts{CPUs: 8300, MemMB: 100, GPUs: 2}, Ports: offers.Ports{{Begin: 1, End: 7}, {Begin: 20, End: 21}}}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Error(diff)
	}
}

// TestStock: what is taken is as it was offered, with its reservations; the most refined goes first, and no more is taken
// than is there.
func TestStock(t *testing.T) {
	pool := offers.NewPool(offers.Amounts{})
	pool.Add(offerIn("a/b", "o1", "A1", scalar("cpus", 1), reserved(scalar("cpus", 0.5), "a"), scalar("mem", 512), ports(mesos.Value_Range{Begin: 80, End: 82})), start)
	pool.Add(offerIn("a/b", "o2", "A1", reserved(scalar("cpus", 0.25), "a", "a/b"), scalar("cpus", 1), reserved(ports(mesos.Value_Range{Begin: 90, End: 90}), "a")), start)
	pool.Add(offerIn("*", "o3", "A1", scalar("cpus", 8), scalar("mem", 8192)), start)
	stock := pool.Stock("A1", "a/b")
	role := "a/b"
	in := func(r mesos.Resource) mesos.Resource {
		r.AllocationInfo = &mesos.Resource_AllocationInfo{Role: &role}
		return r
	}
	share, ok := stock.TakeExecutor(0.3, 100.5)
	if want := []mesos.Resource{in(reserved(scalar("cpus", 0.25), "a", "a/b")), in(reserved(scalar("cpus", 0.05), "a")), in(scalar("mem", 100.5))}; !ok || cmp.Diff(want, share) != "" {
		t.Errorf("executor %t: %s", ok, cmp.Diff(want, share))
	}
	taken, ok := stock.Take(offers.Need{Amounts: offers.Amounts{CPUs: 2450, MemMB: 400}, Ports: offers.NewPortSet(90, 81, 80)})
	want := []mesos.Resource{in(reserved(scalar("cpus", 0.45), "a")), in(scalar("cpus", 2)), in(scalar("mem", 400)),
		in(reserved(ports(mesos.Value_Range{Begin: 90, End: 90}), "a")), in(ports(mesos.Value_Range{Begin: 80, End: 81}))}
	if diff := cmp.Diff(want, taken); diff != "" || !ok {
		t.Errorf("taken %t: %s", ok, diff)
	}
	for _, need := range []offers.Need{{Amounts: offers.Amounts{CPUs: 10}}, {Amounts: offers.Amounts{MemMB: 12}}, {Ports: offers.NewPortSet(80)}} {
		if taken, ok := stock.Take(need); ok {
			t.Errorf("%+v is taken of nothing: %v", need, taken)
		}
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

// in is a view of role "*" alone.
func in(view offers.View, free offers.Amounts, ports ...offers.PortRange) *offers.View {
	view.Roles = []offers.RoleView{{Role: "*", Free: free, Ports: ports}}
	return &view
}

func TestView(t *testing.T) {
	share := offers.Amounts{CPUs: 500, MemMB: 256}
	pool := offers.NewPool(share)
	pool.Add(offerIn("*", "o1", "A1", scalar("cpus", 2), scalar("mem", 1024)), start)
	if pool.View("A1") != nil {
		t.Errorf("an agent without a node is shown")
	}
	pool.Show("A1", "a1", true)
	want := in(offers.View{AgentID: "A1", Node: "a1", Limits: true, NeedsExecutor: true, Share: share}, offers.Amounts{CPUs: 1500, MemMB: 768})
	if diff := cmp.Diff(want, pool.View("A1")); diff != "" {
		t.Error(diff)
	}
	pool.Claim(offers.Claim{AgentID: "A1", Role: "*", UID: "u", Need: offers.Need{Amounts: offers.Amounts{CPUs: 1000, MemMB: 512}}})
	pool.SetExecutor("A1", true)
	want = in(offers.View{AgentID: "A1", Node: "a1", Limits: true}, offers.Amounts{CPUs: 1000, MemMB: 512})
	if diff := cmp.Diff(want, pool.View("A1")); diff != "" {
		t.Error(diff)
	}
	freed := pool.View("A1").Freed(offers.Need{Amounts: offers.Amounts{CPUs: 1000}, Ports: offers.NewPortSet(80, 81), Roles: "*"})
	want = in(offers.View{AgentID: "A1", Node: "a1", Limits: true}, offers.Amounts{CPUs: 2000, MemMB: 512}, offers.PortRange{Begin: 80, End: 81})
	if diff := cmp.Diff(want, freed); diff != "" {
		t.Error(diff)
	}
	if !want.Equal(freed) || want.Equal(pool.View("A1")) || want.Equal(nil) {
		t.Errorf("Equal is wrong")
	}
}

// TestRolesApart: what is on offer in one role neither serves nor suffers from another, but for the executor's share, which
// each role has to have until one runs.
func TestRolesApart(t *testing.T) {
	pool := offers.NewPool(offers.Amounts{CPUs: 500})
	pool.Show("A1", "a1", true)
	pool.Add(offerIn("prod", "o1", "A1", scalar("cpus", 1), reserved(scalar("cpus", 1), "prod")), start)
	pool.Add(offerIn("*", "o2", "A1", scalar("cpus", 3)), start)
	free := func(role string) int64 { in, _ := pool.View("A1").In(role); return in.Free.CPUs }
	if free("prod") != 1500 || free("*") != 2500 {
		t.Errorf("got %+v", pool.View("A1").Roles)
	}
	if sum := pool.View("A1").Sum("prod,*").Free.CPUs; sum != 4500 {
		t.Errorf("together %d, want one executor less", sum)
	}
	pool.Claim(offers.Claim{AgentID: "A1", Role: "*", UID: "u", Need: offers.Need{Amounts: offers.Amounts{CPUs: 2500}}})
	if free("prod") != 1500 || free("*") != 0 {
		t.Errorf("after a claim got %+v", pool.View("A1").Roles)
	}
	if fits := pool.Fitting("A1", "prod", []types.UID{"u"}); len(fits) != 0 {
		t.Errorf("a claim of another role fits")
	}
	if _, dropped, _ := pool.Rescind("o1"); len(dropped) != 0 {
		t.Errorf("the claim of another role is dropped")
	}
	if ids := pool.Take("A1", "*", []types.UID{"u"}); len(ids) != 1 || ids[0] != "o2" {
		t.Errorf("taken %v", ids)
	}
	if !pool.Empty("*") || !pool.Idle() {
		t.Errorf("something is still held")
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
		pool.Claim(offers.Claim{AgentID: "A1", UID: uid, Need: offers.Need{Amounts: offers.Amounts{CPUs: cpus, MemMB: 10}}})
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
// covered by the offers of their agent and role that Take gives up, and Stock holds what they need; a claim keeps its
// role's offers on the agent from expiry.
func TestEveryOfferEndsOnce(t *testing.T) {
	for seed := range uint64(200) {
		g := &game{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 3)), pool: offers.NewPool(offers.Amounts{CPUs: 100, MemMB: 10}), open: map[string]part{}, now: start}
		for range 400 {
			g.now = g.now.Add(time.Duration(g.r.IntN(1000)) * time.Millisecond)
			g.move()
			held := 0
			for i := range 3 {
				held += len(g.pool.Holds(fmt.Sprint("A", i)))
			}
			if held != len(g.open) {
				t.Fatalf("seed %d: %d offers are held, %d are open", seed, held, len(g.open))
			}
		}
	}
}

// game plays with a pool and knows which offers are open.
type game struct {
	t    *testing.T
	seed uint64
	r    *rand.Rand
	pool *offers.Pool
	open map[string]part
	now  time.Time
	made int
}

type part struct {
	agent, role string
	amounts     offers.Amounts
}

func (g *game) end(how, agent, role string, ids ...string) (sum offers.Amounts) {
	for _, id := range ids {
		p, is := g.open[id]
		if !is || p.agent != agent || role != "" && p.role != role {
			g.t.Fatalf("seed %d: offer %s of %+v ends by %s of agent %s and role %s", g.seed, id, p, how, agent, role)
		}
		sum = sum.Add(p.amounts)
		delete(g.open, id)
	}
	return sum
}

func (g *game) move() {
	agent, role, uid := fmt.Sprint("A", g.r.IntN(3)), []string{"*", "prod", "prod/a"}[g.r.IntN(3)], types.UID(fmt.Sprint("u", g.r.IntN(6)))
	switch g.r.IntN(8) {
	case 0, 1:
		g.made++
		amounts := offers.Amounts{CPUs: 2 * int64(g.r.IntN(1000)), MemMB: int64(g.r.IntN(500))}
		id := fmt.Sprint("o", g.made)
		g.open[id] = part{agent, role, amounts}
		g.pool.Add(offerIn(role, id, agent, scalar("cpus", float64(amounts.CPUs)/2000), reserved(scalar("cpus", float64(amounts.CPUs)/2000), role),
			scalar("mem", float64(amounts.MemMB))), g.now.Add(5*time.Second))
		g.pool.Show(agent, agent, true)
	case 2, 3:
		need := offers.Need{Amounts: offers.Amounts{CPUs: int64(g.r.IntN(1000)), MemMB: int64(g.r.IntN(200))}}
		if in, _ := g.pool.View(agent).In(role); in.Free.CPUs >= need.CPUs && in.Free.MemMB >= need.MemMB {
			g.pool.Claim(offers.Claim{AgentID: agent, Role: role, UID: uid, Need: need})
		}
	case 4:
		g.pool.SetExecutor(agent, g.r.IntN(2) == 0)
		g.launch(agent, role)
	case 5:
		id := fmt.Sprint("o", g.r.IntN(g.made+1))
		if agent, _, found := g.pool.Rescind(id); found {
			g.end("Rescind", agent, "", id)
		}
	case 6:
		useless := func(r string) bool { return r == role && g.r.IntN(2) == 0 }
		for _, expired := range g.pool.Expire(g.now, useless, map[string]bool{agent: g.r.IntN(4) == 0}) {
			g.end("Expire", expired.AgentID, expired.Role, expired.OfferIDs...)
		}
		if next, waits := g.pool.NextExpiry(); waits && !next.After(g.now) {
			g.t.Fatalf("seed %d: an expiry of the past stays", g.seed)
		}
	case 7:
		switch g.r.IntN(10) {
		case 0:
			g.pool.Clear()
			clear(g.open)
		case 1:
			held, _ := g.pool.Drop(agent)
			g.end("Drop", agent, "", held...)
		default:
			g.pool.Release(uid)
		}
	}
}

func (g *game) launch(agent, role string) {
	fitting := g.pool.Fitting(agent, role, []types.UID{"u3", "u1", "u0", "u2"})
	if len(fitting) == 0 {
		return
	}
	stock := g.pool.Stock(agent, role)
	var sum offers.Amounts
	for _, u := range fitting {
		claim, _ := g.pool.Claimed(u)
		sum = sum.Add(claim.Need.Amounts)
		if _, enough := stock.Take(claim.Need); !enough {
			g.t.Fatalf("seed %d: the stock lacks what fits", g.seed)
		}
	}
	if given := g.end("Take", agent, role, g.pool.Take(agent, role, fitting)...); sum.CPUs > given.CPUs || sum.MemMB > given.MemMB {
		g.t.Fatalf("seed %d: %+v is placed on %+v", g.seed, sum, given)
	}
}

// TestWhatIf: what comes and goes in a what-if shows in a new view, and never in the published one.
func TestWhatIf(t *testing.T) {
	view := in(offers.View{}, offers.Amounts{CPUs: 1000, MemMB: 100}, offers.PortRange{Begin: 80, End: 90})
	need := offers.Need{Amounts: offers.Amounts{CPUs: 400, MemMB: 30}, Ports: offers.NewPortSet(85), Roles: "*"}
	less := view.Taken(need)
	want := in(offers.View{}, offers.Amounts{CPUs: 600, MemMB: 70}, offers.PortRange{Begin: 80, End: 84}, offers.PortRange{Begin: 86, End: 90})
	if diff := cmp.Diff(want, less); diff != "" {
		t.Error(diff)
	}
	if back := less.Freed(need); !back.Equal(view) || view.Roles[0].Free.CPUs != 1000 {
		t.Errorf("got %+v, want %+v", back, view)
	}
	if (*offers.View)(nil).Taken(need) != nil {
		t.Error("something is left of nothing")
	}
}

package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	prefix  = netip.MustParsePrefix
	address = netip.MustParseAddr
	compare = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	same    = cmp.Options{compare, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })}
)

func here(mode Mode) Config {
	return Config{Mode: mode, Own: Node{Name: "n1", Address: address("10.0.0.11"), Pods: prefix("10.244.1.0/24")}, Link: prefix("10.0.0.0/24")}
}

func TestDecide(t *testing.T) {
	nodes := []Node{
		{"n3", address("10.0.0.13"), prefix("10.244.3.0/24")},
		{"n1", address("10.0.0.11"), prefix("10.244.1.0/24")},
		{"n2", address("10.0.0.12"), prefix("10.244.2.0/24")},
		{"new", address("10.0.0.14"), netip.Prefix{}},
		{"far", address("192.0.2.5"), prefix("10.244.5.0/24")},
		{"twin", address("10.0.0.16"), prefix("10.244.0.0/22")},
		{"ours", address("10.0.0.11"), prefix("10.244.7.0/24")},
		{"six", address("10.0.0.18"), prefix("fd00::/64")},
	}
	got := Decide(here(Routes), nodes)
	want := []Route{{prefix("10.244.2.0/24"), address("10.0.0.12")}, {prefix("10.244.3.0/24"), address("10.0.0.13")}}
	if diff := cmp.Diff(want, got.Routes, same); diff != "" || got.Peers != nil {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	for node, why := range map[string]string{"far": "podNetwork: vxlan", "twin": "overlaps", "ours": "our address", "six": "family"} {
		if text := strings.Join(got.Faults, "\n"); !strings.Contains(text, "node "+node+": ") || !strings.Contains(text, why) {
			t.Errorf("no fault of %s that says %q:\n%s", node, why, text)
		}
	}

	got = Decide(here(VXLAN), nodes)
	want = []Route{{prefix("10.244.5.0/24"), address("10.244.5.0")}, {prefix("10.244.2.0/24"), address("10.244.2.0")}, {prefix("10.244.3.0/24"), address("10.244.3.0")}}
	if diff := cmp.Diff(want, got.Routes, same); diff != "" {
		t.Errorf("routes by VXLAN (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Peer{address("10.244.5.0"), [6]byte{0x0a, 0x58, 192, 0, 2, 5}, address("192.0.2.5")}, got.Peers[0], same); diff != "" {
		t.Errorf("first peer (-want +got):\n%s", diff)
	}
	if got := Decide(here(None), nodes); len(got.Routes)+len(got.Peers) != 0 || len(got.Pods) != 1 {
		t.Errorf("mode none: %+v", got)
	}
}

func TestChanges(t *testing.T) {
	a, b, c := Route{prefix("10.1.0.0/24"), address("10.0.0.1")}, Route{prefix("10.2.0.0/24"), address("10.0.0.2")}, Route{prefix("10.3.0.0/24"), address("10.0.0.3")}
	moved := Route{b.Pods, address("10.0.0.9")}
	remove, set := Changes([]Route{a, b}, []Route{moved, c})
	if diff := cmp.Diff([]Route{a}, remove, same); diff != "" {
		t.Errorf("remove (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Route{moved, c}, set, same); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
}

// Whatever the nodes say, and in whatever order: no two ranges overlap, ours leads nowhere else, each route by a node's
// address is on our network, each node that is left out has its reason, and applying the changes twice changes nothing.
func TestPlanLaws(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		var nodes []Node
		for n := range random.IntN(8) {
			nodes = append(nodes, Node{
				Name:    fmt.Sprintf("n%d", n),
				Address: netip.AddrFrom4([4]byte{10, 0, byte(random.IntN(2)), byte(10 + random.IntN(6))}),
				Pods:    netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(random.IntN(6)), 0}), 22+random.IntN(3)),
			})
		}
		c := here([]Mode{Routes, VXLAN}[random.IntN(2)])
		plan := Decide(c, nodes)
		random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		if diff := cmp.Diff(plan, Decide(c, nodes), same); diff != "" {
			t.Fatalf("seed %d: the order of nodes counts:\n%s", seed, diff)
		}
		for i, one := range plan.Pods {
			for _, other := range plan.Pods[:i] {
				if one.Overlaps(other) {
					t.Fatalf("seed %d: %s overlaps %s", seed, one, other)
				}
			}
		}
		others := 0
		for _, node := range nodes {
			if node.Name != c.Own.Name {
				others++
			}
		}
		if len(plan.Routes)+len(plan.Faults) != others {
			t.Fatalf("seed %d: %d routes and %d faults for %d nodes", seed, len(plan.Routes), len(plan.Faults), others)
		}
		for _, route := range plan.Routes {
			if route.Pods.Overlaps(c.Own.Pods) || c.Mode == Routes && !c.Link.Contains(route.Via) {
				t.Fatalf("seed %d: bad route %v", seed, route)
			}
		}
		if remove, set := Changes(plan.Routes, plan.Routes); len(remove)+len(set) != 0 {
			t.Fatalf("seed %d: changes of nothing: %v %v", seed, remove, set)
		}
	}
}

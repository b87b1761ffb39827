package local

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// line is all that is an agent's own.
func (a agent) line(l layout) string {
	return strings.Join([]string{a.hostname, a.name(), a.endpoint.String(), a.pods.String(), a.link(), a.cgroup(), a.attributes(),
		l.work(a), l.executor(a), l.netns(a)}, " ")
}

func TestPlan(t *testing.T) {
	cfg := good(t)
	cfg.Subnet, cfg.Agents, cfg.StateDir = "10.7.3.3/16", 3, "/s/l"
	got, err := plan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got.subnet.String() != "10.7.0.0/16" || got.bridge.String() != "10.7.0.1/24" {
		t.Errorf("subnet %s, bridge %s", got.subnet, got.bridge)
	}
	var lines []string
	for _, one := range got.agents {
		lines = append(lines, one.line(layout{cfg}))
	}
	want := []string{
		"mesopod-agent1 mesos-agent1 10.7.0.11:5051 10.7.1.0/24 mesopod-a1 mesopod/local-a1 rack:r1;zone:z1" +
			" /s/l/agent1 /s/l/a1 /s/l/netns/agent1",
		"mesopod-agent2 mesos-agent2 10.7.0.12:5051 10.7.2.0/24 mesopod-a2 mesopod/local-a2 rack:r2;zone:z2" +
			" /s/l/agent2 /s/l/a2 /s/l/netns/agent2",
		"mesopod-agent3 mesos-agent3 10.7.0.13:5051 10.7.3.0/24 mesopod-a3 mesopod/local-a3 rack:r3;zone:z1" +
			" /s/l/agent3 /s/l/a3 /s/l/netns/agent3",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The largest plan: everything lies in the subnet, nothing is anybody else's, and names fit where they have to.
func TestPlanOfAllAgents(t *testing.T) {
	cfg := good(t)
	cfg.Agents = maxAgents
	got, err := plan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.agents) != maxAgents {
		t.Fatalf("%d agents, want %d", len(got.agents), maxAgents)
	}
	taken := []netip.Prefix{netip.PrefixFrom(got.bridge.Addr(), 32)}
	for _, one := range got.agents {
		for _, its := range []netip.Prefix{netip.PrefixFrom(one.endpoint.Addr(), 32), one.pods} {
			if !got.subnet.Contains(its.Addr()) {
				t.Errorf("%s of %s is outside of %s", its, one.hostname, got.subnet)
			}
			for _, other := range taken {
				if its.Overlaps(other) {
					t.Errorf("%s of %s overlaps %s", its, one.hostname, other)
				}
			}
			taken = append(taken, its)
		}
		if len(one.link()) > 15 {
			t.Errorf("link name %s is too long for the kernel", one.link())
		}
	}
}

// Whatever the machine, a pod fits on each agent beside the executor.
func TestShareOut(t *testing.T) {
	for _, c := range []struct {
		cores  int
		memMB  uint64
		agents int
		want   string
	}{
		{2, 24000, 1, "cpus:4;mem:14400"},
		{2, 24000, 2, "cpus:2;mem:7200"},
		{2, 24000, 20, "cpus:2;mem:1024"},
		{16, 64000, 1, "cpus:16;mem:38400"},
		{16, 64000, 3, "cpus:5;mem:12800"},
		{1, 512, 1, "cpus:4;mem:1024"},
	} {
		got := shareOut(c.cores, c.memMB, c.agents)
		if want := c.want + ";disk:20000;ports:[31000-32000]"; got != want {
			t.Errorf("%d cores and %d MB for %d agents: %s, want %s", c.cores, c.memMB, c.agents, got, want)
		}
	}
}

// What an agent would refuse, and what no node fits in, is told before anything is started.
func TestCheckResources(t *testing.T) {
	for text, want := range map[string]string{
		"cpus:4;mem:4096": "", "cpus:1.5;mem:288": "", "cpus(*):4;mem:4096;ports:[1-2,4-5];zones:{a,b};gpus:0": "",
		"cpus:4;mem:4096;": "", `[{"name":"cpus"}]`: "", "file:///r.json": "", "cpus:2;cpus(ads):4;mem:1024": "",
		"cpus(ours):4;mem(ours):1024": "", "cpus:1;cpus(ours):1;mem:200;mem(ours):200": "",
		"cpus:0.2;mem:100":        "too small",
		"cpus:0.2":                "too small",
		"cpus:4;mem:100":          "too small",
		"cpus(ads):4;mem:1024":    "too small",
		"cpus:x":                  "neither an amount",
		"cpus:-4":                 "neither an amount",
		"cpus:nan;mem:1024":       "neither an amount",
		"cpus:[1-4];mem:1024":     "must be a number",
		"cpus":                    "not NAME:VALUE",
		"cpus=4":                  "not NAME:VALUE",
		"cpus:4;mem:1024;ports:":  "not NAME:VALUE",
		"cpus:4;mem:1024; :12000": "not NAME:VALUE",
	} {
		err := checkResources(text, []string{"ours"})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", text, err)
		case want != "" && (!errors.Is(err, errdefs.ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error = %v, want %s", text, err, want)
		}
	}
}

// The agents of a Mesos that others run are taken as they are, each with a pod range of its own.
func TestOutsideAgents(t *testing.T) {
	cfg := good(t)
	cfg.Mesos = "10.0.0.1:5050"
	a, err := plan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.agents) > 0 {
		t.Errorf("agents of our own are planned: %v", a.agents)
	}
	state := func(agents ...masterAgent) masterState { return masterState{Agents: agents} }
	one, two := masterAgent{"n1", "slave(1)@10.0.0.2:5051", true}, masterAgent{"n2", "slave(1)@10.0.0.3:6051", true}
	got, err := outsideAgents(state(one, masterAgent{"gone", "slave(1)@10.0.0.9:5051", false}, two), a)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, one := range got {
		lines = append(lines, fmt.Sprintf("%d %s %s %s", one.number, one.hostname, one.endpoint, one.pods))
	}
	l := layout{cfg}
	if at := l.executor(got[0]); strings.HasPrefix(at, l.StateDir+"/") {
		t.Errorf("the folder of somebody else's executor is %s, which is ours to sweep", at)
	}
	if diff := cmp.Diff([]string{"1 n1 10.0.0.2:5051 10.89.1.0/24", "2 n2 10.0.0.3:6051 10.89.2.0/24"}, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var many []masterAgent
	for n := range maxOutsideAgents + 1 {
		many = append(many, masterAgent{fmt.Sprint("n", n), "slave(1)@10.0.0.2:5051", true})
	}
	for name, bad := range map[string]masterState{
		"no agent":      state(),
		"same name":     state(one, masterAgent{"n1", "slave(1)@10.0.0.3:5051", true}),
		"no address":    state(masterAgent{"n1", "slave(1)", true}),
		"too many":      state(many...),
		"all have gone": state(masterAgent{"gone", "slave(1)@10.0.0.9:5051", false}),
	} {
		if got, err := outsideAgents(bad, a); err == nil {
			t.Errorf("%s: agents %v, want an error", name, got)
		}
	}
}

// A master that cannot be asked is told before anything is started, with the flag that named it.
func TestMasterUnreachable(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	nobody := closed.URL
	closed.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for name, url := range map[string]string{"nobody listens": nobody, "no Mesos": other.URL} {
		cfg := good(t)
		cfg.Mesos = url
		c := &cluster{layout: layout{cfg}}
		if err := c.findMesos(t.Context()); err == nil || !strings.Contains(err.Error(), "--mesos="+url) {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}

package constraints_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	simulated "github.com/mesopod/mesopod/internal/mesossim/constraints"
	"github.com/mesopod/mesopod/scheduler/constraints"
)

func parse(t *testing.T, texts ...string) (rules []constraints.Rule) {
	t.Helper()
	for _, text := range texts {
		r, err := constraints.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if r.String() != text {
			t.Errorf("%q is written as %q", text, r)
		}
		rules = append(rules, r)
	}
	return rules
}

// agents of all kinds: attributes of text and numbers, with a fault domain and without one.
func agents() []*mesos.Offer {
	text := func(name, value string) mesos.Attribute {
		return mesos.Attribute{Name: name, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: value}}
	}
	domain := &mesos.DomainInfo{FaultDomain: &mesos.DomainInfo_FaultDomain{
		Region: mesos.DomainInfo_FaultDomain_RegionInfo{Name: "eu"}, Zone: mesos.DomainInfo_FaultDomain_ZoneInfo{Name: "eu-1"}}}
	return []*mesos.Offer{
		{Hostname: "a1", Attributes: []mesos.Attribute{text("rack", "r1"), text("rack", "r2")}, Domain: domain},
		{Hostname: "a2", Attributes: []mesos.Attribute{text("rack", "r2"), {Name: "cores", Type: mesos.SCALAR, Scalar: &mesos.Value_Scalar{Value: 64}}}},
		{Hostname: "a3", Attributes: []mesos.Attribute{{Name: "cores", Type: mesos.SCALAR, Scalar: &mesos.Value_Scalar{Value: 8}}}},
	}
}

// TestUnmet is the table of rules, and tells that what is sent to Mesos never keeps an agent away that meets them: Mesos lets
// some through that do not, whose attribute is a number.
func TestUnmet(t *testing.T) {
	for _, test := range []struct {
		rules []string
		want  [3]string
		// through are the agents of which Mesos makes offers all the same.
		through [3]bool
	}{
		{[]string{"rack=r1"}, [3]string{"", "rack=r1", "rack=r1"}, [3]bool{}},
		{[]string{"rack!=r1"}, [3]string{"rack!=r1", "", ""}, [3]bool{}},
		{[]string{"rack"}, [3]string{"", "", "rack"}, [3]bool{}},
		{[]string{"!rack"}, [3]string{"!rack", "!rack", ""}, [3]bool{}},
		{[]string{"cores=64"}, [3]string{"cores=64", "", "cores=64"}, [3]bool{2: true}},
		{[]string{"cores!=64"}, [3]string{"", "cores!=64", ""}, [3]bool{1: true}},
		{[]string{"rack=r2", "@hostname!=a2"}, [3]string{"rack=r2", "@hostname!=a2", "rack=r2"}, [3]bool{}},
		{[]string{"@region=eu"}, [3]string{"", "@region=eu", "@region=eu"}, [3]bool{}},
		{[]string{"!@zone"}, [3]string{"!@zone", "", ""}, [3]bool{}},
		{nil, [3]string{}, [3]bool{}},
	} {
		rules := parse(t, test.rules...)
		set, err := simulated.FromProtobuf(constraints.Subscribe(nil, rules, []string{"*", "prod"}))
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Check(); err != nil {
			t.Errorf("%v: Mesos refuses %v", test.rules, err)
		}
		for i, offer := range agents() {
			unmet := constraints.Unmet(rules, offer)
			if unmet != test.want[i] {
				t.Errorf("%v on %s: %q, want %q", test.rules, offer.Hostname, unmet, test.want[i])
			}
			agent := simulated.Agent{Hostname: offer.Hostname, Attributes: offer.Attributes}
			if domain := offer.Domain.GetFaultDomain(); domain != nil {
				agent.Region, agent.Zone = domain.Region.Name, domain.Zone.Name
			}
			for _, role := range []string{"*", "prod"} {
				if admitted := set.Admit(role, agent); admitted != (unmet == "" || test.through[i]) {
					t.Errorf("%v on %s: Mesos offers it: %t", test.rules, offer.Hostname, admitted)
				}
			}
		}
	}
}

// TestSubscribe: the message that the rules are put into is as it was.
func TestSubscribe(t *testing.T) {
	call := scheduler.Call{Type: scheduler.Call_SUBSCRIBE, Subscribe: &scheduler.Call_Subscribe{FrameworkInfo: &mesos.FrameworkInfo{User: "u", Name: "n", Roles: []string{"*"}}}}
	head, err := (&scheduler.Call{Type: call.Type}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	subscribe, err := call.Subscribe.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, rules := range [][]constraints.Rule{nil, parse(t, "rack=r1")} {
		var back scheduler.Call
		if err := back.Unmarshal(append(head, constraints.Subscribe(subscribe, rules, []string{"*"})...)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(call, back); diff != "" {
			t.Error(diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "=x", "!=x", "!", "a b", "@host=x", "a!b=c"} {
		if r, err := constraints.Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, r)
		}
	}
}

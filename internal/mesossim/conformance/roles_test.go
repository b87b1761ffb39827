package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/quota"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

func inRoles(roles ...string) func(*fw) {
	return func(f *fw) { f.info.Roles, f.info.Principal = roles, ptr("p") }
}

// reservedFor is one cpu, reserved for the last of the roles out of what is reserved for those before it.
func reservedFor(allocated string, roles ...string) mesos.Resource {
	r := scalar("cpus", 1)
	r.AllocationInfo = nil
	if allocated != "" {
		r.AllocationInfo = &mesos.Resource_AllocationInfo{Role: &allocated}
	}
	for _, role := range roles {
		r.Reservations = append(r.Reservations, mesos.Resource_ReservationInfo{
			Type: mesos.Resource_ReservationInfo_DYNAMIC.Enum(), Role: ptr(role), Principal: ptr("p")})
	}
	return r
}

// stacks are the reservations of an offer's cpus, as roles joined by >.
func stacks(o mesos.Offer) (found []string) {
	for _, r := range o.Resources {
		if r.Name == "cpus" && len(r.Reservations) > 0 {
			var roles []string
			for _, one := range r.Reservations {
				roles = append(roles, one.GetRole())
			}
			found = append(found, strings.Join(roles, ">"))
		}
	}
	slices.Sort(found)
	return found
}

// operation does one on an offer, whose rest comes back at once.
func (f *fw) operation(o mesos.Offer, op mesos.Offer_Operation) {
	f.t.Helper()
	f.call(&scheduler.Call{Type: scheduler.Call_ACCEPT, Accept: &scheduler.Call_Accept{OfferIDs: []mesos.OfferID{o.ID},
		Operations: []mesos.Offer_Operation{op}, Filters: &mesos.Filters{RefuseSeconds: ptr(0.0)}}})
}

// refines: what is reserved for a role is reserved anew for one nested in it, and given back step by step; a framework without
// the capability is not offered it.
func refines(t *testing.T, s system) {
	f := newFramework(t, s, inRoles("a/b"))
	reserve := func(roles ...string) {
		t.Helper()
		f.operation(f.offer(first), mesos.Offer_Operation{Type: mesos.Offer_Operation_RESERVE,
			Reserve: &mesos.Offer_Operation_Reserve{Resources: []mesos.Resource{reservedFor("a/b", roles...)}}})
	}
	unreserve := func(roles ...string) {
		t.Helper()
		f.operation(f.offer(first), mesos.Offer_Operation{Type: mesos.Offer_Operation_UNRESERVE,
			Unreserve: &mesos.Offer_Operation_Unreserve{Resources: []mesos.Resource{reservedFor("a/b", roles...)}}})
	}
	want := func(stack ...string) {
		t.Helper()
		o := f.offer(first)
		if diff := cmp.Diff(stack, stacks(o)); diff != "" {
			t.Errorf("reserved (-want +got): %s", diff)
		}
		f.call(decline(0, o))
	}
	// Another role cannot be reserved for out of an offer to this one: the operation is dropped.
	reserve("other")
	want()
	reserve("a")
	want()
	reserve("a/b")
	want("a/b")
	unreserve("a/b")
	// In one step over two: each operation pushes one reservation only.
	reserve("a", "a/b")
	want()
}

// operatorReserves: an operator reserves, makes a volume of it, and undoes both, whoever holds an offer.
func operatorReserves(t *testing.T, s system) {
	f := newFramework(t, s, inRoles("held"))
	o := f.offer(first)
	agent := o.AgentID
	if code, _ := operate(t, s, &master.Call{Type: master.Call_RESERVE_RESOURCES, ReserveResources: &master.Call_ReserveResources{
		AgentID: agent, Resources: []mesos.Resource{reservedFor("", "held")}}}); code != 202 {
		t.Fatalf("RESERVE_RESOURCES: %d", code)
	}
	f.passed = nil
	if got := f.next(scheduler.Event_RESCIND).Rescind.OfferID.Value; got != o.ID.Value {
		t.Errorf("rescinded %s, want %s", got, o.ID.Value)
	}
	o = f.offer(first)
	if diff := cmp.Diff([]string{"held"}, stacks(o)); diff != "" {
		t.Errorf("reserved (-want +got): %s", diff)
	}
	disk := reservedFor("", "held")
	disk.Name, disk.Scalar = "disk", &mesos.Value_Scalar{Value: 100}
	volume := disk
	volume.Disk = &mesos.Resource_DiskInfo{
		Persistence: &mesos.Resource_DiskInfo_Persistence{ID: "v1", Principal: ptr("p")},
		Volume:      &mesos.Volume{ContainerPath: "data", Mode: mesos.RW.Enum()}}
	for _, call := range []*master.Call{
		{Type: master.Call_RESERVE_RESOURCES, ReserveResources: &master.Call_ReserveResources{AgentID: agent, Resources: []mesos.Resource{disk}}},
		{Type: master.Call_CREATE_VOLUMES, CreateVolumes: &master.Call_CreateVolumes{AgentID: agent, Volumes: []mesos.Resource{volume}}},
	} {
		if code, _ := operate(t, s, call); code != 202 {
			t.Fatalf("%s: %d", call.Type, code)
		}
	}
	f.await("offer of the volume", patience, func(e *scheduler.Event) bool {
		return e.Offers != nil && slices.ContainsFunc(e.Offers.Offers, func(o mesos.Offer) bool {
			return slices.ContainsFunc(o.Resources, func(r mesos.Resource) bool { return r.GetDisk().GetPersistence().GetID() == "v1" })
		})
	})
	for _, call := range []*master.Call{
		{Type: master.Call_DESTROY_VOLUMES, DestroyVolumes: &master.Call_DestroyVolumes{AgentID: agent, Volumes: []mesos.Resource{volume}}},
		{Type: master.Call_UNRESERVE_RESOURCES, UnreserveResources: &master.Call_UnreserveResources{AgentID: agent, Resources: []mesos.Resource{disk, reservedFor("", "held")}}},
	} {
		if code, _ := operate(t, s, call); code != 202 {
			t.Fatalf("%s: %d", call.Type, code)
		}
	}
	f.await("offer without reservations", patience, func(e *scheduler.Event) bool {
		return e.Offers != nil && slices.ContainsFunc(e.Offers.Offers, func(o mesos.Offer) bool {
			return o.AgentID == agent && !slices.ContainsFunc(o.Resources, func(r mesos.Resource) bool { return len(r.Reservations) > 0 })
		})
	})
	much := reservedFor("", "held")
	much.Scalar.Value = 100
	if code, _ := operate(t, s, &master.Call{Type: master.Call_RESERVE_RESOURCES, ReserveResources: &master.Call_ReserveResources{
		AgentID: agent, Resources: []mesos.Resource{much}}}); code != 409 {
		t.Errorf("RESERVE_RESOURCES of more than there is: %d", code)
	}
}

// takesSeveralRoles: each offer is to one role of several, and those of two roles do not go into one ACCEPT.
func takesSeveralRoles(t *testing.T, s system) {
	f := newFramework(t, s, inRoles("r1", "r2"))
	for _, role := range []string{"r1", "r2"} {
		agent := getAgents(t, s)[first].AgentInfo.ID
		if code, _ := operate(t, s, &master.Call{Type: master.Call_RESERVE_RESOURCES, ReserveResources: &master.Call_ReserveResources{
			AgentID: *agent, Resources: []mesos.Resource{reservedFor("", role)}}}); code != 202 {
			t.Fatalf("reserve for %s: %d", role, code)
		}
		t.Cleanup(func() {
			operate(t, s, &master.Call{Type: master.Call_UNRESERVE_RESOURCES, UnreserveResources: &master.Call_UnreserveResources{
				AgentID: *agent, Resources: []mesos.Resource{reservedFor("", role)}}})
		})
	}
	byRole := map[string]mesos.Offer{}
	for end := time.Now().Add(patience); len(byRole) < 2 && time.Now().Before(end); {
		if event := f.look(time.Second, offered); event != nil {
			for _, o := range event.Offers.Offers {
				if o.Hostname == first+".test" && len(stacks(o)) == 1 {
					byRole[o.AllocationInfo.GetRole()] = o
				}
			}
		}
		f.mu.Lock()
		for role, o := range byRole {
			if slices.ContainsFunc(f.events, func(e *scheduler.Event) bool { return e.Rescind != nil && e.Rescind.OfferID == o.ID }) {
				delete(byRole, role)
			}
		}
		f.mu.Unlock()
	}
	if len(byRole) != 2 || stacks(byRole["r1"])[0] != "r1" || stacks(byRole["r2"])[0] != "r2" {
		t.Fatalf("offers %v", byRole)
	}
	info := f.task(byRole["r1"], "t", f.executorInfo("e"))
	call := launchCall(byRole["r1"], info)
	call.Accept.OfferIDs = append(call.Accept.OfferIDs, byRole["r2"].ID)
	f.call(call)
	if got := f.update("t", mesos.TASK_DROPPED); got.GetReason() != mesos.REASON_INVALID_OFFERS || len(got.UUID) != 0 {
		t.Errorf("UPDATE %v", got)
	}
}

// sharesAsTree: what one nested role has counts for its whole branch, so that another branch is served before its sibling.
func sharesAsTree(t *testing.T, s system) {
	sibling, other := newFramework(t, s, inRoles("tree/y")), newFramework(t, s, inRoles("z"))
	sibling.suppress()
	other.suppress()
	mine := newFramework(t, s, inRoles("tree/x"))
	// All of the first agent, so that nothing of it is left to offer.
	o := mine.offer(first)
	info := mine.task(o, "all", mine.executorInfo("e"))
	info.Resources = []mesos.Resource{scalar("cpus", 3.9), scalar("mem", 2016)}
	for i := range info.Resources {
		info.Resources[i].AllocationInfo, info.Executor.Resources[i].AllocationInfo = o.AllocationInfo, o.AllocationInfo
	}
	mine.call(launchCall(o, info))
	mine.call(&scheduler.Call{Type: scheduler.Call_REVIVE})
	held := mine.offer(second)
	sibling.call(&scheduler.Call{Type: scheduler.Call_REVIVE})
	other.call(&scheduler.Call{Type: scheduler.Call_REVIVE})
	mine.call(decline(3600, held))
	got := other.offer(second)
	sibling.never("an offer to the sibling", 300*time.Millisecond, offered)
	other.call(decline(3600, got))
	sibling.offer(second)
}

// limitsByQuota: a limit holds for the role, and not for those nested in it; what these have counts. A guarantee is kept free of
// others.
func limitsByQuota(t *testing.T, s system) {
	set := func(role string, q quota.QuotaConfig) {
		t.Helper()
		q.Role = role
		if code, _ := operate(t, s, &master.Call{Type: master.Call_UPDATE_QUOTA, UpdateQuota: &master.Call_UpdateQuota{QuotaConfigs: []quota.QuotaConfig{q}}}); code != 200 {
			t.Fatalf("UPDATE_QUOTA of %s: %d", role, code)
		}
	}
	one := map[string]mesos.Value_Scalar{"cpus": {Value: 1.5}}
	set("q", quota.QuotaConfig{Limits: one})
	t.Cleanup(func() { set("q", quota.QuotaConfig{}); set("g", quota.QuotaConfig{}) })
	total := func(f *fw, while time.Duration) (milli int) {
		for {
			event := f.look(while, offered)
			if event == nil {
				return milli
			}
			for _, o := range event.Offers.Offers {
				for _, r := range o.Resources {
					if r.Name == "cpus" {
						milli += int(r.Scalar.Value*1000 + 0.5)
					}
				}
			}
		}
	}
	f := newFramework(t, s, inRoles("q"))
	if got := total(f, time.Second); got != 1500 {
		t.Errorf("offered %d thousandths of a cpu to q, its limit is 1500", got)
	}
	f.suppress()
	nested := newFramework(t, s, inRoles("q/n"))
	if got := total(nested, time.Second); got != 8000 {
		t.Errorf("offered %d thousandths of a cpu to q/n, want all of 8000", got)
	}
	nested.call(&scheduler.Call{Type: scheduler.Call_SUPPRESS})
	f.call(&scheduler.Call{Type: scheduler.Call_REVIVE})
	if got := total(f, time.Second); got != 0 {
		t.Errorf("offered %d thousandths of a cpu to q, whose limit q/n has used", got)
	}
	nested.call(decline(0, nested.openOffers()...))
	if got := total(f, time.Second); got != 1500 {
		t.Errorf("offered %d thousandths of a cpu to q, when q/n gave all back", got)
	}
	f.call(decline(3600, f.openOffers()...))
	all := map[string]mesos.Value_Scalar{"cpus": {Value: 8}}
	set("g", quota.QuotaConfig{Guarantees: all, Limits: all})
	other := newFramework(t, s, inRoles("elsewhere"))
	if got := total(other, time.Second); got != 0 {
		t.Errorf("offered %d thousandths of a cpu that are guaranteed to another role", got)
	}
}

// constrains: a framework is offered the agents that its constraints let through.
func constrains(t *testing.T, s system) {
	name := func(attribute, predicate string) string {
		return fmt.Sprintf(`{"selector":{"attribute_name":%q},"predicate":{%s}}`, attribute, predicate)
	}
	pseudo := func(kind, predicate string) string {
		return fmt.Sprintf(`{"selector":{"pseudoattribute_type":%q},"predicate":{%s}}`, kind, predicate)
	}
	value := func(predicate, text string) string { return fmt.Sprintf(`%q:{"value":%q}`, predicate, text) }
	regex := func(predicate, text string) string { return fmt.Sprintf(`%q:{"regex":%q}`, predicate, text) }
	const both = first + " " + second
	for _, c := range []struct {
		name   string
		groups [][]string
		want   string
	}{
		{"equal", [][]string{{name("rack", value("text_equals", first))}}, first},
		{"not equal", [][]string{{name("rack", value("text_not_equals", first))}}, second},
		{"not equal to what is not there", [][]string{{name("nothing", value("text_not_equals", "x"))}}, both},
		{"equal to what is not there", [][]string{{name("nothing", value("text_equals", "x"))}}, ""},
		{"exists", [][]string{{name("size", `"exists":{}`)}}, both},
		{"exists not", [][]string{{name("size", `"not_exists":{}`)}}, ""},
		{"a number is no text", [][]string{{name("size", value("text_equals", "5"))}}, both},
		{"a number is no text, not equal", [][]string{{name("size", value("text_not_equals", "4"))}}, both},
		{"there twice", [][]string{{name("tag", value("text_equals", first))}}, ""},
		{"matches", [][]string{{name("rack", regex("text_matches", "f.*t"))}}, first},
		{"matches in whole only", [][]string{{name("rack", regex("text_matches", "irs"))}}, ""},
		{"matches not", [][]string{{name("rack", regex("text_not_matches", "f.*"))}}, second},
		{"host name", [][]string{{pseudo("HOSTNAME", value("text_equals", second+".test"))}}, second},
		{"no region", [][]string{{pseudo("REGION", `"exists":{}`)}}, ""},
		{"no zone", [][]string{{pseudo("ZONE", value("text_not_equals", "z"))}}, both},
		{"both of a group", [][]string{{name("rack", value("text_equals", first)), name("size", `"not_exists":{}`)}}, ""},
		{"one of two groups", [][]string{{name("rack", value("text_equals", first))}, {name("size", `"not_exists":{}`)}}, first},
	} {
		t.Run(c.name, func(t *testing.T) {
			var groups []string
			for _, group := range c.groups {
				groups = append(groups, `{"attribute_constraints":[`+strings.Join(group, ",")+`]}`)
			}
			f := newFramework(t, s, func(f *fw) {
				f.kind, f.constraints = jsonText, `{"role_constraints":{"*":{"groups":[`+strings.Join(groups, ",")+`]}}}`
			})
			seen := map[string]bool{}
			for event := f.look(3*allocation, offered); event != nil; event = f.look(3*allocation, offered) {
				for _, o := range event.Offers.Offers {
					seen[strings.TrimSuffix(o.Hostname, ".test")] = true
				}
			}
			var got []string
			for _, agent := range []string{first, second} {
				if seen[agent] {
					got = append(got, agent)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("offers of %q, want of %q", strings.Join(got, " "), c.want)
			}
		})
	}
	for _, bad := range []string{
		`{"role_constraints":{"*":{"groups":[{"attribute_constraints":[` + name("rack", regex("text_matches", "(")) + `]}]}}}`,
		`{"role_constraints":{"*":{"groups":[]}}}`,
		`{"role_constraints":{"*":{"groups":[{"attribute_constraints":[]}]}}}`,
	} {
		f := &fw{t: t, s: s, kind: jsonText, constraints: bad, info: mesos.FrameworkInfo{User: "root", Name: "bad", Roles: []string{"*"}, Capabilities: capabilities}}
		f.subscribe()
		if got := f.look(patience, func(e *scheduler.Event) bool { return e.Error != nil || e.Subscribed != nil }); got == nil || got.Error == nil {
			t.Errorf("%s: %v, want ERROR", bad, got)
		}
		f.cancel()
		<-f.closed
	}
}

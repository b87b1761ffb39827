package procure_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// TestRolePolicy: a namespace chooses among the framework's roles, a pod among its namespace's, and whoever names another
// is told which there are.
func TestRolePolicy(t *testing.T) {
	policy := procure.RolePolicy{Framework: []string{"*", "prod", "prod/web", "dev"}, Default: []string{"dev", "*"}}
	none := "-"
	for name, test := range map[string]struct {
		policy         procure.RolePolicy
		namespace, pod string
		want           offers.Roles
		fault          string
	}{
		"no policy at all":         {procure.RolePolicy{}, "", none, "*", ""},
		"the framework's first":    {procure.RolePolicy{Framework: []string{"prod", "*"}}, "", none, "prod", ""},
		"the default":              {policy, "", none, "dev,*", ""},
		"the namespace's":          {policy, " prod/web, prod,prod ", none, "prod/web,prod", ""},
		"the pod's order":          {policy, "prod/web,prod", "prod,prod/web", "prod,prod/web", ""},
		"the pod's choice":         {policy, "", "*", "*", ""},
		"not the namespace's":      {policy, "prod/web,*", "prod", "", "role prod is not allowed in namespace shop, which may use prod/web, *"},
		"not the framework's":      {policy, "prod,test", none, "", "namespace shop names role test, which the scheduler does not have; it has *, prod, prod/web, dev"},
		"an empty list of the pod": {policy, "prod", " ", "", "is empty; name one of prod"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
		if test.pod != none {
			pod.Annotations = map[string]string{messages.AnnotationRoles: test.pod}
		}
		got, err := test.policy.Of(pod, test.namespace)
		if got != test.want || (err == nil) != (test.fault == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), test.fault) || !errors.Is(err, errdefs.ErrInvalid)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChoose: all that a pod takes comes from one role, the first of its list that has it; that only several have enough
// together is said so, and only then.
func TestChoose(t *testing.T) {
	role := func(name string, cpus, mem int64) offers.RoleView {
		return offers.RoleView{Role: name, Free: offers.Amounts{CPUs: cpus, MemMB: mem}}
	}
	view := &offers.View{Limits: true, Roles: []offers.RoleView{role("*", 1000, 1000), role("dev", 4000, 100), role("prod", 2000, 500)}}
	cold := *view
	cold.NeedsExecutor, cold.Share = true, offers.Amounts{CPUs: 500}
	for name, test := range map[string]struct {
		view      *offers.View
		roles     offers.Roles
		cpus, mem int64
		role, why string
	}{
		"the first":              {view, "prod,*", 1000, 500, "prod", ""},
		"the second":             {view, "prod,*", 1000, 600, "*", ""},
		"neither, but together":  {view, "prod,*", 3000, 100, "", procure.NotTogether + "prod, *"},
		"not even together":      {view, "prod,*", 3001, 100, "", procure.FewCPUs},
		"the first one's fault":  {view, "dev,prod", 3000, 2000, "", procure.LittleMem},
		"others do not count":    {view, "prod", 3000, 100, "", procure.FewCPUs},
		"other roles only":       {view, "test", 10, 32, "", procure.OtherRoles},
		"no offer":               {nil, "prod", 10, 32, "", procure.NoOffer},
		"an executor, once":      {&cold, "prod,*", 3500, 100, "", procure.NotTogether + "prod, *"},
		"an executor is no more": {&cold, "prod,*", 3501, 100, "", procure.FewCPUs},
	} {
		need := need(test.cpus, test.mem, 0, 0)
		need.Roles = test.roles
		if role, why := procure.Choose(test.view, need); role != test.role || why != test.why {
			t.Errorf("%s: %q %q, want %q %q", name, role, why, test.role, test.why)
		}
	}
}

func TestRoleFault(t *testing.T) {
	for _, good := range []string{"*", "prod", "a/b/c", "a-b", "a.b"} {
		if fault := procure.RoleFault(good); fault != "" {
			t.Errorf("%s: %s", good, fault)
		}
	}
	for _, bad := range []string{"", ".", "..", "-a", "a/", "/a", "a//b", "a/*", "a/-b", "a b", "a\tb", "a\\b", "a,b"} {
		if procure.RoleFault(bad) == "" {
			t.Errorf("%q is taken for a role", bad)
		}
	}
}

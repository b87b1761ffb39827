package roles

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/procure"
	"github.com/mesopod/mesopod/test/cluster"
)

// A namespace's role decides where a pod's resources come from: what is reserved for it goes first, in one ACCEPT with what
// is reserved for nobody. The executor that the first pod started serves pods of other roles, too.
func TestNamespaceRoles(t *testing.T) {
	allow(t, "prod")
	first, task := running(t, podOf("first", 1, "1800m", "300Mi"))
	isIn(t, first, task, "prod")
	if got := task.Reserved("cpus", "prod"); got < 1.5-1e-9 || got > 2 {
		t.Errorf("%g cpus that are reserved for prod are used, want all that the executor left", got)
	}
	allow(t, "dev,prod")
	second, task := running(t, podOf("second", 1, "1", "200Mi"))
	isIn(t, second, task, "dev")
	if got := task.Reserved("cpus", "dev"); got != 1 {
		t.Errorf("%g cpus that are reserved for dev are used, want 1", got)
	}
	suite.SameContainer(t, first)
}

// A pod that only two roles together have room for is told so, and one that names a role which its namespace has not, which
// roles that has.
func TestWhyRolesDoNotFit(t *testing.T) {
	allow(t, "prod,dev")
	// Neither has 3.2 cpus, even with what is reserved for nobody.
	suite.Create(t, podOf("together", 2, "3200m", "300Mi"))
	told := waitUnscheduled(t, "together", func(why string) bool { return strings.Contains(why, procure.NotTogether) })
	if !strings.Contains(told, procure.NotTogether+"prod, dev") {
		t.Errorf("the roles are not named: %s", told)
	}
	stranger := podOf("stranger", 2, "100m", "64Mi")
	stranger.Annotations = map[string]string{messages.AnnotationRoles: "prod/web"}
	suite.Create(t, stranger)
	waitUnscheduled(t, "stranger", func(why string) bool {
		return strings.Contains(why, "role prod/web is not allowed in namespace "+cluster.Namespace+", which may use prod, dev")
	})
	// The namespace is given the role, and the pod starts without being touched.
	allow(t, "prod,prod/web")
	suite.WaitPhase(t, "stranger", "Running")
}

// What an operator reserves at run time, refining what is reserved for the role above, is used as it is.
func TestRefinedReservation(t *testing.T) {
	const refined = `{"name":"cpus","type":"SCALAR","scalar":{"value":0.75},"reservations":[{"type":"STATIC","role":"prod"},{"type":"DYNAMIC","role":"prod/web"}]}`
	call := fmt.Sprintf(`{"type":"RESERVE_RESOURCES","reserve_resources":{"agent_id":{"value":%q},"resources":[%s]}}`, agentID(t, 2), refined)
	cluster.Eventually(t, "resources to be reserved for prod/web", func(ctx context.Context) error { // they may be in an offer just now
		return operate(ctx, call, nil)
	})
	allow(t, "prod/web")
	pod, task := running(t, podOf("web", 2, "700m", "100Mi"))
	isIn(t, pod, task, "prod/web")
	if got := task.Reserved("cpus", "prod/web"); got < 0.25-1e-9 {
		t.Errorf("%g cpus that are reserved for prod/web are used, want what the executor left of 0.75", got)
	}
}

// While no pod waits, all roles are suppressed and no offer is held, so that other frameworks have all that is free; a pod brings
// offers back.
func TestSuppress(t *testing.T) {
	var held struct {
		Frameworks []struct {
			Offers []any `json:"offers"`
		} `json:"frameworks"`
	}
	cluster.Eventually(t, "idle roles to be suppressed, and no offers", func(ctx context.Context) error {
		var metrics map[string]float64
		if err := cluster.Get(ctx, cluster.MasterURL+"/metrics/snapshot", nil, &metrics); err != nil {
			return err
		}
		var offered []string
		for _, role := range []string{"*", "prod", "dev", "batch"} {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(metrics)), func(key string) bool {
				return strings.HasSuffix(key, "/roles/"+role+"/suppressed") && metrics[key] == 1
			}) {
				offered = append(offered, role)
			}
		}
		if err := cluster.Get(ctx, cluster.MasterURL+"/state", nil, &held); err != nil {
			return err
		}
		if len(held.Frameworks) != 1 {
			return fmt.Errorf("%d frameworks, want ours", len(held.Frameworks))
		}
		if n := len(held.Frameworks[0].Offers); len(offered) > 0 || n > 0 {
			return fmt.Errorf("%d offers are held, not suppressed are %v", n, offered)
		}
		return nil
	})
	allow(t, "dev")
	pod, task := running(t, podOf("wake", 2, "100m", "64Mi"))
	isIn(t, pod, task, "dev")
}

// Offers of a cordoned node go back at once, and pods wait for it; one that tolerates cordons, as DaemonSets' pods do, is launched
// there. Once the node is uncordoned, the others are.
func TestCordon(t *testing.T) {
	allow(t, "dev")
	node := suite.Node(2)
	suite.Kubectl(t, "cordon", node)
	uncordon := func(ctx context.Context) {
		if out, err := suite.TryKubectl(ctx, "uncordon", node); err != nil {
			t.Errorf("uncordon: %v: %s", err, out)
		}
	}
	t.Cleanup(func() { uncordon(context.WithoutCancel(t.Context())) })
	tolerant := podOf("tolerant", 2, "100m", "64Mi")
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	running(t, tolerant)
	suite.Create(t, podOf("kept-out", 2, "100m", "64Mi"))
	waitUnscheduled(t, "kept-out", func(why string) bool { return strings.Contains(why, "agent's node is cordoned") })
	cluster.Eventually(t, "offers of the cordoned node to go back", func(ctx context.Context) error {
		_, text, err := cluster.Look(ctx, "/metrics")
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, `mesopod_scheduler_offers_declined_total{reason="cordoned"}`) && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				return nil
			}
		}
		return errors.New("none is counted")
	})
	uncordon(t.Context())
	pod := suite.WaitPhase(t, "kept-out", corev1.PodRunning)
	isIn(t, pod, suite.WaitTask(t, pod, "TASK_RUNNING"), "dev")
}

// A pod that a quota in Mesos keeps out is told which, and starts once the quota is gone.
func TestQuotaTold(t *testing.T) {
	limit := func(ctx context.Context, limits string) {
		t.Helper()
		if err := operate(ctx, `{"type":"UPDATE_QUOTA","update_quota":{"quota_configs":[{"role":"batch","limits":`+limits+`}]}}`, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(t.Context(), `{"cpus":{"value":0.3}}`)
	t.Cleanup(func() { limit(context.WithoutCancel(t.Context()), `{}`) })
	allow(t, "batch")
	suite.Create(t, podOf("batch", 1, "400m", "64Mi"))
	waitUnscheduled(t, "batch", func(why string) bool {
		return strings.Contains(why, "role batch has 0 of the 0.3 cpus that its quota in Mesos allows")
	})
	limit(t.Context(), `{}`)
	pod := suite.WaitPhase(t, "batch", "Running")
	isIn(t, pod, suite.WaitTask(t, pod, "TASK_RUNNING"), "batch")
}

// Mesos knows the rules that agents have to meet, as offer constraints in each role.
func TestOfferConstraints(t *testing.T) {
	var answer struct {
		GetFrameworks struct {
			Frameworks []struct {
				OfferConstraints struct {
					RoleConstraints map[string]any `json:"role_constraints"`
				} `json:"offer_constraints"`
			} `json:"frameworks"`
		} `json:"get_frameworks"`
	}
	if err := operate(t.Context(), `{"type":"GET_FRAMEWORKS"}`, &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.GetFrameworks.Frameworks) != 1 {
		t.Fatalf("%d frameworks, want ours", len(answer.GetFrameworks.Frameworks))
	}
	want := map[string]any{"groups": []any{map[string]any{"attribute_constraints": []any{map[string]any{
		"selector":  map[string]any{"pseudoattribute_type": "HOSTNAME"},
		"predicate": map[string]any{"text_not_equals": map[string]any{"value": "elsewhere"}},
	}}}}}
	got := answer.GetFrameworks.Frameworks[0].OfferConstraints.RoleConstraints
	for _, role := range []string{"*", "prod", "prod/web", "dev", "batch"} {
		if diff := cmp.Diff(want, got[role]); diff != "" {
			t.Errorf("role %s: %s", role, diff)
		}
	}
}

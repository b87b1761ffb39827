package scheduler

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"github.com/mesopod/mesopod/scheduler/core"
)

// Mesos links to the page wherever others than this machine reach it.
func TestWebUIURL(t *testing.T) {
	for _, c := range []struct{ configured, status, hostname, want string }{
		{"", "127.0.0.1:10246", "", ""},
		{"", "localhost:10246", "", ""},
		{"", "[::1]:10246", "", ""},
		{"", "none", "h1", ""},
		{"", "10.0.0.7:10246", "", "http://10.0.0.7:10246/"},
		{"", "0.0.0.0:80", "h1", "http://h1:80/"},
		{"", ":80", "h1", "http://h1:80/"},
		{"", "[fd00::1]:80", "", "http://[fd00::1]:80/"},
		{"https://proxy/mesopod/", "0.0.0.0:80", "h1", "https://proxy/mesopod/"},
	} {
		cfg := testConfig("m1:5050")
		cfg.WebUIURL, cfg.StatusAddress, cfg.Hostname = c.configured, c.status, c.hostname
		if err := cfg.Check(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if got := cfg.webUIURL(); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
	for _, wrong := range []string{"", "somewhere", "10.0.0.1:"} {
		cfg := testConfig("m1:5050")
		if cfg.StatusAddress = wrong; cfg.Check() == nil || !strings.Contains(cfg.Check().Error(), "statusAddress") {
			t.Errorf("status address %q: got %v", wrong, cfg.Check())
		}
	}
}

// value is a series' value as /metrics shows it; "" when it is not there.
func value(t *testing.T, s *Scheduler, series string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.metrics().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(w.Body.String()); found != nil {
		return found[1]
	}
	return ""
}

// Each offer is counted when it comes and once when it ends, whatever is said of it later; launches and bindings have their times,
// declines and updates their reasons.
func TestTally(t *testing.T) {
	s, err := New(testConfig("m1:5050"), Deps{Client: newAPIServer("37")})
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]string{}
	names := map[string]string{ // series to how far it moves
		"mesopod_scheduler_offers_received_total":                                                     "5",
		`mesopod_scheduler_offers_ended_total{how="accepted"}`:                                        "1",
		`mesopod_scheduler_offers_ended_total{how="declined"}`:                                        "1",
		`mesopod_scheduler_offers_ended_total{how="rescinded"}`:                                       "1",
		`mesopod_scheduler_offers_ended_total{how="lost"}`:                                            "2",
		`mesopod_scheduler_offers_declined_total{reason="idle"}`:                                      "1",
		`mesopod_scheduler_offers_declined_total{reason="failed"}`:                                    "1",
		"mesopod_scheduler_accept_tasks_sum":                                                          "2",
		`mesopod_scheduler_bind_duration_seconds_count{result="bound"}`:                               "1",
		`mesopod_scheduler_bind_duration_seconds_sum{result="bound"}`:                                 "2",
		"mesopod_scheduler_launch_duration_seconds_sum":                                               "3",
		`mesopod_scheduler_status_updates_total{reason="TASK_INVALID",source="MASTER",state="ERROR"}`: "1",
		`mesopod_scheduler_effect_failures_total{kind="Accept"}`:                                      "1",
		`mesopod_scheduler_reconciliations_total{kind="implicit"}`:                                    "1",
		"mesopod_scheduler_disconnections_total":                                                      "1",
	}
	for name := range names {
		before[name] = value(t, s, name)
	}
	offer := func(id string) mesos.Offer { return mesos.Offer{ID: mesos.OfferID{Value: id}} }
	now := time.Now()
	tally := newTally()
	tally.event(now, core.Offers{Offers: []mesos.Offer{offer("o1"), offer("o2"), offer("o3"), offer("o4"), offer("o5")}})
	tally.event(now, core.Bind{Request: 1})
	accept := core.Accept{OfferIDs: []string{"o1"}, Tasks: []mesos.TaskInfo{{TaskID: mesos.TaskID{Value: "t1"}}, {TaskID: mesos.TaskID{Value: "t2"}}}}
	tally.effect(now, accept)
	tally.effect(now.Add(2*time.Second), core.BindDone{Request: 1})
	tally.event(now.Add(3*time.Second), update("t1", mesos.TASK_RUNNING, nil))
	reason := mesos.REASON_TASK_INVALID
	tally.event(now.Add(4*time.Second), update("t2", mesos.TASK_ERROR, &reason))
	tally.event(now, core.CallFailed{Effect: accept})
	tally.effect(now, core.Decline{OfferIDs: []string{"o1"}, Reason: core.DeclinedFailed})
	tally.effect(now, core.Decline{OfferIDs: []string{"o2"}, Reason: core.DeclinedIdle})
	tally.event(now, core.Rescinded{OfferID: "o2"})
	tally.event(now, core.Rescinded{OfferID: "o3"})
	tally.effect(now, core.Reconcile{})
	tally.event(now, core.Disconnected{})
	if len(tally.offers)+len(tally.binds)+len(tally.launches) != 0 {
		t.Errorf("left: %+v", tally)
	}
	for name, want := range names {
		if got := minus(value(t, s, name), before[name]); got != want {
			t.Errorf("%s moved by %s from %q, want %s", name, got, before[name], want)
		}
	}
	// Series of kube-scheduler and of the process are there as well.
	for _, name := range []string{"mesopod_scheduler_works", "mesopod_scheduler_subscribed", `mesopod_scheduler_pods{stage="waiting"}`} {
		if got := value(t, s, name); got != "0" {
			t.Errorf("%s is %q before the scheduler works", name, got)
		}
	}
}

func update(id string, state mesos.TaskState, reason *mesos.TaskStatus_Reason) core.StatusUpdate {
	source := mesos.SOURCE_MASTER
	return core.StatusUpdate{Status: mesos.TaskStatus{TaskID: mesos.TaskID{Value: id}, State: &state, Source: &source, Reason: reason}}
}

// minus is the difference of two values; a series that is not there yet counts as zero.
func minus(after, before string) string {
	number := func(text string) float64 {
		var n float64
		if text != "" {
			if _, err := fmt.Sscan(text, &n); err != nil {
				return math.NaN()
			}
		}
		return n
	}
	return strconv.FormatFloat(number(after)-number(before), 'g', 6, 64)
}

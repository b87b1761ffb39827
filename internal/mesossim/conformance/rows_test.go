package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// suiteRow is a row that a test of this suite tries; the others are tried where our own clients are, or not at all.
const suiteRow = "suite"

// rows are those of the protocol's checklist. Each is "suite NAME", "test FOLDER NAME", "scenario FOLDER NAME", or "none: REASON".
var rows = map[int]string{
	1: "test executor/agentconn TestHalfFrames", 2: "test executor/agentconn TestHalfFrames", 3: "test scheduler/mesosconn TestHalfRecord",
	4: "test scheduler/mesosconn TestEvents", 6: "test executor/agentconn TestOtherEvents", 8: "test executor TestEnv",
	9:  "none: every agent of Mesos 1.9 to 1.11 sets MESOS_SLAVE_PID, and an executor without it refuses to start: executor TestEnvFaults",
	10: "test executor TestEnvFaults", 11: "test executor TestEnv", 12: "test executor TestEnvFaults", 13: "test executor/agentconn TestCheckpointOff",
	14: "suite agent_restart_14_54", 15: "test executor/agentconn TestGiveUpAfterRecoveryTimeout", 17: "test executor/agentconn TestRetryUntilAgentIsBack",
	18: "test internal/mesossim/survival TestExecutorSurvives", 19: "test internal/mesossim/survival TestExecutorSurvives",
	20: "test executor/agentconn TestRefused", 21: "test executor/agentconn TestRefused", 23: "test executor/agentconn TestLaunchUpdateAcknowledge",
	24: "suite executor_resubscribes_24_25_27", 25: "suite executor_resubscribes_24_25_27", 27: "suite executor_resubscribes_24_25_27",
	28: "test executor/ledger TestForget", 29: "test internal/mesossim/survival TestExecutorSurvives", 30: "suite malformed_executor_calls_20_30_31_34",
	31: "suite malformed_executor_calls_20_30_31_34", 32: "test executor/agentconn TestFailedSendReconnects",
	33: "test internal/mesossim/survival TestExecutorSurvives", 34: "test executor/agentconn TestMalformedStatus", 35: "suite terminal_is_final_35_43",
	37: "suite kill_before_delivery_37", 38: "scenario executor/core kill_with_grace", 40: "suite kill_40_41", 41: "suite kill_40_41",
	42: "scenario executor/core unknown_kill", 43: "suite terminal_is_final_35_43",
	44: "none: the scheduler that starts our executor always has the capability TASK_KILLING_STATE",
	45: "scenario executor/core kill_with_grace", 46: "suite shutdown_46", 47: "scenario executor/core shutdown", 49: "test executor/agentconn TestShutdownFirst",
	50: "none: pods are tasks, our scheduler sends no LAUNCH_GROUP; tasks of one are taken one by one",
	51: "none: as 50", 52: "test test/e2e TestExecutorRefusesBadTasks", 53: "scenario executor/core duplicate", 54: "suite agent_restart_14_54",
	55: "suite executor_ends_55_56_95", 56: "suite executor_ends_55_56_95", 57: "test test/e2e TestRunning", 58: "test executor/podstate TestSameToMesos",
	59: "test executor/agentconn TestLaunchUpdateAcknowledge", 60: "suite subscribe_60_62", 62: "suite subscribe_60_62", 63: "suite failover_63_121",
	64: "test scheduler/mesosconn TestStaleStream", 65: "test scheduler/mesosconn TestNoLeaderThenRedirect",
	67: "test internal/mesossim/survival TestSchedulerSurvives", 68: "test scheduler/mesosconn TestNoLeaderThenRedirect",
	69: "none: neither system here has a ZooKeeper; who detects masters by it tries it in scheduler/mesosconn", 70: "none: as 69",
	71: "test scheduler/mesosconn TestSilence", 73: "suite teardown_73", 74: "suite resubscribe_74_76", 75: "test scheduler TestStoredFrameworkID",
	76: "suite resubscribe_74_76", 77: "suite stale_offers_77", 78: "suite offers_of_two_agents_78", 79: "suite several_roles_79",
	80: "suite decline_filters_80", 81: "suite suppress_and_revive_80_81_82", 82: "suite suppress_and_revive_80_81_82", 83: "scenario scheduler/core rescind",
	84: "suite update_retried_until_acknowledged_84", 85: "suite unacknowledged_replayed_85", 86: "test scheduler/mesosconn TestCallFails",
	88: "suite reconcile_88", 89: "suite agent_lost_89", 90: "suite refused_tasks_90", 91: "scenario scheduler/core kill",
	92: "suite kill_of_an_unknown_task_92", 94: "suite executor_reuse_94", 95: "suite executor_ends_55_56_95", 96: "suite drain_96",
	98: "suite maintenance_98_99", 99: "suite maintenance_98_99", 100: "test internal/mesossim/allocator TestWhoMay", 101: "suite refused_frameworks_101",
	102: "suite launch_102_104", 103: "test scheduler/mesosconn TestAuthentication", 104: "suite launch_102_104", 105: "test test/e2e TestSandboxLog",
	106: helper, 107: helper, 108: helper, 109: helper, 110: helper, 111: helper, 112: helper, 113: helper, 114: helper, 116: helper, 117: helper, 118: helper,
	119: inProcess, 120: inProcess, 121: "suite failover_63_121",
}

const (
	helper    = "none: about the contract of Mesos' launch helper, which is Mesos' own here, and which the simulator does without"
	inProcess = "none: about Mesos in the process of its caller, which neither system is"
)

// TestRows: each row of the checklist has a test that is there, or a reason.
func TestRows(t *testing.T) {
	inSuite := map[string]bool{}
	for _, one := range suite {
		inSuite[one.name] = true
	}
	for row, text := range rows {
		kind, rest, _ := strings.Cut(text, " ")
		switch folder, name, _ := strings.Cut(rest, " "); kind {
		case suiteRow:
			if !inSuite[rest] {
				t.Errorf("row %d: the suite has no %s", row, rest)
			}
		case "test":
			if !hasTest(t, folder, name) {
				t.Errorf("row %d: no %s in %s", row, name, folder)
			}
		case "scenario":
			if _, err := os.Stat(filepath.Join("../../..", folder, "testdata", name)); err != nil {
				t.Errorf("row %d: %v", row, err)
			}
		case "none:":
			if len(rest) < 5 {
				t.Errorf("row %d has no reason", row)
			}
		default:
			t.Errorf("row %d: %q", row, text)
		}
	}
	// The checklist counts to 121 and has dropped these numbers.
	dropped := map[int]bool{}
	for _, n := range []int{5, 7, 16, 22, 26, 36, 39, 48, 61, 66, 72, 87, 93, 97, 115} {
		dropped[n] = true
	}
	for row := 1; row <= 121; row++ {
		if (rows[row] != "") == dropped[row] {
			t.Errorf("row %d: %q", row, rows[row])
		}
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(`(?m)^func ` + name + `\(`)
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && pattern.Match(data) {
			return true
		}
	}
	return false
}

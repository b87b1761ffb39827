package conformance

import "testing"

// suite is what both systems have to do, in the order in which it is tried. Numbers are rows of the protocol's checklist.
var suite = []struct {
	name string
	run  func(*testing.T, system)
}{
	{"subscribe_60_62", subscribes},
	{"subscribe_in_json", subscribesInJSON},
	{"malformed_scheduler_calls", malformedCalls},
	{"refused_frameworks_101", refusedFrameworks},
	{"resubscribe_74_76", resubscribes},
	{"failover_63_121", failsOver},
	{"disconnect_keeps_the_id", disconnects},
	{"teardown_73", tearsDown},
	{"launch_102_104", launches},
	{"malformed_executor_calls_20_30_31_34", malformedExecutorCalls},
	{"executor_reuse_94", reusesExecutor},
	{"incompatible_executor", refusesOtherExecutor},
	{"refused_tasks_90", refusesTasks},
	{"stale_offers_77", staleOffers},
	{"offers_of_two_agents_78", twoAgents},
	{"update_retried_until_acknowledged_84", retriesUpdate},
	{"unacknowledged_replayed_85", replaysUnacknowledged},
	{"one_update_at_a_time", oneAtATime},
	{"terminal_is_final_35_43", terminalIsFinal},
	{"executor_resubscribes_24_25_27", executorResubscribes},
	{"kill_40_41", kills},
	{"kill_before_delivery_37", killsBeforeDelivery},
	{"kill_of_an_unknown_task_92", killsUnknown},
	{"shutdown_46", shutsDown},
	{"executor_ends_55_56_95", executorEnds},
	{"executor_never_subscribes", neverSubscribes},
	{"message", messages},
	{"reconcile_88", reconciles},
	{"decline_filters_80", filters},
	{"suppress_and_revive_80_82", suppresses},
	{"without_capabilities", withoutCapabilities},
	{"reservation", reserves},
	{"drain_96", drains},
	{"deactivate", deactivates},
	{"maintenance_98_99", maintains},
	{"agent_restart_14_54", restartsAgent},
	{"agent_restart_without_its_executor", restartsAgentAlone},
	{"agent_lost_89", losesAgent},
	{"agent_gone", marksGone},
}

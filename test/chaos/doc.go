// Package chaos kills parts of a cluster at random while some 200 pods come and go, and holds what master and API server show
// meanwhile against the laws of history. The cluster is `mesopod local` on the simulated Mesos: two agents run pods, ten act
// them out.
//
//	make test-chaos                  ten minutes of it (MESOPOD_CHAOS=10m)
//	MESOPOD_CHAOS_SEED=7 make ...    the same choices again; a run prints its seed
//
// Files: history_test.go has the laws, storm_test.go the trouble, churn_test.go the pods.
package chaos

// Package kills tests what becomes of pods when parts of an agent are killed with SIGKILL, alone and in pairs: executor,
// keeper, containerd, the shims, the Mesos agent. At each kill there is a pod in each phase of its life, so every kill
// is tried in every phase at once:
//
//	launching  the executor has the LAUNCH, and its binding is under way: an admission webhook of the test holds it
//	starting   the pod is bound, and its init container waits
//	running    its container runs
//	killing    it is being deleted, and its container does not heed SIGTERM
//
// The pods and the webhook make the phases, not points in the programs: what is tested is what is delivered (ADR 022).
//
// A few kills are made in every run. MESOPOD_KILLS=all makes all of them, MESOPOD_KILLS_LAUNCHER=posix under the posix
// launcher; `make test-kills` does both.
package kills

// Package resources tests what pods may use of an agent, on a real Mesos with the linux launcher and the isolators
// cgroups/cpu and cgroups/mem: a pod that takes too much is ended alone, and the end of pods never ends others. CI
// runs it with cgroups_enable_cfs, which makes Mesos give every container a CPU quota.
//
// With MESOPOD_LONG=1 a hundred pods end, and all runs a second time without that flag, where Mesos has quotas only as
// long as all tasks have limits.
package resources

// Package kubelet is the one door to the upstream kubelet: it starts it inside this process and feeds it pods.
//
// Order of calls: Start once per process (a second kubelet in one process panics in its metrics registry), wait for
// the PodsAPI socket to answer (Ready), then Feed whole sets of pods. Ended tells when the kubelet gave up by itself.
//
// Why the set-up differs from an ordinary kubelet:
//   - The pods come from our own channel, so that a pod runs only when Mesos launched its task. The channel bears the
//     name "api": under any other name the kubelet takes every pod for a static one and never writes its status.
//   - The machine's size is that of the Mesos resources (a wrapper around cadvisor), since the kubelet would count the
//     whole machine, and Mesos gave us a part of it.
//   - The kubelet stays in the cgroup that the keeper made, so that Mesos' limits hold for pods too.
//
// The kubelet owns goroutines that survive its context (sync loop, servers, lease), and it may end the whole process
// by itself. Its end is the end of the process; pods outlive it and are adopted by the next one.
//
// What it touches outside of its folders: the sysctls vm.overcommit_memory, kernel.panic and kernel.panic_on_oops
// (refusing to start is the only other choice upstream gives), symbolic links in /var/log/containers, and the socket
// of the device plugin registry, which stands at a fixed place below /var/lib/kubelet. Two kubelets on one machine
// replace each other's socket there; both stay healthy, but device plugins then reach the last one only.
package kubelet

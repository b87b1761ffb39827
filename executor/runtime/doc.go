// Package runtime is the private container runtime of one executor: a containerd with its own root, state and socket,
// and a CNI bridge, all below one state folder. Nothing of another containerd on the machine is seen or touched.
//
// Order of calls: New, Run in a goroutine of the caller's group, wait for Ready, then Import and Live. Run starts
// containerd, starts it again when it dies or is silent for long (containers live on in their shims), and ends it when its context ends, so
// whoever cancels has ended the pods before. Run owns all goroutines.
//
// The state folder stays between executors of one agent: images need no second import and what an executor left
// behind is found. It must be short, since it holds sockets (107 bytes at most), and outside of the sandbox.
//
//	STATE/containerd.sock  STATE/containerd.toml      STATE/root  STATE/state      containerd's
//	STATE/cni/net.d  STATE/cni/ipam                   network configuration and leases
//	STATE/lock  STATE/container                       who lives here (package statedir)
//	STATE/imported                                    one mark per imported archive
//
// containerd is a child in our session and in our cgroup: Mesos ends an executor by session and tree, or by cgroup.
package runtime

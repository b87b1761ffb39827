// Package simulated holds the tests of mesopod on the simulated Mesos: the same kubelet, containerd and API server as
// everywhere, and master and agents that can be told to fail.
package simulated

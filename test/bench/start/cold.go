package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mesopod/mesopod/internal/bundle"
	harness "github.com/mesopod/mesopod/test/cluster"
)

const (
	// coldTarget bounds the start of a pod on an agent without an executor, its host having the bundle.
	coldTarget = 10 * time.Second
	// keeperTarget is in MB (10^6 bytes).
	keeperTarget = 12.0
	coldRounds   = 5
)

// cold measures the first pod of agents without executor, whose programs come from the scheduler: the first agent's host
// has no bundle, all others' have it, since it is the same host. It starts a cluster with an agent for each round.
func cold(ctx context.Context, bundleDir string) (retErr error) {
	archives, err := os.MkdirTemp("", "mesopod-bench-")
	if err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, os.RemoveAll(archives)) }()
	began := time.Now()
	digest, err := bundle.Create(bundleDir, archives)
	if err != nil {
		return err
	}
	figure("bundle-pack", time.Since(began).Seconds(), "s")
	archive := filepath.Join(archives, string(digest))
	info, err := os.Stat(archive)
	if err != nil {
		return err
	}
	figure("bundle-size", float64(info.Size())/1e6, "MB")
	c := harness.New(harness.Options{Name: "bench-cold", Agents: coldRounds, Quiet: true, Flags: []string{
		"--scheduler-flag=bundle=" + archive, "--scheduler-flag=bundle-cache=" + filepath.Join(archives, "cache"),
	}})
	if err := c.Start(); err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, c.Stop(), c.Reset()) }()
	var cached []time.Duration
	for n := 1; n <= coldRounds; n++ {
		pod := harness.OnNode(podNamed(fmt.Sprintf("cold-%d", n)), c.Node(n))
		pod.Spec.Containers[0].Resources.Requests = harness.Requests("20m", "32Mi")
		took, err := startPodOf(ctx, c.Client, pod)
		if err != nil {
			return err
		}
		if n == 1 {
			figure("cold-agent-pod-start-uncached", took.Seconds(), "s")
			continue
		}
		cached = append(cached, took)
	}
	slices.Sort(cached)
	met := limited("cold-agent-pod-start-cached", quantile(cached, 0.5), coldTarget)
	keeper, err := keeperMemory(c)
	if err != nil {
		return err
	}
	fmt.Printf("figure keeper-pss %.3f MB target <= %g\n", keeper, keeperTarget)
	if !met || keeper > keeperTarget {
		return errors.New("a target of cold agents is not met")
	}
	return nil
}

// keeperMemory is the Pss of the keeper that fetched the bundle. Its watchdog is not in it.
func keeperMemory(c *harness.Cluster) (float64, error) {
	pid, err := c.PartPID(c.OfAgent(1), harness.KeeperWords)
	if err != nil {
		return 0, err
	}
	return pss(fmt.Sprintf("/proc/%d", pid))
}

package cluster

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Suite is how the tests of a package run on one cluster.
type Suite struct {
	Cluster *Cluster
	// Started, if set, is called when the cluster is up, before the first test.
	Started func()
	// Afterwards, if set, is one more test: it runs when the cluster has ended, in whole runs only, may start the cluster
	// again, and must leave the machine as it found it. Its name is AfterwardsName.
	Afterwards     func() error
	AfterwardsName string
}

// Run is TestMain with an exit code.
func (s Suite) Run(m *testing.M) int {
	c := s.Cluster
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name, err)
		return 1
	}
	if err := c.checkMachine(); err != nil {
		return fail(err)
	}
	before, err := c.takeSnapshot()
	if err != nil {
		return fail(fmt.Errorf("look at the machine: %w", err))
	}
	code := 1
	if err = c.Start(); err == nil {
		if s.Started != nil {
			s.Started()
		}
		code = m.Run()
		err = c.Stop()
	}
	if err != nil {
		code = fail(err)
	}
	if code = max(code, c.report("NothingLeft", before, nil)); code != 0 {
		c.showLogs()
		return code
	}
	// Not when single tests were asked for.
	if s.Afterwards != nil && flag.Lookup("test.run").Value.String() == "" {
		return c.report(s.AfterwardsName, before, s.Afterwards())
	}
	return c.report("NothingLeftAfterReset", before, c.Reset())
}

// report tells, as a test would, whether the machine is what it was before; it returns an exit code.
func (c *Cluster) report(name string, before snapshot, err error) int {
	left := c.nothingLeft(before)
	if err == nil && len(left) == 0 {
		fmt.Println("--- PASS:", name)
		return 0
	}
	fmt.Fprintf(os.Stderr, "--- FAIL: %s: %v\n\t%s\n", name, err, strings.Join(left, "\n\t"))
	return 1
}

// checkMachine removes what an earlier run that was killed has left.
func (c *Cluster) checkMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("run as root: local mode makes network namespaces, mounts and cgroups")
	}
	needed := []string{Mesopod(), filepath.Join(BundleDir(), "mesopod-keeper")}
	if c.Mesos != "sim" {
		needed = append(needed, filepath.Join(MesosDir(), "mesos-agent"))
	}
	for _, path := range needed {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%w: first: make mesos runtime images build", err)
		}
	}
	return c.Reset()
}

// showLogs prints the ends of all logs, for who has to find out what went wrong.
func (c *Cluster) showLogs() {
	for _, pattern := range []string{
		"logs/scheduler.log", "logs/mesos-agent*.log", "logs/mesos-master.log", "logs/mesos-sim.log",
		"agent*/work/slaves/*/frameworks/*/executors/*/runs/*/std*",
		"agent*/work/slaves/*/frameworks/*/executors/*/runs/*/containerd.log",
	} {
		paths, _ := filepath.Glob(filepath.Join(c.StateDir, pattern)) // the patterns are good
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil || len(data) == 0 || strings.Contains(path, "/latest/") {
				continue
			}
			lines := strings.Split(strings.TrimSpace(string(data)), "\n")
			fmt.Fprintf(os.Stderr, "---- end of %s\n%s\n", path, strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	}
}

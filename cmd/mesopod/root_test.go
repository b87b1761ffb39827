//go:build !agent

package main

import (
	"path/filepath"
	"testing"

	"github.com/mesopod/mesopod/cmd/internal/cli"
)

// What the user got wrong ends with exit code 2: trying again cannot help.
func TestExitCodeOfUsage(t *testing.T) {
	nothing := filepath.Join(t.TempDir(), "nothing")
	for name, args := range map[string][]string{
		"unknown flag":         {"local", "--nope"},
		"argument":             {"local", "extra"},
		"argument below":       {"local", "reset", "extra"},
		"no such bundle":       {"local", "--bundle-dir=" + nothing},
		"no such Mesos":        {"local", "--mesos=real", "--mesos-dir=" + nothing},
		"resources":            {"local", "--agent-resources=cpus:x"},
		"executor's config":    {"executor", "--config=" + nothing},
		"scheduler's config":   {"scheduler", "--config=" + nothing},
		"config to check":      {"config", "validate", nothing},
		"nothing to check":     {"config", "validate"},
		"scheduler's identity": {"scheduler", "--master=127.0.0.1:1", "--kubeconfig=" + nothing},
	} {
		root := newRootCommand()
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%s: exit code %d, want %d: %v", name, cli.ExitCode(err), cli.ExitUsage, err)
		}
	}
}

// kubectl without a cluster is told so once, unless its command needs none.
func TestNeedsCluster(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{"get", "pods"}, true},
		{[]string{"-v=4", "get", "pods"}, true},
		{[]string{"version"}, true},
		{[]string{"version", "--client"}, false},
		{[]string{"get", "--help"}, false},
		{[]string{"completion", "bash"}, false},
		{nil, false},
	} {
		if got := needsCluster(c.args); got != c.want {
			t.Errorf("needsCluster(%q) = %t, want %t", c.args, got, c.want)
		}
	}
}

//go:build !agent

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/mesopod/mesopod/scheduler"
)

// Flags win over the file, the file over the defaults; a flag that says what is default wins too.
func TestLayers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	document := "apiVersion: mesopod.io/v1alpha1\nkind: SchedulerConfig\nmaster: file:5050\nuser: somebody\nfailoverTimeout: 2h\nschedulerNames: [file]\npreemption: true\n"
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	l := newLayers(set, (*scheduler.Config).Settings)
	if err := set.Parse([]string{"--config=" + file, "--user=root", "--scheduler-names=one,two", "--scheduler-names=three", "--preemption=false"}); err != nil {
		t.Fatal(err)
	}
	cfg, err := l.read(scheduler.Config.Faults)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Master != "file:5050" || cfg.User != "root" || cfg.FailoverTimeout.Hours() != 2 || cfg.Preemption ||
		!slices.Equal(cfg.SchedulerNames, []string{"one", "two", "three"}) || cfg.FrameworkName != "mesopod" {
		t.Errorf("got %+v", cfg)
	}
}

// Verbs for people take the scheduler's file, and look at their part of it only.
func TestOperatorLayers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: mesopod.io/v1alpha1\nkind: SchedulerConfig\nmaster: file:5050\nprincipal: framework\nuser: ''\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	l := newLayers(set, (*scheduler.Config).MesosSettings)
	if err := set.Parse([]string{"--config=" + file, "--principal=ops"}); err != nil {
		t.Fatal(err)
	}
	cfg, err := l.read(scheduler.Config.MesosFaults)
	if err != nil || cfg.Master != "file:5050" || cfg.Principal != "ops" {
		t.Errorf("got %+v, error %v", cfg, err)
	}
	if set.Lookup("user") != nil {
		t.Error("the verb has a flag of the scheduler's")
	}
}

func TestConfigVerbs(t *testing.T) {
	run := func(args ...string) (string, error) {
		root := newRootCommand()
		var out strings.Builder
		root.SetOut(&out)
		root.SetArgs(args)
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	document, err := run("config", "default")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	validate := func(text string) (string, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return run("config", "validate", file)
	}
	// All that is missing in the default document is the master.
	if out, err := validate(document); err == nil || !strings.Contains(err.Error(), "master: no master named") || strings.Contains(err.Error(), "faults") {
		t.Errorf("the default document: %q, %v", out, err)
	}
	if out, err := validate(strings.Replace(document, `master: ""`, `master: "m:5050"`, 1)); err != nil || out != file+" is valid\n" {
		t.Errorf("with a master: %q, %v", out, err)
	}
}

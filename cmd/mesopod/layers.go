//go:build !agent

package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/mesopod/mesopod/internal/settings"
	"github.com/mesopod/mesopod/scheduler"
)

// layers are where the scheduler's settings come from: defaults, a file over them, flags over both.
type layers struct {
	set  *pflag.FlagSet
	file string
	// choose are the settings that the verb has; flagged is where its flags put theirs, list are these.
	choose  func(*scheduler.Config) []settings.Setting
	flagged scheduler.Config
	list    []settings.Setting
}

// newLayers puts a flag for each of the settings onto set, and --config.
func newLayers(set *pflag.FlagSet, choose func(*scheduler.Config) []settings.Setting) *layers {
	l := &layers{set: set, choose: choose, flagged: scheduler.DefaultConfig()}
	set.StringVar(&l.file, "config", "", "configuration file of the scheduler: see mesopod config default")
	l.list = choose(&l.flagged)
	for _, s := range l.list {
		if s.Flag != "" {
			addFlag(set, s)
		}
	}
	return l
}

func addFlag(set *pflag.FlagSet, s settings.Setting) {
	switch v := s.Value.(type) {
	case *string:
		set.StringVar(v, s.Flag, *v, s.Help)
	case *bool:
		set.BoolVar(v, s.Flag, *v, s.Help)
	case *int:
		set.IntVar(v, s.Flag, *v, s.Help)
	case *float64:
		set.Float64Var(v, s.Flag, *v, s.Help)
	case *time.Duration:
		set.DurationVar(v, s.Flag, *v, s.Help)
	case *[]string:
		set.StringSliceVar(v, s.Flag, *v, s.Help)
	default:
		panic("setting " + s.Key + " has a flag, but no type that flags have")
	}
}

// read lays the layers over each other, and tells all that is wrong with them and by check: errdefs.ErrInvalid.
func (l *layers) read(check func(scheduler.Config) []settings.Fault) (scheduler.Config, error) {
	cfg, document, faults := scheduler.DefaultConfig(), &settings.Document{}, []settings.Fault(nil)
	if l.file != "" {
		var err error
		if cfg, document, faults, err = scheduler.ReadConfig(l.file); err != nil {
			return cfg, err
		}
	}
	for i, to := range l.choose(&cfg) {
		if to.Flag != "" && l.set.Changed(to.Flag) {
			settings.Copy(to, l.list[i])
			document.Given(to)
		}
	}
	return cfg, document.Error("scheduler configuration", append(faults, check(cfg)...))
}

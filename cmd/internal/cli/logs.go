package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/golang/glog"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// glogFlags are the flags of glog that people may set, with our words.
var glogFlags = []struct{ name, shorthand, usage string }{
	{"v", "v", "how much to log: 0 is life events, 1 decisions, 2 every event, 3 and 4 the wire"},
	{"vmodule", "", "PATTERN=N,...: another --v for source files that match"},
	{"logtostderr", "", "log to stderr instead of files in the folder for temporary files"},
}

// AddLogFlags puts glog's flags onto set. --logtostderr is true unless it is set.
func AddLogFlags(set *pflag.FlagSet) {
	for _, f := range glogFlags {
		known := flag.CommandLine.Lookup(f.name)
		if f.name == "logtostderr" {
			// Files in a folder for temporary files are glog's default and nobody's wish. It cannot fail: the value is a boolean.
			_ = known.Value.Set("true")
			known.DefValue = "true"
		}
		p := pflag.PFlagFromGoFlag(known)
		p.Shorthand, p.Usage = f.shorthand, f.usage
		set.AddFlag(p)
	}
}

// StartLogs makes klog follow the parsed flags of glog. With kubernetes nil both write one stream; else klog writes to
// it and glog where it did, so that a program with a screen of its own can keep the Kubernetes parts off it. Call it
// once, before anything logs.
func StartLogs(kubernetes io.Writer) error {
	// Components that share a process each apply their logging settings; the same settings again are no fault.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	// The flags were parsed by cobra. This only tells whoever asks that they were.
	if err := flag.CommandLine.Parse(nil); err != nil {
		return fmt.Errorf("start logs: %w", err)
	}
	private := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(private)
	value := func(name string) string { return flag.CommandLine.Lookup(name).Value.String() }
	toStderr := kubernetes == nil && value("logtostderr") == "true"
	settings := map[string]string{
		"v":           value("v"),
		"vmodule":     value("vmodule"),
		"logtostderr": fmt.Sprint(toStderr),
		"one_output":  "true",
		// klog's own copy to stderr, which it makes even where its output was set.
		"stderrthreshold": "FATAL",
		// glog writes the header where its files are.
		"skip_headers": fmt.Sprint(kubernetes == nil && !toStderr),
	}
	var errs []error
	for name, setting := range settings {
		if err := private.Set(name, setting); err != nil {
			errs = append(errs, fmt.Errorf("set klog's flag %s to %q: %w", name, setting, err))
		}
	}
	switch {
	case kubernetes != nil:
		klog.SetOutput(kubernetes)
	case !toStderr:
		klog.SetOutputBySeverity("INFO", glogWriter(glog.Info))
		klog.SetOutputBySeverity("WARNING", glogWriter(glog.Warning))
		klog.SetOutputBySeverity("ERROR", glogWriter(glog.Error))
		klog.SetOutputBySeverity("FATAL", os.Stderr)
	}
	return errors.Join(errs...)
}

// FlushLogs writes out what both loggers hold back. main calls it last.
func FlushLogs() {
	klog.Flush()
	glog.Flush()
}

// LogArgs are the flags that make a child of this program log as it does.
func LogArgs() []string {
	var args []string
	for _, f := range glogFlags {
		if v := flag.CommandLine.Lookup(f.name).Value.String(); v != "" {
			args = append(args, "--"+f.name+"="+v)
		}
	}
	return args
}

// glogWriter hands lines to one of glog's functions.
type glogWriter func(args ...any)

func (w glogWriter) Write(line []byte) (int, error) {
	w(strings.TrimSuffix(string(bytes.TrimSpace(line)), "\n"))
	return len(line), nil
}

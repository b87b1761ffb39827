package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/golang/glog"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

func TestExitCode(t *testing.T) {
	plain := errors.New("x")
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"success", nil, ExitOK},
		{"no code", plain, ExitFailed},
		{"usage", Usage(plain), ExitUsage},
		{"wrapped", fmt.Errorf("local: %w", WithCode(plain, ExitKubelet)), ExitKubelet},
		{"joined", errors.Join(plain, Usage(plain)), ExitUsage},
		{"of another process", fmt.Errorf("child: %w", &exec.ExitError{ProcessState: &os.ProcessState{}}), ExitFailed},
		{"nil stays nil", Usage(nil), ExitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ExitCode(c.err); got != c.want {
				t.Errorf("ExitCode(%v) = %d, want %d", c.err, got, c.want)
			}
		})
	}
	if !errors.Is(Usage(plain), plain) {
		t.Error("a coded error hides its cause")
	}
}

// The flags are glog's, and klog follows them, into its own stream where one is given. One test only: both loggers
// belong to the process.
func TestLogs(t *testing.T) {
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddLogFlags(set)
	if got := set.Lookup("logtostderr").DefValue; got != "true" {
		t.Errorf("default of --logtostderr = %s, want true", got)
	}
	if err := set.Parse([]string{"-v=3", "--vmodule=quiet=0"}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := StartLogs(&out); err != nil {
		t.Fatal(err)
	}
	if !glog.V(3) || glog.V(4) {
		t.Error("glog is not at verbosity 3")
	}
	klog.V(3).Info("shown")
	klog.V(4).Info("hidden")
	klog.Flush()
	if got := out.String(); !strings.Contains(got, "cli_test.go") || !strings.Contains(got, "] shown\n") || strings.Contains(got, "hidden") {
		t.Errorf("klog wrote %q, want one line \"shown\" with its place", got)
	}
	want := "--v=3 --vmodule=quiet=0 --logtostderr=true"
	if got := strings.Join(LogArgs(), " "); got != want {
		t.Errorf("LogArgs() = %q, want %q", got, want)
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if err := Build().Print(&out, "json"); err != nil {
		t.Fatal(err)
	}
	var got Info
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got != Build() {
		t.Errorf("JSON says %+v, want %+v", got, Build())
	}
	if err := Build().Print(&out, "xml"); ExitCode(err) != ExitUsage {
		t.Errorf("format xml: %v, want a usage error", err)
	}
}

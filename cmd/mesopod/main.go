// Command mesopod runs Kubernetes pods on Apache Mesos agents. One program has a verb for each part: scheduler,
// executor, local; and kubectl for people.
//
// Exit codes: 0 success, or an end that was asked for; 1 failed; 2 wrong flags, arguments or configuration; 3 the
// executor's kubelet ended, 4 its agent is lost, 5 it is to start again with another configuration. `mesopod kubectl`
// exits as kubectl does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mesopod/mesopod/cmd/internal/cli"
)

func main() {
	err := newRootCommand().ExecuteContext(context.Background())
	cli.FlushLogs()
	if err != nil && !errors.Is(err, cli.ErrSilent) {
		// Several faults are a line each.
		fmt.Fprintln(os.Stderr, "mesopod:", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	os.Exit(cli.ExitCode(err))
}

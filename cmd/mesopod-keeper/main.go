// Command mesopod-keeper is the thin parent of the executor, and the program that the Mesos agent starts.
//
// It is small and static, so that the agent's fetcher copies little into each sandbox, and it does what must be done
// before and after the executor lives: it makes the cgroups that the kubelet needs and Mesos does not make, joins
// them, starts `mesopod executor` from the bundle as its child, hands SIGTERM and SIGINT on, reaps what is orphaned
// below it, and at the end kills and removes what is left. It never calls setsid: under posix isolation Mesos ends an
// executor by session and process tree.
//
// It exits with the executor's code, 128 plus the number of the signal that killed it, or 70 when it could not start.
package main

import (
	"flag"
	"fmt"
	"os"
)

// exitUnable says that the executor was not started.
const exitUnable = 70

func main() {
	bundle := flag.String("bundle-dir", "/opt/mesopod", "the folder with mesopod's programs")
	flag.Parse()
	config := os.Getenv("MESOPOD_EXECUTOR_CONFIG")
	if config == "" {
		config = "/etc/mesopod/executor.yaml"
	}
	code, err := keep(*bundle, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mesopod-keeper:", err)
	}
	os.Exit(code)
}

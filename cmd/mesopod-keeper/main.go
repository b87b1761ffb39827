// Command mesopod-keeper is the thin parent of the executor, and the program that the Mesos agent starts.
//
// It is small and static, so that the agent's fetcher copies little into each sandbox, and it does what must be done
// before and after the executor lives: it makes the cgroups that the kubelet needs and Mesos does not make, joins
// them, starts `mesopod executor` from the bundle as its child, hands SIGTERM and SIGINT on, reaps what is orphaned
// below it, and at the end kills and removes what is left. It never calls setsid: under posix isolation Mesos ends an
// executor by session and process tree.
//
// An executor that crashes is started again, after 1 s and twice as long each time up to 30 s; a life of a minute
// begins a new row. Its containers live on meanwhile, and Mesos sees nothing. After an end that was asked for or
// decided (0, 2 wrong configuration, 3 the kubelet ended, 4 the agent is lost) the keeper ends too, with the
// executor's code, 128 plus the number of the signal that killed it, or 70 when it could not start.
//
// `mesopod-keeper watchdog` is the keeper's other half (watchdog.go): should the keeper be killed, it ends what the
// keeper would have ended.
package main

import (
	"flag"
	"fmt"
	"os"
)

// exitUnable says that the executor was not started.
const exitUnable = 70

func main() {
	if len(os.Args) > 1 && os.Args[1] == watchdogVerb {
		if err := watch(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "mesopod-keeper: watchdog:", err)
			os.Exit(1)
		}
		return
	}
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

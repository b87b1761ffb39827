// Package scheduler breaks the rules of a shell.
package scheduler

import (
	"context"
	"flag" // want: flags
	"log"  // want: one-log
	"time"

	"github.com/golang/glog"
	_ "github.com/mesos/mesos-go/api/v1/lib/scheduler" // want: mesos-wire
	_ "k8s.io/kubernetes/pkg/scheduler"                // want: kubernetes-doors
	. "strings"                                        // want: dot-import

	_ "broken.example/cmd/mesopod"           // want: cmd-on-top
	_ "broken.example/executor/core"         // want: two-programs
	_ "broken.example/internal/controlplane" // want: local-mode
	_ "broken.example/internal/mesossim"     // want: simulator-apart
	_ "testing"                              // want: no-testing
)

func run() {
	ctx := context.Background() // want: context-root
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	time.Sleep(time.Second) // want: no-sleep
	log.Fatalf("no")        // want: main-exits
	glog.Exitf("no")        // want: main-exits
	flag.Parse()
	_ = ToLower("")
	go run()
}

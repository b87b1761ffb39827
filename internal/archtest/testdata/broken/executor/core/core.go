// Package core breaks the rules of a core.
package core

import (
	"context"
	"math/rand"
	random "math/rand/v2"
	_ "net/http" // want: core-io
	_ "net/url"
	"os"   // want: core-io
	"sync" // want: core-io
	clock "time"

	_ "github.com/mesos/mesos-go/api/v1/lib"
	_ "github.com/mesos/mesos-go/api/v1/lib/httpcli" // want: core-io // want: mesos-doors
	"github.com/pborman/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/client-go/kubernetes" // want: core-io

	_ "broken.example/executor/agentconn" // want: core-neighbours
	_ "broken.example/executor/ledger"
	_ "broken.example/scheduler/core" // want: two-programs
)

var mu sync.Mutex

var started = clock.Now() // want: core-clock

func run(ctx context.Context, timeout clock.Duration) {
	go step()                    // want: core-clock
	wait := clock.After(timeout) // want: core-clock
	<-wait
	now := metav1.Now() // want: core-clock
	_ = metav1.NewTime(now.Add(timeout))
	_ = rand.Intn(3) // want: core-clock
	_ = rand.New(rand.NewSource(1)).Intn(3)
	_ = random.N(3)                                  // want: core-clock
	_ = uuid.NewRandom()                             // want: core-clock
	ctx, cancel := context.WithTimeout(ctx, timeout) // want: core-clock
	defer cancel()
	// A variable named like the package is not the package.
	var time struct{ Now func() }
	time.Now()
}

func step() { os.Exit(1) } // want: main-exits

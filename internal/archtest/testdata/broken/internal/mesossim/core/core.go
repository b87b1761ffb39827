// Package core breaks the rules of the simulator's core.
package core

import (
	_ "github.com/mesos/mesos-go/api/v1/lib/scheduler"
	_ "os" // want: simulator-core
)

// Package mesosconn is a door, and keeps the rules.
package mesosconn

import (
	_ "github.com/mesos/mesos-go/api/v1/lib/httpcli/httpsched"
	_ "github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

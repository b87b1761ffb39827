package scheduler

import (
	_ "testing"

	_ "broken.example/internal/controlplane"
	_ "github.com/mesos/mesos-go/api/v1/lib/recordio" // want: mesos-doors
	_ "github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

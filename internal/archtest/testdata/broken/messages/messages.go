// Package messages breaks the rules of the floor.
package messages

import (
	_ "broken.example/executor/core" // want: floor
	_ "broken.example/internal/errdefs"
	_ "github.com/golang/glog"               // want: floor // want: core-io
	_ "github.com/mesos/mesos-go/api/v1/lib" // want: floor
	_ "k8s.io/api/core/v1"
)

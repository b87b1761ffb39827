package kubelet

import (
	"bytes"
	"fmt"
	"io"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// chatter are lines that the kubelet logs at every call of its PodsAPI, whatever its verbosity. We call it each second.
var chatter = [][]byte{[]byte(`"ListPods called"`), []byte(`"GetPod called"`)}

// quiet is a writer that drops chatter. Log entries reach it one per call.
type quiet struct{ out io.Writer }

// Write implements io.Writer.
func (q quiet) Write(entry []byte) (int, error) {
	for _, line := range chatter {
		if bytes.Contains(entry, line) {
			return len(entry), nil
		}
	}
	return q.out.Write(entry)
}

// setUpLogging directs the kubelet's log to stderr without the chatter. The logging configuration of a process is set
// once; whoever set the same before us is no error.
func setUpLogging(config *logsapi.LoggingConfiguration) error {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	streams := &logsapi.LoggingOptions{ErrorStream: quiet{os.Stderr}, InfoStream: quiet{os.Stderr}}
	if err := logsapi.ValidateAndApplyWithOptions(config, streams, utilfeature.DefaultFeatureGate); err != nil {
		return fmt.Errorf("kubelet logging: %w", err)
	}
	return nil
}

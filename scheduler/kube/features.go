package kube

import (
	"fmt"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/internal/settings"
)

// CheckFeatureGates tells what is wrong with feature gates of Kubernetes, each NAME=true or NAME=false: a name that is not known, a
// gate that is locked, one that needs another. Nothing is set. The key of faults is key.
func CheckFeatureGates(key string, gates []string) []settings.Fault {
	if err := utilfeature.DefaultMutableFeatureGate.DeepCopy().Set(strings.Join(gates, ",")); err != nil {
		return []settings.Fault{{Key: key, Err: err}}
	}
	return nil
}

// setFeatureGates sets gates of this process, of which kube-scheduler has no others. Gates that are not named stay as they are.
func setFeatureGates(gates []string) error {
	if err := utilfeature.DefaultMutableFeatureGate.Set(strings.Join(gates, ",")); err != nil {
		return fmt.Errorf("feature gates: %w: %w", errdefs.ErrInvalid, err)
	}
	return nil
}

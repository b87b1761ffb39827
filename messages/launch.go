package messages

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// LaunchVersion is the version of the launch envelope that this build writes. It reads this one only.
const LaunchVersion = 1

// MaxLaunchBytes bounds an encoded launch envelope. Mesos keeps the data of every task in the agent's checkpoint and
// in the master's state; the API server itself takes no object above 1.5 MiB.
const MaxLaunchBytes = 1 << 20

// Launch is the envelope in TaskInfo.data: what the executor needs in order to start one pod, or the static pods.
type Launch struct {
	// Version of the envelope's format.
	Version int `json:"version"`
	// TaskID repeats the Mesos task id: an envelope belongs to one task.
	TaskID string `json:"taskID"`
	// Node is the name of the node that the scheduler placed the pod on.
	Node string `json:"node"`
	// StaticPods are the claims (StaticPod.Claim) that a placeholder task accounts for; its envelope has no pod.
	StaticPods []string `json:"staticPods,omitempty"`
	// Pod is the pod as the scheduler saw it, with the scheduler's choices as annotations. The kubelet never gets this
	// copy: it gets the API server's.
	Pod *corev1.Pod `json:"pod,omitempty"`
	// Scheduler is how the executor reaches the scheduler, nil if it does not: see WithAccess and AccessOf.
	Scheduler *Access `json:"scheduler,omitempty"`
	// Bundle is what executors are to run from, nil if the operator sees to that: see BundleOf.
	Bundle *Bundle `json:"bundle,omitempty"`
}

// EncodeLaunch checks the envelope and returns its JSON. Version is filled in, managed fields of the pod are left
// out. The error is errdefs.ErrInvalid and names the field at fault.
func EncodeLaunch(l Launch) ([]byte, error) {
	l.Version = LaunchVersion
	if err := l.check(); err != nil {
		return nil, err
	}
	if l.Pod != nil {
		pod := *l.Pod
		pod.ManagedFields = nil
		l.Pod = &pod
	}
	data, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("launch envelope of task %s: %w: %w", l.TaskID, errdefs.ErrInvalid, err)
	}
	if most := MaxLaunchBytes - maxAccessBytes; len(data) > most {
		return nil, fmt.Errorf("launch envelope of %s has %d bytes, %d at most; move large values into a ConfigMap: %w",
			l.subject(), len(data), most, errdefs.ErrInvalid)
	}
	return data, nil
}

// ErrEncoding marks data that is no launch envelope at all (EX-3, EX-4), as opposed to an envelope whose content is
// at fault (EX-8). Both are errdefs.ErrInvalid.
var ErrEncoding = errors.New("not a launch envelope")

// DecodeLaunch reads an envelope. It never panics and never returns half an envelope. Its errors are
// errdefs.ErrInvalid; data that is not an envelope is ErrEncoding too.
func DecodeLaunch(data []byte) (Launch, error) {
	if len(data) > MaxLaunchBytes {
		return Launch{}, fmt.Errorf("task data has %d bytes, %d at most: %w", len(data), MaxLaunchBytes, errdefs.ErrInvalid)
	}
	if len(data) == 0 {
		return Launch{}, fmt.Errorf("task data is empty: %w", errdefs.ErrInvalid)
	}
	var l Launch
	if err := json.Unmarshal(data, &l); err != nil {
		return Launch{}, fmt.Errorf("task data: %w: %w: %w", ErrEncoding, errdefs.ErrInvalid, err)
	}
	if l.Version == 0 && l.Pod == nil && l.StaticPods == nil {
		return Launch{}, fmt.Errorf("task data has neither version nor pod: %w: %w", ErrEncoding, errdefs.ErrInvalid)
	}
	if l.Version != LaunchVersion {
		return Launch{}, fmt.Errorf("launch envelope has version %d, this executor reads version %d: %w", l.Version, LaunchVersion, errdefs.ErrInvalid)
	}
	if err := l.check(); err != nil {
		return Launch{}, err
	}
	return l, nil
}

// check tells all faults of the envelope together.
func (l Launch) check() error {
	var faults []error
	missing := func(field string) {
		faults = append(faults, fmt.Errorf("launch envelope: %s is empty", field))
	}
	if l.TaskID == "" {
		missing("taskID")
	}
	if l.Node == "" {
		missing("node")
	}
	switch {
	case l.Pod == nil && len(l.StaticPods) == 0:
		missing("pod")
	case l.Pod != nil && len(l.StaticPods) > 0:
		faults = append(faults, errors.New("launch envelope: it has a pod and staticPods"))
	case l.Pod != nil:
		if l.Pod.Name == "" {
			missing("pod.metadata.name")
		}
		if l.Pod.Namespace == "" {
			missing("pod.metadata.namespace")
		}
		if l.Pod.UID == "" {
			missing("pod.metadata.uid")
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", errdefs.ErrInvalid, errors.Join(faults...))
}

// subject is what is launched, for people.
func (l Launch) subject() string {
	if l.Pod == nil {
		return "the static pods"
	}
	return "pod " + l.Pod.Namespace + "/" + l.Pod.Name
}

package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Event is something that happened: the closed set of what Step takes. Pods in events belong to the core from then
// on as read-only values.
type Event interface{ event() }

// What the agent says.
type (
	// Connected is SUBSCRIBED. TaskKilling: the framework has the capability TASK_KILLING_STATE.
	Connected struct{ TaskKilling bool }
	// Disconnected tells that the subscription broke; pods live on (EX-109).
	Disconnected struct{}
	// Launch is a LAUNCH event with the task's id and data.
	Launch struct {
		TaskID string
		Data   []byte
	}
	// Kill is a KILL event. Grace is nil when it carries no kill policy.
	Kill struct {
		TaskID string
		Grace  *time.Duration
	}
	// Shutdown is a SHUTDOWN event, or a signal that asks for the same. Grace is what the agent leaves us.
	Shutdown struct {
		Grace time.Duration
		Why   string
	}
	// Message is a framework message, not yet decoded.
	Message struct{ Data []byte }
	// Acknowledged is an ACKNOWLEDGED event.
	Acknowledged struct {
		TaskID string
		UUID   []byte
	}
)

// What the API server says.
type (
	// Bound answers the effects Bind and Patch: the pod as the API server has it now.
	Bound struct {
		TaskID string
		Pod    *corev1.Pod
	}
	// BindFailed answers them with an error. errdefs.ErrUnavailable is worth another try; errdefs.ErrConflict is a pod on
	// another node; all others are final (EX-16 to EX-23, EX-27).
	BindFailed struct {
		TaskID string
		Err    error
	}
	// PodChanged is a pod of this node that was added or changed on the API server.
	PodChanged struct{ Pod *corev1.Pod }
	// PodGone is a pod of this node that left the API server.
	PodGone struct{ UID types.UID }
	// PodsListed tells that all pods that this node has on the API server were delivered by PodChanged, and which they
	// are. It comes once.
	PodsListed struct{ UIDs []types.UID }
	// DeleteFailed answers DeletePod with an error. errdefs.ErrNotFound tells that the pod is gone: a watch that began after
	// its end never would.
	DeleteFailed struct {
		TaskID string
		Err    error
	}
)

// What the kubelet says.
type (
	// KubeletReady tells that the kubelet takes pods.
	KubeletReady struct{}
	// KubeletPod is one pod with the kubelet's own status, from its watch (speed).
	KubeletPod struct{ Pod *corev1.Pod }
	// KubeletPods is all pods that the kubelet knows, from its list (truth): absence shows here alone (EX-64).
	KubeletPods struct{ Pods []*corev1.Pod }
	// KubeletEnded tells that the kubelet ended by itself (EX-129).
	KubeletEnded struct{ Err error }
)

// Configured tells the times of Config anew, when the operator's configuration comes after the first launch, and which pods
// the kubelet runs by it.
type Configured struct {
	LaunchGrace, SuicideTimeout time.Duration
	Static                      []StaticPod
}

// Tick lets deadlines pass; see NextDeadline.
type Tick struct{}

func (Connected) event()    {}
func (Disconnected) event() {}
func (Launch) event()       {}
func (Kill) event()         {}
func (Shutdown) event()     {}
func (Message) event()      {}
func (Acknowledged) event() {}
func (Bound) event()        {}
func (BindFailed) event()   {}
func (PodChanged) event()   {}
func (PodGone) event()      {}
func (PodsListed) event()   {}
func (DeleteFailed) event() {}
func (KubeletReady) event() {}
func (KubeletPod) event()   {}
func (KubeletPods) event()  {}
func (KubeletEnded) event() {}
func (Configured) event()   {}
func (Tick) event()         {}

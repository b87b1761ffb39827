package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/ledger"
)

// Effect is something to do: the closed set of what Step returns, in the order in which it is to be done. Each says
// why, in the words that the log and the scenarios share.
type Effect interface{ effect() }

type (
	// Bind binds the pod to the node by the binding subresource, with UID precondition and annotations (EX-12, EX-23).
	// Answer: Bound or BindFailed.
	Bind struct {
		TaskID, Namespace, Name string
		UID                     types.UID
		Node                    string
		Annotations             map[string]string
		Why                     string
	}
	// Patch writes our own annotation keys onto a pod that has its node already (EX-28 to EX-32). Answer: Bound or
	// BindFailed.
	Patch struct {
		TaskID, Namespace, Name string
		UID                     types.UID
		Node                    string
		Annotations             map[string]string
		Why                     string
	}
	// Save writes records to the disk. It comes before all other effects of its step; none of them may be carried out
	// unless it succeeded.
	Save struct {
		Records []ledger.Record
		Why     string
	}
	// SendUpdate sends a task status to the agent. The ledger has recorded it already.
	SendUpdate struct {
		Update ledger.Update
		Why    string
	}
	// Feed gives the kubelet the whole set of pods that it is to run (PC-50). Nobody writes to the pods.
	Feed struct {
		Pods []*corev1.Pod
		Why  string
	}
	// FeedStatic gives the kubelet the whole set of static pods that it is to run. Nobody writes to the pods.
	FeedStatic struct {
		Pods []*corev1.Pod
		Why  string
	}
	// DeletePod deletes the pod on the API server with UID precondition. A negative Grace leaves the period to the pod.
	DeletePod struct {
		TaskID, Namespace, Name string
		UID                     types.UID
		Grace                   time.Duration
		Why                     string
	}
	// EvictPod evicts the pod, with UID precondition. It is answered as DeletePod is; a disruption budget that has no room
	// is errdefs.ErrUnavailable.
	EvictPod DeletePod
	// StopContainers ends the containers of a pod at the runtime. The kubelet has been told too, but once it ends a pod it waits for as
	// long as it was told first: its SyncTerminatingPod heeds no cancellation. A failure is not answered; force comes after it.
	StopContainers struct {
		TaskID string
		UID    types.UID
		Grace  time.Duration
		Why    string
	}
	// Exit ends the executor with this exit code. Nothing follows it.
	Exit struct {
		Code int
		Why  string
	}
	// Note is for the log alone.
	Note struct{ TaskID, Why string }
)

func (Save) effect()           {}
func (Bind) effect()           {}
func (Patch) effect()          {}
func (SendUpdate) effect()     {}
func (Feed) effect()           {}
func (FeedStatic) effect()     {}
func (DeletePod) effect()      {}
func (EvictPod) effect()       {}
func (StopContainers) effect() {}
func (Exit) effect()           {}
func (Note) effect()           {}

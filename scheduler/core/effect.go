package core

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/scheduler/offers"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// Effect is something to do: the closed set of what Step returns, in the order in which it is to be done. Each says
// why in the words that logs, events and scenarios share. An effect that fails comes back as CallFailed.
type Effect interface{ effect() }

// Calls to the Mesos master.
type (
	// Accept launches tasks on offers of one agent in one role: one ACCEPT call with one LAUNCH operation. What the tasks do not use
	// is given back with RefuseSeconds.
	Accept struct {
		AgentID, Node string
		// Role is the offers', and all that the tasks take is allocated to it.
		Role          string
		OfferIDs      []string
		Tasks         []mesos.TaskInfo
		RefuseSeconds float64
		Why           string
	}
	// Decline gives whole offers back.
	Decline struct {
		OfferIDs      []string
		RefuseSeconds float64
		// Reason is one of few words for Why, to count by.
		Reason DeclineReason
		Why    string
	}
	// AcceptInverse agrees to maintenances: the pods there may be ended when they begin. Mesos asks again after RefuseSeconds.
	AcceptInverse struct {
		OfferIDs      []string
		RefuseSeconds float64
		Why           string
	}
	// Revive clears the filters that earlier declines set in some roles, and ends their suppression.
	Revive struct {
		Roles []string
		Why   string
	}
	// Suppress ends offers in some roles until the next Revive.
	Suppress struct {
		Roles []string
		Why   string
	}
	// Acknowledge ends the retries of one status update. It always comes after the effects of applying the update.
	Acknowledge struct {
		AgentID, TaskID string
		UUID            []byte
		Why             string
	}
	// Kill asks the executor to end a task. A negative Grace leaves the grace period to the executor.
	Kill struct {
		TaskID, AgentID string
		Grace           time.Duration
		Why             string
	}
	// Message is a framework message (messages.FrameworkMessage). It may be lost.
	Message struct {
		AgentID, ExecutorID string
		Data                []byte
		Why                 string
	}
	// Reconcile asks Mesos for the state of tasks: task id to agent id.
	Reconcile struct {
		Tasks map[string]string
		Why   string
	}
	// Survey asks the master for all agents and executors, and the API server for all nodes of ours. Answer: Surveyed.
	Survey struct{ Why string }
	// LookUpAgent asks the master's operator API about an agent. Answer: AgentFound.
	LookUpAgent struct{ AgentID, Why string }
	// LookUpLimits asks the master for the limits that quotas set on roles. Answer: LimitsFound.
	LookUpLimits struct{ Why string }
)

// DeclineReason is why offers were declined, in a word.
type DeclineReason string

// The reasons.
const (
	// DeclinedRole: the offer is of a role that is not used.
	DeclinedRole DeclineReason = "role"
	// DeclinedAgent: the agent is not used.
	DeclinedAgent DeclineReason = "agent"
	// DeclinedUnfit: pods wait, and none of them used the offer while it was held.
	DeclinedUnfit DeclineReason = "unfit"
	// DeclinedIdle: no pod waits.
	DeclinedIdle DeclineReason = "idle"
	// DeclinedCordoned: the agent's node is cordoned, and no pod waits that may go there all the same.
	DeclinedCordoned DeclineReason = "cordoned"
	// DeclinedFailed: the ACCEPT on the offer failed.
	DeclinedFailed DeclineReason = "failed"
)

// Writes to the API server.
type (
	// StoreFrameworkID keeps the framework id for the next scheduler. Answer: FrameworkIDStored.
	StoreFrameworkID struct{ FrameworkID, Why string }
	// StoreNode creates the node, or brings labels and annotations of ours on an existing one up to date. Answer:
	// NodeStored.
	StoreNode struct {
		Node *corev1.Node
		Why  string
	}
	// DeleteNode removes the node of an agent that Mesos removed.
	DeleteNode struct{ Node, Why string }
	// TaintNode puts a taint of ours (NoSchedule) on a node, or takes it off: messages.TaintAgentUnreachable or
	// messages.TaintAgentDraining.
	TaintNode struct {
		Node string
		Key  string
		On   bool
		Why  string
	}
	// KeepAlive says who renews the Lease and Ready condition of a node: the scheduler (On), or the kubelet of a running
	// executor (Off). Beats of the scheduler carry the reason ExecutorNotRunning.
	KeepAlive struct {
		Node string
		On   bool
		Why  string
	}
	// PodEvent records a Kubernetes event on a pod. Type is Normal or Warning.
	PodEvent struct {
		Pod                *corev1.Pod
		Type, Reason, Note string
	}
	// NodeEvent records a Kubernetes event on a Node.
	NodeEvent struct{ Node, Type, Reason, Note string }
	// FailPod sets the pod's phase to Failed, with a reason: nobody else reports on it. The reason stands in a condition of
	// ours too, which a kubelet that writes its own status afterwards leaves alone.
	FailPod struct {
		Pod                  *corev1.Pod
		Reason, Message, Why string
	}
	// DeletePod ends the deletion of a pod that waits for a kubelet which is gone: grace 0, and its UID as precondition.
	DeletePod struct {
		Pod *corev1.Pod
		Why string
	}
)

// Answers to the embedded kube-scheduler.
type (
	// ReserveDone answers Reserve. An empty Refusal is success.
	ReserveDone struct {
		Request uint64
		Refusal string
	}
	// BindDone answers Bind. Err nil: the pod is seen bound.
	BindDone struct {
		Request uint64
		Err     error
		Why     string
	}
	// GateChanged tells which pods are not to be placed. Open: those that are not held may be. Held are the pods whose
	// hold began, with its reason, or ended, with none.
	GateChanged struct {
		Open bool
		Held map[types.UID]string
	}
	// PoolChanged publishes what is on offer on nodes, for Filter: nil is nothing. Views are never written to again.
	PoolChanged struct{ Views map[string]*offers.View }
	// LimitsChanged tells of the limits that quotas set on roles, all of them, to explain why pods wait.
	LimitsChanged struct{ Limits []procure.RoleLimit }
)

// Stop ends the scheduler with an error that only a person can mend.
type Stop struct {
	Err error
	Why string
}

// Note is for the log alone: something was seen and nothing is to be done.
type Note struct{ TaskID, Why string }

func (Accept) effect()           {}
func (Decline) effect()          {}
func (AcceptInverse) effect()    {}
func (Revive) effect()           {}
func (Suppress) effect()         {}
func (Acknowledge) effect()      {}
func (Kill) effect()             {}
func (Message) effect()          {}
func (Reconcile) effect()        {}
func (LookUpAgent) effect()      {}
func (LookUpLimits) effect()     {}
func (LimitsChanged) effect()    {}
func (StoreFrameworkID) effect() {}
func (StoreNode) effect()        {}
func (DeleteNode) effect()       {}
func (TaintNode) effect()        {}
func (Survey) effect()           {}
func (KeepAlive) effect()        {}
func (PodEvent) effect()         {}
func (NodeEvent) effect()        {}
func (FailPod) effect()          {}
func (DeletePod) effect()        {}
func (ReserveDone) effect()      {}
func (BindDone) effect()         {}
func (GateChanged) effect()      {}
func (PoolChanged) effect()      {}
func (Stop) effect()             {}
func (Note) effect()             {}

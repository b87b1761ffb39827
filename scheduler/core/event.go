package core

import (
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/procure"
)

// Event is something that happened: the closed set of what Step takes. Objects in events belong to the core from
// then on as read-only values; it never writes to them.
type Event interface{ event() }

// What Mesos says.
type (
	// Subscribed is the master's answer to SUBSCRIBE; the stream is live.
	Subscribed struct{ FrameworkID string }
	// Disconnected tells that the stream broke. The master takes back all offers that it had made on it.
	Disconnected struct{ Err error }
	// Offers is an OFFERS event.
	Offers struct{ Offers []mesos.Offer }
	// InverseOffers is an INVERSE_OFFERS event: Mesos asks for agents back, for a maintenance.
	InverseOffers struct{ Offers []mesos.InverseOffer }
	// Rescinded is a RESCIND event.
	Rescinded struct{ OfferID string }
	// StatusUpdate is an UPDATE event. One with a UUID wants an acknowledgement.
	StatusUpdate struct{ Status mesos.TaskStatus }
	// ExecutorFailed is a FAILURE event that names an executor; Status is its wait(2) status.
	ExecutorFailed struct {
		AgentID, ExecutorID string
		Status              int32
	}
	// AgentRemoved is a FAILURE event that names an agent only: Mesos removed it.
	AgentRemoved struct{ AgentID string }
	// Surveyed answers the effect Survey. What happened since it was asked for may not show.
	Surveyed struct {
		// Registered are the agents that the master is connected to: id to host name.
		Registered map[string]string
		// Recovered have yet to register with this master, Unreachable may still come back. Ids.
		Recovered, Unreachable []string
		// Complete: the master has told of all three. Otherwise nothing is known of agents that are not registered.
		Complete bool
		// Draining are registered agents that an operator drains or has drained, until they are reactivated. Ids.
		Draining []string
		// Executors of this framework: agent id to what they were started with.
		Executors map[string]*mesos.ExecutorInfo
		// Nodes that belong to agents.
		Nodes []NodeSeen
	}
	// StaticPods are what the executors' document asks each of them to run, from now on.
	StaticPods struct{ Pods []messages.StaticPod }
	// AgentFound answers the effect LookUpAgent with what the master's operator API says.
	AgentFound struct{ Agent Agent }
	// LimitsFound answers the effect LookUpLimits: the limits that quotas set, in a steady order.
	LimitsFound struct{ Limits []procure.RoleLimit }
)

// Agent is what the scheduler knows of one Mesos agent apart from its offers.
type Agent struct {
	ID       string
	Hostname string
	// Total is the agent's size in roles that the framework may use.
	Total      messages.Resources
	Attributes []mesos.Attribute
	Domain     *mesos.DomainInfo
	// Limits: the agent has the capability TASK_RESOURCE_LIMITS (Mesos 1.10 and later).
	Limits bool
}

// NodeSeen is a node that carries the annotation of an agent.
type NodeSeen struct {
	Name, AgentID string
	// Unreachable: it has our taint for unreachable agents. Draining: it has that for agents that are drained.
	Unreachable, Draining bool
}

// What the API server says.
type (
	// PodsSynced is the first list of pods, once, before any PodChanged.
	PodsSynced struct{ Pods []*corev1.Pod }
	// PodChanged is a pod that was added or changed.
	PodChanged struct{ Pod *corev1.Pod }
	// PodGone is a pod that left the API server.
	PodGone struct{ Pod *corev1.Pod }
	// NamespaceRoles is the annotation messages.AnnotationRoles of a namespace that was added or changed, or, empty, the end
	// of it. Those of the first list come before PodsSynced.
	NamespaceRoles struct{ Namespace, Roles string }
	// FrameworkIDStored answers the effect StoreFrameworkID. Nothing is accepted before it.
	FrameworkIDStored struct{ FrameworkID string }
	// NodeStored answers the effect StoreNode. AgentID is of the node that was stored: its agent may have gone meanwhile, and
	// another one have taken over the name.
	NodeStored struct{ Node, AgentID string }
	// NodeGone is a node of an agent that left the API server.
	NodeGone struct{ Node, AgentID string }
	// NodeCordoned tells whether a node of an agent is marked unschedulable (spec.unschedulable), at each change and at the
	// beginning if it is. Those of the first list may come before the agent is known.
	NodeCordoned struct {
		Node string
		On   bool
	}
)

// What the embedded kube-scheduler asks, each answered by an effect with the same Request.
type (
	// Reserve asks for the pod's resources on a node. Answer: ReserveDone.
	Reserve struct {
		Request uint64
		Pod     *corev1.Pod
		Node    string
	}
	// Unreserve gives back what was reserved and not yet handed to a launch. A launch under way is not affected.
	Unreserve struct{ UID types.UID }
	// Bind asks for the launch of a pod with a reservation. Answer: BindDone, when the pod is seen bound or the launch
	// has surely failed.
	Bind struct {
		Request uint64
		Pod     *corev1.Pod
		Node    string
	}
	// Waiting tells that kube-scheduler found no node for the pod, and its reason.
	Waiting struct {
		Pod *corev1.Pod
		Why string
	}
)

// What became of effects, and time.
type (
	// CallFailed is an effect that could not be carried out: an ACCEPT, KILL or other call that Mesos did not take, or a
	// write that the API server refused. A call whose outcome is not known is errdefs.ErrLost.
	CallFailed struct {
		Effect Effect
		Err    error
	}
	// Tick lets deadlines pass; see NextDeadline.
	Tick struct{}
)

func (Subscribed) event()        {}
func (Disconnected) event()      {}
func (Offers) event()            {}
func (InverseOffers) event()     {}
func (Rescinded) event()         {}
func (StatusUpdate) event()      {}
func (ExecutorFailed) event()    {}
func (AgentRemoved) event()      {}
func (AgentFound) event()        {}
func (LimitsFound) event()       {}
func (StaticPods) event()        {}
func (Surveyed) event()          {}
func (PodsSynced) event()        {}
func (PodChanged) event()        {}
func (PodGone) event()           {}
func (NamespaceRoles) event()    {}
func (FrameworkIDStored) event() {}
func (NodeStored) event()        {}
func (NodeGone) event()          {}
func (NodeCordoned) event()      {}
func (Reserve) event()           {}
func (Unreserve) event()         {}
func (Bind) event()              {}
func (Waiting) event()           {}
func (CallFailed) event()        {}
func (Tick) event()              {}

package messages

import "strings"

// AnnotationPrefix is the domain of every annotation, label and taint key of mesopod. It is k8sm's, so that tools
// which read k8sm's pods go on working.
const AnnotationPrefix = "k8s.mesosphere.io"

// The annotations that the scheduler decides and the binding (or the patch) writes onto the pod.
const (
	// AnnotationBindingHost is the node that the pod was placed on: the agent's host name (EX-12).
	AnnotationBindingHost = AnnotationPrefix + "/bindingHost"
	// AnnotationTaskID is the Mesos task id, see TaskID (EX-9).
	AnnotationTaskID = AnnotationPrefix + "/taskId"
	// AnnotationAgentID is the Mesos agent id; the key keeps k8sm's word for it.
	AnnotationAgentID = AnnotationPrefix + "/slaveId"
	// AnnotationOfferID lists the ids of the offers that the task was launched on, separated by commas.
	AnnotationOfferID = AnnotationPrefix + "/offerId"
	// AnnotationExecutorID is the id of the executor that runs the pod. It also stands on nodes.
	AnnotationExecutorID = AnnotationPrefix + "/executorId"
	// AnnotationRole is the Mesos role that the pod's resources are allocated to.
	AnnotationRole = AnnotationPrefix + "/role"
	// AnnotationExecutorResources stands on nodes: the executor's fixed share, as "cpus:C;mem:M" (MB).
	AnnotationExecutorResources = AnnotationPrefix + "/executorResources"
)

// AnnotationRoles is the one annotation that people write. On a namespace it lists the Mesos roles that its pods may use,
// separated by commas, the best first. On a pod it lists those of them that this pod may use.
const AnnotationRoles = AnnotationPrefix + "/roles"

// LabelAttributePrefix begins the node label of each agent attribute: attribute "rack" becomes
// k8s.mesosphere.io/attribute-rack (EX-105).
const LabelAttributePrefix = AnnotationPrefix + "/attribute-"

// ConditionTask is the type of a pod condition: False once the pod's task has ended and the kubelet cannot tell why.
const ConditionTask = AnnotationPrefix + "/task"

// TaintAgentUnreachable is the key of the taint (NoSchedule) on nodes whose agent Mesos does not reach.
const TaintAgentUnreachable = AnnotationPrefix + "/agent-unreachable"

// TaintAgentDraining is the key of the taint (NoSchedule) on nodes whose agent an operator drains, until it is reactivated.
const TaintAgentDraining = AnnotationPrefix + "/agent-draining"

// TaintMesos is the key of the taint, effect NoSchedule, that keeps pods of other schedulers off mesopod's nodes.
const TaintMesos = AnnotationPrefix + "/mesos"

// IsOurs tells whether an annotation key is one that only mesopod writes.
func IsOurs(key string) bool {
	return strings.HasPrefix(key, AnnotationPrefix+"/") && key != AnnotationRoles
}

// OurAnnotations returns the annotations with keys of ours, never nil. A patch sends only these (EX-30).
func OurAnnotations(all map[string]string) map[string]string {
	ours := map[string]string{}
	for key, value := range all {
		if IsOurs(key) {
			ours[key] = value
		}
	}
	return ours
}

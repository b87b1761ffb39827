package messages

// Reason is the message field of a task status: k8sm's strings, byte for byte, since schedulers and people match on
// them. Each has one sender, the executor, and one task state (spec/executor.md, "Status message strings").
type Reason string

// The reasons.
const (
	// ReasonBound goes with TASK_STARTING: binding stored, or annotations patched, and the pod handed to the kubelet.
	ReasonBound Reason = "create-binding-success"
	// ReasonBindingFailed goes with TASK_FAILED: the API server refused the binding (EX-16).
	ReasonBindingFailed Reason = "create-binding-failure"
	// ReasonPatchFailed goes with TASK_FAILED: the API server refused the annotations (EX-27).
	ReasonPatchFailed Reason = "annotation-update-failure"
	// ReasonLaunchFailed goes with TASK_LOST: the launch was abandoned or timed out (EX-54).
	ReasonLaunchFailed Reason = "launch-task-failed"
	// ReasonUnregistered goes with TASK_FAILED: the executor was not connected at launch (EX-2).
	ReasonUnregistered Reason = "executor-unregistered"
	// ReasonBadData goes with TASK_FAILED when the task data is no envelope (EX-3), and begins the message of TASK_ERROR
	// when the envelope's content is at fault (EX-8).
	ReasonBadData Reason = "unmarshal-task-data-failure"
	// ReasonDisappeared goes with TASK_LOST: the pod vanished, surely (EX-62, EX-64).
	ReasonDisappeared Reason = "containers-disappeared"
	// ReasonKilled goes with TASK_KILLED: killed on request (EX-70).
	ReasonKilled Reason = "task-killed"
	// ReasonDeleted goes with TASK_KILLED: the pod was deleted on the API server (EX-68).
	ReasonDeleted Reason = "pod-deleted"
	// ReasonLostAck goes with TASK_LOST: answer to the framework message task-lost (EX-84).
	ReasonLostAck Reason = "task-lost-ack"
	// ReasonShutdown goes with TASK_KILLED: the executor is shutting down (EX-128).
	ReasonShutdown Reason = "executor-shutdown"
	// ReasonKubeletFailed goes with TASK_LOST: the kubelet ended while the task ran (EX-129).
	ReasonKubeletFailed Reason = "kubelet-pod-launch-failed"
	// ReasonWrongNode goes with TASK_FAILED: the pod belongs to another node (EX-20, EX-31).
	ReasonWrongNode Reason = "pod-for-wrong-slave-failure"
	// ReasonDuplicate begins the message of TASK_ERROR: another live task owns the pod's full name (EX-10).
	ReasonDuplicate Reason = "duplicate-pod"
	// ReasonUnknownTask goes with the answer to a KILL for a task that the executor does not know (EX-75).
	ReasonUnknownTask Reason = "task-unknown"
	// ReasonFinished goes with TASK_FINISHED: all containers ended with status 0 (EX-57, EX-66).
	ReasonFinished Reason = "pod-succeeded"
	// ReasonFailed begins the message of TASK_FAILED: a container failed (EX-58); reason and exit code follow.
	ReasonFailed Reason = "pod-failed"
	// ReasonStaticPods begins the message of TASK_RUNNING of a placeholder task: the claims follow.
	ReasonStaticPods Reason = "static-pods"
)

// runningPrefix begins the message of TASK_RUNNING (EX-51).
const runningPrefix = "pod-running:"

// Running is the message of TASK_RUNNING: "pod-running:" and the pod's full name.
func Running(namespace, pod string) string { return runningPrefix + PodFullName(namespace, pod) }

// Detail joins a reason and what a person should know about this case: "pod-failed: container web: Error, exit code 3".
func (r Reason) Detail(detail string) string {
	if detail == "" {
		return string(r)
	}
	return string(r) + ": " + detail
}

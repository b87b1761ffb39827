package messages

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// DefaultSchedulerName is the spec.schedulerName of pods that mesopod places unless its configuration says otherwise.
const DefaultSchedulerName = "mesos"

// ExecutorID is the id of mesopod's executor on every agent (ExecutorInfo.executor_id). It is constant, since an
// agent refuses a task whose ExecutorInfo differs from that of the running executor (design decision 6).
const ExecutorID = "mesopod-executor"

// TaskID is the Mesos task id of one attempt to run a pod: "<pod UID>.<attempt>". Attempts count from 1.
// Any status update thus names its pod, with no state of ours in between (design decision 9).
func TaskID(uid types.UID, attempt int) string {
	return string(uid) + "." + strconv.Itoa(attempt)
}

// ParseTaskID is the inverse of TaskID. Its error is errdefs.ErrInvalid.
func ParseTaskID(id string) (types.UID, int, error) {
	uid, number, found := strings.Cut(id, ".")
	attempt, err := strconv.Atoi(number)
	if !found || uid == "" || err != nil || attempt < 1 || TaskID(types.UID(uid), attempt) != id {
		return "", 0, fmt.Errorf("task id %q is not <pod UID>.<attempt>: %w", id, errdefs.ErrInvalid)
	}
	return types.UID(uid), attempt, nil
}

// Labels of a TaskStatus of a pod whose containers were started anew; others have none.
const (
	// StatusLabelRestarts is how often, of all containers together.
	StatusLabelRestarts = "restarts"
	// StatusLabelLastExit is how the one ended that ended last: "<container>: <reason>, exit code <n>".
	StatusLabelLastExit = "last-exit"
)

// TaskName is what Mesos' UI shows for the task: "<pod>.<namespace>.pod", as in k8sm.
func TaskName(namespace, pod string) string { return pod + "." + namespace + ".pod" }

// PodFullName is the pod's name in status messages and payloads: "<pod>_<namespace>".
func PodFullName(namespace, pod string) string { return pod + "_" + namespace }

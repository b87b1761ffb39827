package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesopod/mesopod/messages"
)

// deaf takes no notice of SIGTERM.
const deaf = "trap '' TERM; echo up; while true; do sleep 1; done"

// ordered is an executor with a kubelet and a runtime of its own that gets its orders from a test: those that no scheduler of
// ours gives, or not at the moment that matters.
type ordered struct {
	node  string
	agent *scriptedAgent
	ended <-chan error
}

// startOrdered starts one whose framework knows TASK_KILLING. Each has its own range of addresses.
func startOrdered(t *testing.T, node string, number int, as scriptedExecutor) *ordered {
	t.Helper()
	o := &ordered{node: node, agent: newScriptedAgent(t)}
	forgetNode(t, node)
	as.name, as.kubeconfig, as.grace = node, kubeconfig(), "20secs"
	as.podCIDR, as.bridge, as.port = fmt.Sprintf("10.89.%d.0/24", 210+number), fmt.Sprint("mpodo", number), 10280+number
	o.ended = as.start(t, o.agent)
	next(t, "subscription", o.agent.subscribed)
	event := subscribedAs(node)
	event.Subscribed.FrameworkInfo.Capabilities = []mesos.FrameworkInfo_Capability{{Type: mesos.FrameworkInfo_Capability_TASK_KILLING_STATE}}
	o.agent.events <- event
	return o
}

// launch makes a pod and launches it.
func (o *ordered) launch(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	made := makeHere(t, pod)
	o.agent.events <- launchOf(t, made, o.node)
	return made
}

// expect takes the next statuses, which must be these of this pod's task, and returns the last.
func (o *ordered) expect(t *testing.T, pod *corev1.Pod, states ...mesos.TaskState) (last mesos.TaskStatus) {
	t.Helper()
	for _, want := range states {
		last = nextStatus(t, o.agent, true)
		if last.TaskID.Value != messages.TaskID(pod.UID, 1) || last.GetState() != want {
			t.Fatalf("pod %s: task %s is told %s (%s), want %s of its own", pod.Name, last.TaskID.Value, last.GetState(), last.GetMessage(), want)
		}
	}
	return last
}

// kill asks for the end of a pod's task; a negative grace leaves it to the pod.
func (o *ordered) kill(pod *corev1.Pod, graceSeconds int64) {
	kill := &executor.Event_Kill{TaskID: mesos.TaskID{Value: messages.TaskID(pod.UID, 1)}}
	if graceSeconds >= 0 {
		kill.KillPolicy = &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: graceSeconds * 1e9}}
	}
	o.agent.events <- &executor.Event{Type: executor.Event_KILL, Kill: kill}
}

// told waits for words in the executor's log.
func (o *ordered) told(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the executor to say %q", words), func(context.Context) error {
		text, err := o.log()
		if err == nil && !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
		}) {
			err = errors.New("not said")
		}
		return err
	})
}

func (o *ordered) log() (string, error) {
	files, err := filepath.Glob(filepath.Join(stateDir, "x*", "local-"+o.node, "stderr"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("logs of %s: %v %w", o.node, files, err)
	}
	data, err := os.ReadFile(files[0])
	return string(data), err
}

// nothingLeft waits until no process of a pod's is left, of its sandbox neither.
func (o *ordered) nothingLeft(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "the end of the pod's processes", func(context.Context) error {
		if left := processesIn(t, filepath.Join("local-"+o.node, "kubepods")); len(left) > 0 {
			return fmt.Errorf("pod %s: processes %v", pod.Name, left)
		}
		return nil
	})
}

// delete asks the API server for a pod's deletion.
func (o *ordered) delete(t *testing.T, pod *corev1.Pod, grace *int64) {
	t.Helper()
	if err := client.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		t.Fatal(err)
	}
}

// waitGone waits until the API server has no pod of that name.
func waitGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "pod "+name+" to leave", func(ctx context.Context) error {
		_, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// patient is a pod with a grace of five minutes.
func patient(name, script string) *corev1.Pod {
	pod := newPod(name, script)
	grace := int64(300)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	return pod
}

// Each order and each deletion ends a pod's task with one terminal state, after its containers are gone, and nothing is left
// of the pod.
func TestOrders(t *testing.T) {
	t.Parallel()
	o := startOrdered(t, "orders", 1, scriptedExecutor{})
	atOnce := int64(0)

	// EX-18, EX-20: a pod that was placed on another node is not touched.
	t.Run("wrong node", func(t *testing.T) {
		pod := makeHere(t, newPod("orders-elsewhere", steady))
		o.agent.events <- launchOf(t, pod, "elsewhere")
		if got := o.expect(t, pod, mesos.TASK_FAILED); !strings.Contains(got.GetMessage(), "pod-for-wrong-slave-failure") {
			t.Errorf("message is %q", got.GetMessage())
		}
		if now, err := client.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || now.Spec.NodeName != "" {
			t.Errorf("the pod was bound: %v %s", err, describe(now))
		}
	})

	// EX-16, EX-21: there is nothing to bind.
	t.Run("deleted before the launch", func(t *testing.T) {
		pod := makeHere(t, newPod("orders-early", steady))
		o.delete(t, pod, &atOnce)
		waitGone(t, pod.Name)
		o.agent.events <- launchOf(t, pod, o.node)
		if got := o.expect(t, pod, mesos.TASK_FAILED); !strings.Contains(got.GetMessage(), "create-binding-failure") {
			t.Errorf("message is %q", got.GetMessage())
		}
	})

	// EX-76, EX-79: the pod's five minutes become a second.
	t.Run("a second kill shortens", func(t *testing.T) {
		pod := o.launch(t, patient("orders-shorter", deaf))
		o.expect(t, pod, mesos.TASK_STARTING, mesos.TASK_RUNNING)
		o.kill(pod, -1)
		o.expect(t, pod, mesos.TASK_KILLING)
		// The kubelet is waiting by now.
		waitPod(t, pod.Name, "to be deleted", func(p *corev1.Pod) string {
			if p.DeletionTimestamp == nil {
				return "no deletion"
			}
			return ""
		})
		o.kill(pod, 1)
		o.told(t, "a further kill shortens the grace period")
		if got := o.expect(t, pod, mesos.TASK_KILLED); !strings.Contains(got.GetMessage(), "task-killed") {
			t.Errorf("message is %q", got.GetMessage())
		}
		o.nothingLeft(t, pod)
		waitGone(t, pod.Name)
		if text, err := o.log(); err != nil || strings.Contains(text, "containers still there") {
			t.Errorf("the container ended by force, not by the kubelet: %v", err)
		}
	})

	// EX-76: what the scheduler allows is less than what the pod asks for.
	t.Run("kill with a policy", func(t *testing.T) {
		pod := o.launch(t, patient("orders-policy", deaf))
		o.expect(t, pod, mesos.TASK_STARTING, mesos.TASK_RUNNING)
		o.kill(pod, 1)
		o.expect(t, pod, mesos.TASK_KILLING, mesos.TASK_KILLED)
		o.nothingLeft(t, pod)
		waitGone(t, pod.Name)
	})

	// EX-68, EX-70
	t.Run("deleted", func(t *testing.T) {
		pod := o.launch(t, newPod("orders-deleted", slowly))
		o.expect(t, pod, mesos.TASK_STARTING, mesos.TASK_RUNNING)
		o.delete(t, pod, nil)
		if got := o.expect(t, pod, mesos.TASK_KILLING, mesos.TASK_KILLED); !strings.Contains(got.GetMessage(), "pod-deleted") {
			t.Errorf("message is %q", got.GetMessage())
		}
		o.nothingLeft(t, pod)
	})

	// EX-68: the API server has forgotten the pod before its container has heard of that.
	t.Run("deleted by force", func(t *testing.T) {
		pod := o.launch(t, newPod("orders-forced", slowly))
		o.expect(t, pod, mesos.TASK_STARTING, mesos.TASK_RUNNING)
		o.delete(t, pod, &atOnce)
		if got := o.expect(t, pod, mesos.TASK_KILLING, mesos.TASK_KILLED); !strings.Contains(got.GetMessage(), "pod-deleted") {
			t.Errorf("message is %q", got.GetMessage())
		}
		o.nothingLeft(t, pod)
	})

	// EX-21, EX-68: the deletion comes while the pod is on its way.
	t.Run("deleted while launching", func(t *testing.T) {
		pod := newPod("orders-launching", steady)
		pod.Spec.Containers[0].Image = "mesopod.local/missing:1"
		pod = o.launch(t, pod)
		o.expect(t, pod, mesos.TASK_STARTING)
		o.delete(t, pod, nil)
		o.expect(t, pod, mesos.TASK_KILLING, mesos.TASK_KILLED)
		o.nothingLeft(t, pod)
		waitGone(t, pod.Name)
	})

	// EX-66: the task has its terminal state; that its pod goes later is no news of it. Were there any, the next test or the end
	// of the executor would meet it.
	t.Run("finished, then deleted", func(t *testing.T) {
		pod := o.launch(t, newPod("orders-finished", "sleep 1"))
		o.expect(t, pod, mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_FINISHED)
		waitPhase(t, pod.Name, corev1.PodSucceeded)
		o.delete(t, pod, nil)
		waitGone(t, pod.Name)
		o.nothingLeft(t, pod)
	})

	// EX-84, EX-85: an executor with work does not end for the asking, one without does.
	t.Run("asked to end", func(t *testing.T) {
		pod := o.launch(t, newPod("orders-busy", slowly))
		o.expect(t, pod, mesos.TASK_STARTING, mesos.TASK_RUNNING)
		o.agent.events <- message("kamikaze")
		o.told(t, "asked to end, refused by live tasks")
		o.kill(pod, -1)
		o.expect(t, pod, mesos.TASK_KILLING, mesos.TASK_KILLED)
		o.agent.events <- message(`{"version":1,"kind":"Suicide"}`)
		if err := next(t, "end of the executor", o.ended); err != nil {
			t.Errorf("the executor ended with %v", err)
		}
		if left := processesIn(t, "local-"+o.node); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
		if len(o.agent.updates) > 0 {
			t.Errorf("%d statuses came that nobody waited for", len(o.agent.updates))
		}
	})
}

func message(text string) *executor.Event {
	return &executor.Event{Type: executor.Event_MESSAGE, Message: &executor.Event_Message{Data: []byte(text)}}
}

// A pod that does not run within the launch grace period is lost, and its sandbox, which was there already, is gone then: EX-54,
// EX-55. The pod tells why.
func TestLaunchGrace(t *testing.T) {
	t.Parallel()
	o := startOrdered(t, "grace", 2, scriptedExecutor{launchGrace: "15s"})
	pod := newPod("grace", steady)
	pod.Spec.Containers[0].Image = "mesopod.local/missing:1"
	pod = o.launch(t, pod)
	o.expect(t, pod, mesos.TASK_STARTING, mesos.TASK_KILLING)
	lost := o.expect(t, pod, mesos.TASK_LOST)
	if !strings.Contains(lost.GetMessage(), "launch-task-failed") || lost.GetReason() != mesos.REASON_CONTAINER_LAUNCH_FAILED {
		t.Errorf("the task is lost with reason %s, message %q", lost.GetReason(), lost.GetMessage())
	}
	o.nothingLeft(t, pod)
	o.agent.events <- &executor.Event{Type: executor.Event_SHUTDOWN}
	if err := next(t, "end of the executor", o.ended); err != nil {
		t.Errorf("the executor ended with %v", err)
	}
}

// An agent that stays away for longer than its recovery timeout has given its executors up, and so has one that does not checkpoint with
// its end: the executor ends its pods and itself. Within the timeout pods run on: TestAgentKilled.
func TestAgentStaysAway(t *testing.T) {
	t.Parallel()
	for n, one := range []struct {
		name string
		as   scriptedExecutor
		why  string
	}{
		{"recovery", scriptedExecutor{recovery: "6secs"}, "the agent stayed away for 6s"},
		{"checkpoint-off", scriptedExecutor{noCheckpoint: true}, "checkpointing is off"},
	} {
		t.Run(one.name, func(t *testing.T) {
			o := startOrdered(t, "away-"+one.name, 3+n, one.as)
			pod := o.launch(t, newPod("away-"+one.name, slowly))
			o.expect(t, pod, mesos.TASK_STARTING, mesos.TASK_RUNNING)
			o.agent.leave()
			err := next(t, "end of the executor", o.ended)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 4 {
				t.Errorf("the executor ended with %v, want exit code 4", err)
			}
			if text, err := o.log(); err != nil || !strings.Contains(text, one.why) {
				t.Errorf("the executor does not say %q: %v", one.why, err)
			}
			if left := processesIn(t, "local-"+o.node); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

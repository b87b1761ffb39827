package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/executor/podstate"
	"github.com/mesopod/mesopod/messages"
)

// StaticPod is a pod of the configuration, made ready for this node: with the node's name in its own, and a UID that is the
// same as long as the manifest is.
type StaticPod struct {
	Claim string
	Pod   *corev1.Pod
}

// static is the pods that the kubelet runs by the configuration (EX-103). They run while a placeholder task accounts for them
// in Mesos, and keep no executor alive (ADR 035).
type static struct {
	// pods are all of the configuration; told: it has come.
	pods []StaticPod
	told bool
	// fed are the pods that the kubelet was given last, valid once sent. up are those of now and of before whose containers may
	// run; the value is their grace period.
	fed  []types.UID
	sent bool
	up   map[types.UID]upStatic
	// mirrors are the copies that the kubelet makes on the API server. It must be shown them to keep their status.
	mirrors map[types.UID]*corev1.Pod
	// parked: the executor is about to end for want of work, and ends the static pods first. A launch calls that off. by is
	// when it ends all the same.
	parked string
	by     time.Time
}

type upStatic struct {
	claim string
	grace time.Duration
}

// placeholder tells that the task accounts for static pods, and has no pod of its own.
func (t *task) placeholder() bool { return t.claims != "" }

// account takes the launch of a placeholder task.
func (c *Core) account(now time.Time, t *task, claims []string) {
	t.claims, t.state = strings.Join(claims, ","), Running
	names := make([]string, 0, len(claims))
	for _, claim := range claims {
		name, _, _ := strings.Cut(claim, "@")
		names = append(names, name)
	}
	c.report(now, t, ledger.Update{State: mesos.TASK_RUNNING, Message: messages.ReasonStaticPods.Detail(strings.Join(names, ", "))},
		"its resources are the static pods'")
}

// staticSet is what the kubelet is to run by the configuration: the pods that a task accounts for.
func (c *Core) staticSet() []StaticPod {
	if c.exit.begun || c.static.parked != "" {
		return nil
	}
	accounted := map[string]bool{}
	for _, t := range c.tasks {
		if t.placeholder() && t.state == Running {
			for _, claim := range strings.Split(t.claims, ",") {
				accounted[claim] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(c.static.pods), func(p StaticPod) bool { return !accounted[p.Claim] })
}

// flushStatic gives the kubelet its static pods where they have changed. The first set is sent even if it is empty: the
// kubelet waits for one of each source.
func (c *Core) flushStatic() {
	s := &c.static
	if !s.told || !c.kubeletReady {
		return
	}
	set := c.staticSet()
	uids, objects := make([]types.UID, 0, len(set)), make([]*corev1.Pod, 0, len(set))
	for _, p := range set {
		uids, objects = append(uids, p.Pod.UID), append(objects, p.Pod)
		s.up[p.Pod.UID] = upStatic{claim: p.Claim, grace: gracePeriod(p.Pod)}
	}
	if s.sent && slices.Equal(uids, s.fed) {
		return
	}
	why := fmt.Sprintf("static pods that a task accounts for: %d of %d", len(set), len(s.pods))
	if stop := cmp.Or(s.parked, c.exit.why); stop != "" {
		why = "no static pods any longer: " + stop
	}
	s.sent, s.fed = true, uids
	c.do(FeedStatic{Pods: objects, Why: why})
}

// observeStatic notes which static pods have ended: a list of what is there, the runtime's word in it, shows them no more.
func (c *Core) observeStatic(shown []*corev1.Pod) {
	running := map[types.UID]bool{}
	for _, object := range shown {
		if object != nil && !podstate.Of(object).Gone {
			running[object.UID] = true
		}
	}
	for uid := range c.static.up {
		if !running[uid] && !slices.Contains(c.static.fed, uid) {
			delete(c.static.up, uid)
		}
	}
}

// endPlaceholders ends the placeholder tasks that were killed, as soon as none of the pods that they accounted for runs
// without another task.
func (c *Core) endPlaceholders(now time.Time) {
	held := map[string]bool{}
	staying := c.staticSet()
	for uid, up := range c.static.up {
		if !slices.ContainsFunc(staying, func(p StaticPod) bool { return p.Pod.UID == uid }) {
			held[up.claim] = true
		}
	}
	for _, t := range c.sorted() {
		waits := slices.ContainsFunc(strings.Split(t.claims, ","), func(claim string) bool { return held[claim] })
		if t.placeholder() && t.state == Killing && !waits {
			c.finishAs(now, t, t.ending, "no static pod runs by it any longer")
		}
	}
}

// killPlaceholder begins the end of a placeholder task. Its pods get the time that they ask for.
func (c *Core) killPlaceholder(now time.Time, t *task, e ending, why string) {
	if t.state != Killing {
		c.beginKill(now, t, e, c.staticGrace(), why)
	}
}

// staticGrace is the longest time that a static pod asks for its end.
func (c *Core) staticGrace() (longest time.Duration) {
	for _, up := range c.static.up {
		longest = max(longest, up.grace)
	}
	return longest
}

// park ends the static pods of an executor that has no work, before it ends itself, and tells whether that is done. Their
// mirrors are to go too: nobody else takes them from the API server.
func (c *Core) park(now time.Time, why string) (done bool) {
	s := &c.static
	if s.parked == "" {
		s.parked, s.by = why, now.Add(c.staticGrace()+podReserve)
	}
	c.flushStatic()
	return len(s.up) == 0 && len(s.mirrors) == 0 || !now.Before(s.by)
}

// mirror keeps the kubelet informed of the copies that it made on the API server, and tells whether this is one.
func (c *Core) mirror(object *corev1.Pod) bool {
	if object.Annotations[corev1.MirrorPodAnnotationKey] == "" {
		return false
	}
	c.static.mirrors[object.UID] = object
	c.feed("mirror pod " + object.Namespace + "/" + object.Name + " changed")
	return true
}

func (c *Core) mirrorGone(uid types.UID) {
	if m := c.static.mirrors[uid]; m != nil {
		delete(c.static.mirrors, uid)
		c.feed("mirror pod " + m.Namespace + "/" + m.Name + " left the API server")
	}
}

func (c *Core) sortedMirrors() []*corev1.Pod {
	all := make([]*corev1.Pod, 0, len(c.static.mirrors))
	for _, m := range c.static.mirrors {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return all
}

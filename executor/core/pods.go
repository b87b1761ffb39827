package core

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mesopod/mesopod/executor/ledger"
	"github.com/mesopod/mesopod/executor/podstate"
	"github.com/mesopod/mesopod/messages"
)

// pod is one pod that the kubelet is to know: that of a live task, or a finished one whose API object still exists.
type pod struct {
	// object is the API server's newest copy; nobody writes to it.
	object *corev1.Pod
	taskID string
	// apiGone: the API object has gone. mark is a deletion of our own on the copies that the kubelet gets.
	apiGone bool
	mark    *mark
	// unconfirmed: an earlier process of the executor had it, and the API server has not spoken of it since. kept is what
	// the ledger has of it.
	unconfirmed bool
	kept        *keptPod
	// fed: the kubelet was given it, by this process or an earlier one. dropped: taken away again by force.
	fed, dropped bool
	// told is the grace period of the deletion that the kubelet was given first, or of the last one that it was helped with; nil before
	// any. Of this process alone: the next one's kubelet begins anew.
	told *int64
	// seen: the kubelet showed it. absent counts the lists since then that did not, the first at absentSince.
	seen        bool
	absent      int
	absentSince time.Time
}

type mark struct {
	at           metav1.Time
	graceSeconds int64
}

func (c *Core) podOf(t *task) *pod {
	if p := c.pods[t.uid]; p != nil && p.taskID == t.id {
		return p
	}
	return nil
}

func (c *Core) drop(p *pod, why string) {
	delete(c.pods, p.object.UID)
	if p.fed && !p.dropped {
		c.feed(why)
	}
}

func (c *Core) sortedPods() []*pod {
	all := make([]*pod, 0, len(c.pods))
	for _, p := range c.pods {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(a.object.Namespace, b.object.Namespace), cmp.Compare(a.object.Name, b.object.Name),
			cmp.Compare(a.object.UID, b.object.UID))
	})
	return all
}

// fedPods is the set that the kubelet is to run. In a shutdown only those finished pods are in it whose deletion the
// kubelet has yet to complete on the API server.
func (c *Core) fedPods() []*pod {
	return slices.DeleteFunc(c.sortedPods(), func(p *pod) bool {
		t := c.tasks[p.taskID]
		live, leaving := t != nil && t.live(), p.object.DeletionTimestamp != nil && !p.apiGone
		return p.dropped || c.exit.done || c.exit.begun && !live && !leaving
	})
}

// flushFeed gives the kubelet its set once a step at most, and not before it takes pods (PC-50).
func (c *Core) flushFeed() {
	if len(c.feedWhy) == 0 || !c.kubeletReady || c.recovery.hold {
		return
	}
	c.recovery.fed = true
	objects := []*corev1.Pod{}
	for _, p := range c.fedPods() {
		p.fed = true
		object := p.forKubelet()
		objects = append(objects, object)
		c.hurry(p, object)
	}
	objects = append(objects, c.sortedMirrors()...)
	c.do(Feed{Pods: objects, Why: strings.Join(c.feedWhy, "; ")})
}

// hurry ends a pod's containers at the runtime when its grace period has become shorter: the kubelet waits for as long as it was told
// first.
func (c *Core) hurry(p *pod, object *corev1.Pod) {
	if object.DeletionTimestamp == nil || object.DeletionGracePeriodSeconds == nil {
		return
	}
	told := p.told
	p.told = object.DeletionGracePeriodSeconds
	if told == nil || *p.told >= *told {
		return
	}
	grace := time.Duration(*p.told) * time.Second
	c.do(StopContainers{TaskID: p.taskID, UID: p.object.UID, Grace: grace, Why: "the grace period is shorter than what the kubelet waits for"})
}

// forKubelet is the pod with our own deletion on it, if there is one, and with the host ports that the scheduler has found for it. It
// shares memory with the API server's copy, so nobody writes to it (EX-48, P-10).
func (p *pod) forKubelet() *corev1.Pod {
	if p.mark == nil {
		return messages.WithHostPorts(p.object)
	}
	object := *messages.WithHostPorts(p.object)
	seconds := p.mark.graceSeconds
	if object.DeletionTimestamp == nil {
		object.DeletionTimestamp = p.mark.at.DeepCopy()
		object.DeletionGracePeriodSeconds = &seconds
	} else if s := object.DeletionGracePeriodSeconds; s == nil || *s > seconds {
		object.DeletionGracePeriodSeconds = &seconds
	}
	return &object
}

func (c *Core) onKubeletReady() {
	if !c.kubeletReady {
		c.kubeletReady = true
		c.feed("the kubelet takes pods, first set")
	}
}

func (c *Core) onPodChanged(now time.Time, ev PodChanged) {
	object := ev.Pod
	if object == nil || c.mirror(object) || object.Annotations[messages.AnnotationTaskID] == "" {
		return // a mirror or static pod, or one that is not launched yet (EX-81)
	}
	id := object.Annotations[messages.AnnotationTaskID]
	t, p := c.tasks[id], c.pods[object.UID]
	switch {
	case t != nil && t.uid == object.UID && (t.state == Binding || t.state == Killing && t.calling):
		t.early = newest(object, t.early)
	case t == nil && c.adoptable(id, object):
		c.adopt(now, id, object)
	case p == nil || p.taskID != id:
		c.strangeBound(id, t, object)
	case newest(object, p.object) != object:
		c.note(id, "older copy of the pod, ignored")
	default:
		c.replace(now, p, object)
	}
}

// replace takes the newest API copy of a pod.
func (c *Core) replace(now time.Time, p *pod, object *corev1.Pod) {
	p.object, p.unconfirmed = object, false
	if object.DeletionTimestamp != nil {
		delete(c.deletions, p.taskID)
	}
	if !p.dropped {
		c.feed("pod " + object.Namespace + "/" + object.Name + " changed")
	}
	if t := c.tasks[p.taskID]; t != nil {
		c.deletionSeen(now, t, object)
	}
}

// deletionSeen acts on a deletion on the API server (EX-68, EX-80).
func (c *Core) deletionSeen(now time.Time, t *task, object *corev1.Pod) {
	if object.DeletionTimestamp == nil || !t.live() {
		return
	}
	grace := gracePeriod(object)
	if t.state != Killing {
		c.beginKill(now, t, endDeleted, grace, "the pod is being deleted on the API server")
		return
	}
	if ends := now.Add(grace); ends.Before(t.graceEnds) && !t.forced {
		t.graceEnds, t.forceAt = ends, ends.Add(c.cfg.KillMargin)
	}
}

// strangeBound is a pod that names a task which does not own it. When the task ended without knowing whether its pod
// was bound, this is the answer: it was (EX-37). All others are somebody else's (EX-82).
func (c *Core) strangeBound(id string, t *task, object *corev1.Pod) {
	unsure := c.ended.fates[id].unsure || t != nil && !t.live() && t.unsure
	if !unsure || object.DeletionTimestamp != nil || c.exit.begun {
		c.note(id, fmt.Sprintf("pod %s/%s names a task that does not own it, ignored", object.Namespace, object.Name))
		return
	}
	if t != nil {
		t.unsure = false
	} else {
		c.ended.fates[id] = fate{}
	}
	d := &deletion{namespace: object.Namespace, name: object.Name, uid: object.UID}
	c.deletions[id] = d
	c.do(d.effect(time.Time{}, id, "bound after its task had ended, no container was started"))
}

// onPodGone: the API object has gone. The kubelet keeps a live pod, marked as deleted, until its containers are gone.
func (c *Core) onPodGone(now time.Time, uid types.UID) {
	c.mirrorGone(uid)
	for id, d := range c.deletions {
		if d.uid == uid {
			delete(c.deletions, id)
		}
	}
	for _, t := range c.tasks {
		if t.uid == uid && t.calling {
			t.vanished = true
		}
	}
	p := c.pods[uid]
	if p == nil {
		return
	}
	p.apiGone = true
	const why = "the pod left the API server"
	t := c.tasks[p.taskID]
	switch {
	case t == nil || !t.live():
		c.drop(p, why)
	case !p.fed:
		e := endDeleted
		if t.state == Killing {
			e = t.ending
		}
		c.finishAs(now, t, e, why)
	default:
		grace := gracePeriod(p.object)
		if t.state != Killing {
			c.beginKill(now, t, endDeleted, grace, why)
		}
		if !p.dropped {
			p.markDeleted(now, min(grace, max(t.graceEnds.Sub(now), 0)))
			c.feed(why)
		}
	}
}

func (c *Core) onKubeletPod(now time.Time, object *corev1.Pod) {
	if object == nil {
		return
	}
	p := c.pods[object.UID]
	if p == nil {
		return // mirror and static pods, and pods that left the set
	}
	p.seen, p.absent = true, 0
	if t := c.tasks[p.taskID]; t != nil && t.live() {
		c.observe(now, t, object)
	}
}

// observe compares what the kubelet shows with what Mesos was told.
func (c *Core) observe(now time.Time, t *task, object *corev1.Pod) {
	s := podstate.Of(object)
	if t.state == Killing {
		if s.Gone {
			t.status = object.Status
			c.finishAs(now, t, t.ending, "all containers are gone")
		} else if s.Stage == podstate.Up && !t.noted {
			t.noted = true
			c.note(t.id, "Running seen while killing, ignored")
		}
		return
	}
	u := ledger.Update{State: s.State, Reason: s.Reason, Message: s.Message, Healthy: s.Healthy, PodIPs: s.PodIPs, Labels: s.Labels}
	switch {
	case s.Stage == podstate.Ended:
		t.status = object.Status
		c.finish(now, t, u, "the kubelet shows the pod "+string(object.Status.Phase))
	case s.Stage == podstate.Waiting || t.state == Running && s.SameToMesos(t.said):
		// Nothing new.
	default:
		why := "the kubelet shows the pod Running"
		if t.state == Running {
			why = "health, addresses or restarts changed"
			u.Reason = reasonOf(mesos.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED)
		}
		t.state, t.launchBy = Running, time.Time{}
		t.said, t.status = s, object.Status
		c.report(now, t, u, why)
	}
}

// onKubeletPods is the truth at a steady pace: presence like onKubeletPod, and absence.
func (c *Core) onKubeletPods(now time.Time, ev KubeletPods) {
	shown := map[types.UID]bool{}
	for _, object := range ev.Pods {
		if object != nil {
			shown[object.UID] = true
			c.onKubeletPod(now, object)
		}
	}
	c.observeStatic(ev.Pods)
	if !c.recovery.fed {
		return // this kubelet has had no set: it cannot know the pods of an earlier one
	}
	for _, p := range c.sortedPods() {
		t := c.tasks[p.taskID]
		if !shown[p.object.UID] && p.fed && t != nil && t.live() {
			c.missing(now, t, p)
		}
	}
}

// missing: one list without a pod proves nothing while the pod is in the kubelet's set; several in a row do (EX-62,
// EX-64, EX-65). Once the pod has left the API server or the set, one is enough.
func (c *Core) missing(now time.Time, t *task, p *pod) {
	const lists, span = 3, 10 * time.Second
	if p.absent == 0 {
		p.absentSince = now
	}
	p.absent++
	surely := p.absent >= lists && now.Sub(p.absentSince) >= span
	switch {
	case t.state == Killing && (p.dropped || p.apiGone && p.seen):
		c.finishAs(now, t, t.ending, "the kubelet no longer has the pod")
	case t.state == Killing && surely:
		c.finishAs(now, t, t.ending, "the kubelet has not had the pod for several lists")
	case t.state != Killing && surely && p.seen:
		c.finishAs(now, t, endVanished, "the kubelet has not had the pod for several lists")
	}
}

// newest is the copy with the higher resource version. Copies whose versions do not compare come in the order of
// their delivery: a is the later one.
func newest(a, b *corev1.Pod) *corev1.Pod {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	va, errA := strconv.ParseUint(a.ResourceVersion, 10, 64)
	vb, errB := strconv.ParseUint(b.ResourceVersion, 10, 64)
	if errA == nil && errB == nil && va < vb {
		return b
	}
	return a
}

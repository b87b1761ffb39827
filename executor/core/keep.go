package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/mesopod/mesopod/executor/ledger"
)

// keep puts what this step changed into the ledger, and its journal in front of the other effects: what is acted on is
// on the disk before. A restarted executor goes on from there (restore.go).
func (c *Core) keep() {
	for _, t := range c.sorted() {
		c.ledger.KeepTask(t.kept())
	}
	for _, p := range c.sortedPods() {
		kept := p.keep()
		switch {
		case kept.differs(p.kept):
			c.ledger.KeepPod(ledger.Pod(kept))
		case kept.Object != p.kept.Object:
			c.ledger.RenewPod(kept.Object)
		default:
			continue
		}
		p.kept = &kept
	}
	for _, kept := range c.ledger.Pods() {
		if c.pods[kept.Object.UID] == nil {
			c.ledger.DropPod(kept.Object.UID)
		}
	}
	for _, id := range sortedKeys(c.deletions) {
		d := c.deletions[id]
		c.ledger.KeepDeletion(ledger.Deletion{TaskID: id, Namespace: d.namespace, Name: d.name, UID: d.uid, Grace: d.grace, EvictUntil: d.evictUntil})
	}
	for _, kept := range c.ledger.Deletions() {
		if c.deletions[kept.TaskID] == nil {
			c.ledger.DropDeletion(kept.TaskID)
		}
	}
	records := c.ledger.Journal()
	if len(records) == 0 {
		return
	}
	var why []string
	for _, r := range records {
		why = append(why, r.String())
	}
	c.out = slices.Insert(c.out, 0, Effect(Save{Records: records, Why: strings.Join(why, ", ")}))
}

func (t *task) kept() ledger.Task {
	k := ledger.Task{
		ID: t.id, Seq: t.seq, State: t.state.String(), Namespace: t.namespace, Name: t.name, UID: t.uid,
		Envelope: t.envelope, LaunchBy: t.launchBy, Unsure: t.unsure, StaticPods: t.claims,
	}
	if t.state == Killing {
		k.Killing = &ledger.Killing{
			State: t.ending.state, Message: string(t.ending.reason), Reason: t.ending.mesos,
			Since: t.killedAt, GraceEnds: t.graceEnds, ForceAt: t.forceAt, Forced: t.forced,
		}
	}
	return k
}

// keptPod is what the ledger has of a pod.
type keptPod ledger.Pod

// keep is the pod as it is to be kept. What only tells of the object's way through the API server is left out.
func (p *pod) keep() keptPod {
	k := keptPod{TaskID: p.taskID, Object: p.object, Fed: p.fed, Dropped: p.dropped, APIGone: p.apiGone}
	if p.mark != nil {
		k.DeletedAt, k.DeletedGrace = p.mark.at.Time, p.mark.graceSeconds
	}
	return k
}

// differs tells whether the pod is to be written again. A copy that differs in status and version alone is not: the
// kubelet knows the status better, and there are several of these while a pod starts.
func (k keptPod) differs(o *keptPod) bool {
	if o == nil {
		return true
	}
	a, b := k.Object, o.Object
	k.Object = b
	return k != *o || a != b && !sameWork(a, b)
}

// sameWork tells whether two copies of a pod ask the same of the kubelet.
func sameWork(a, b *corev1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds)
}

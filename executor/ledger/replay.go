package ledger

import "slices"

// Replay makes the ledger that wrote the records. Records that lost their neighbours to damage are taken for what they
// say: a lost one takes no other with it.
func Replay(records []Record) *Ledger {
	l := New()
	for _, r := range records {
		l.replay(r)
	}
	l.journal = nil
	return l
}

func (l *Ledger) replay(r Record) {
	switch {
	case r.Task != nil:
		if r.Task.ID == "" {
			return
		}
		t := l.tasks[r.Task.ID]
		if t == nil {
			t = l.enter(r.Task.ID)
		}
		t.kept = *r.Task
	case r.Update != nil:
		u := *r.Update
		if u.TaskID == "" || len(u.UUID) != UUIDBytes || rank(u.State) == 0 {
			return
		}
		t := l.tasks[u.TaskID]
		if t == nil {
			t = l.enter(u.TaskID)
		}
		if !t.recorded || rank(u.State) >= rank(t.last.State) {
			t.last, t.recorded = u, true
		}
		l.open = append(l.open, u)
	case r.Acknowledged != nil:
		l.Acknowledge(r.Acknowledged.TaskID, r.Acknowledged.UUID)
	case r.Forgotten != nil:
		l.open = slices.DeleteFunc(l.open, func(u Update) bool { return u.TaskID == r.Forgotten.TaskID })
		l.bury(*r.Forgotten)
	case r.Pod != nil:
		if r.Pod.Object != nil && r.Pod.Object.UID != "" {
			l.pods[r.Pod.Object.UID] = *r.Pod
		}
	case r.PodGone != "":
		delete(l.pods, r.PodGone)
	case r.Deletion != nil:
		l.deletions[r.Deletion.TaskID] = *r.Deletion
	case r.Damaged != nil:
		l.damaged = *r.Damaged
	case r.DeletionDone != "":
		delete(l.deletions, r.DeletionDone)
	}
}

// Snapshot is the shortest journal that makes this ledger anew. It takes nothing out.
func (l *Ledger) Snapshot() []Record {
	var records []Record
	if l.damaged {
		damaged := true
		records = append(records, Record{Damaged: &damaged})
	}
	for _, g := range l.graves {
		records = append(records, Record{Forgotten: &g})
	}
	for _, id := range l.accepted {
		records = append(records, taskRecord(l.tasks[id].kept))
	}
	for _, u := range l.open {
		records = append(records, updateRecord(u))
	}
	for _, id := range l.accepted {
		// The newest update of a task says where it is, acknowledged or not.
		t := l.tasks[id]
		open := func(u Update) bool { return u.TaskID == id && slices.Equal(u.UUID, t.last.UUID) }
		if t.recorded && !slices.ContainsFunc(l.open, open) {
			records = append(records, updateRecord(t.last),
				Record{Acknowledged: &Acknowledgement{TaskID: id, UUID: slices.Clone(t.last.UUID)}})
		}
	}
	for _, p := range l.Pods() {
		records = append(records, Record{Pod: &p})
	}
	for _, d := range l.Deletions() {
		records = append(records, Record{Deletion: &d})
	}
	return records
}

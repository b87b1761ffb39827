package executor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/executor/web"
	"github.com/mesopod/mesopod/internal/zpages"
)

// journalSize is how many events and effects the page shows.
const journalSize = 500

// view asks the loop what the executor is.
func (e *Executor) view(ctx context.Context) (web.View, error) {
	answer := make(chan web.View, 1)
	e.put(ctx, message{view: answer})
	select {
	case v := <-answer:
		return v, nil
	case <-ctx.Done():
		return web.View{}, ctx.Err()
	}
}

// look makes the view; the loop calls it.
func (e *Executor) look(s *state) web.View {
	v := web.View{
		Time: time.Now(), Version: e.env.Version, Started: s.started, AgentID: e.env.AgentID, FrameworkID: e.env.FrameworkID,
		ExecutorID: e.env.ExecutorID, Container: e.env.Container, Node: s.node, Recent: s.journal.Entries(),
	}
	if s.core != nil {
		snapshot := s.core.Snapshot()
		v.Core = &snapshot
	}
	return v
}

// serveStatus serves the page, health and metrics until the context ends. An address that cannot be had is no reason to end
// pods: it is told in the log, and tried again.
func (e *Executor) serveStatus(ctx context.Context, address string) error {
	if address == "none" {
		return nil
	}
	return zpages.Serve(ctx, address, web.Handler(web.Deps{View: e.view, Metrics: legacyregistry.Handler()}))
}

// eventEntry is an event for the journal; false for what comes so often that it would hide the rest.
func eventEntry(now time.Time, event core.Event) (web.Entry, bool) {
	entry := web.Entry{Time: now, Kind: web.Event, Name: kindOf(event)}
	switch e := event.(type) {
	case core.Launch:
		entry.TaskID, entry.What = e.TaskID, fmt.Sprintf("%d bytes", len(e.Data))
	case core.Kill:
		entry.TaskID = e.TaskID
		if e.Grace != nil {
			entry.What = "grace " + e.Grace.String()
		}
	case core.Shutdown:
		entry.What, entry.Why = "grace "+e.Grace.String(), e.Why
	case core.Acknowledged:
		entry.TaskID = e.TaskID
	case core.Bound:
		entry.TaskID = e.TaskID
	case core.BindFailed:
		entry.TaskID, entry.Why = e.TaskID, fmt.Sprint(e.Err)
	case core.DeleteFailed:
		entry.TaskID, entry.Why = e.TaskID, fmt.Sprint(e.Err)
	case core.PodChanged:
		entry.What = e.Pod.Namespace + "/" + e.Pod.Name
	case core.PodGone:
		entry.What = string(e.UID)
	case core.KubeletPod:
		entry.What = fmt.Sprintf("%s/%s %s", e.Pod.Namespace, e.Pod.Name, e.Pod.Status.Phase)
	case core.KubeletEnded:
		entry.Why = fmt.Sprint(e.Err)
	case core.KubeletPods, core.Tick:
		return entry, false
	}
	return entry, true
}

// effectEntry is an effect for the journal; false for those that others stand for.
func effectEntry(now time.Time, effect core.Effect) (web.Entry, bool) {
	entry := web.Entry{Time: now, Kind: web.Effect, Name: kindOf(effect)}
	pod := func(namespace, name string) string { return namespace + "/" + name }
	switch e := effect.(type) {
	case core.Bind:
		entry.TaskID, entry.What, entry.Why = e.TaskID, pod(e.Namespace, e.Name), e.Why
	case core.Patch:
		entry.TaskID, entry.What, entry.Why = e.TaskID, pod(e.Namespace, e.Name), e.Why
	case core.DeletePod:
		entry.TaskID, entry.What, entry.Why = e.TaskID, pod(e.Namespace, e.Name)+" grace "+e.Grace.String(), e.Why
	case core.EvictPod:
		entry.TaskID, entry.What, entry.Why = e.TaskID, pod(e.Namespace, e.Name)+" grace "+e.Grace.String(), e.Why
	case core.StopContainers:
		entry.TaskID, entry.What, entry.Why = e.TaskID, "grace "+e.Grace.String(), e.Why
	case core.SendUpdate:
		entry.TaskID, entry.What, entry.Why = e.Update.TaskID, fmt.Sprintf("%v %s", e.Update.State, e.Update.Message), e.Why
	case core.Feed:
		entry.What, entry.Why = fmt.Sprintf("%d pods", len(e.Pods)), e.Why
	case core.Exit:
		entry.What, entry.Why = fmt.Sprintf("code %d", e.Code), e.Why
	case core.Note:
		entry.TaskID, entry.Why = e.TaskID, e.Why
	default:
		return entry, false // Save: what was saved is said by the effects that follow
	}
	return entry, true
}

// kindOf is the type's name without its package.
func kindOf(value any) string { return strings.TrimPrefix(fmt.Sprintf("%T", value), "core.") }

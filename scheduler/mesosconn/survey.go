package mesosconn

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/golang/glog"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler/core"
)

// registryPath shows the master's registry: the one place that tells agents which are unreachable, or have yet to register
// with a new master, from those that are gone.
const registryPath = "/registrar(1)/registry"

// Survey asks the leading master for its agents and for the executors of this framework. Nodes are left out. A registry
// that may not be read makes the answer incomplete, and is no error.
func (c *Conn) Survey(ctx context.Context) (core.Surveyed, error) {
	sub, frameworkID := c.current()
	if sub == nil {
		return core.Surveyed{}, fmt.Errorf("survey: not subscribed: %w", errdefs.ErrUnavailable)
	}
	// The registry first: an agent that registers meanwhile is then in both.
	registry, err := c.readRegistry(ctx, sub)
	if err != nil {
		glog.Warningf("read registry of master=%s reason=%q", sub.master.Host, err)
	}
	ev := core.Surveyed{Complete: err == nil, Registered: map[string]string{}, Executors: map[string]*mesos.ExecutorInfo{}}
	agents, err := c.operator(ctx, sub, master.Call_GET_AGENTS)
	if err != nil {
		return core.Surveyed{}, fmt.Errorf("GET_AGENTS at %s: %w", sub.master.Host, err)
	}
	for i := range agents.GetGetAgents().GetAgents() {
		info := &agents.GetAgents.Agents[i].AgentInfo
		if info.ID != nil {
			ev.Registered[info.ID.Value] = info.Hostname
			if agents.GetAgents.Agents[i].DrainInfo != nil {
				ev.Draining = append(ev.Draining, info.ID.Value)
			}
		}
	}
	for i := range agents.GetGetAgents().GetRecoveredAgents() {
		if id := agents.GetAgents.RecoveredAgents[i].ID; id != nil {
			ev.Recovered = append(ev.Recovered, id.Value)
		}
	}
	for _, id := range registry.admitted() {
		if _, registered := ev.Registered[id]; !registered {
			ev.Recovered = append(ev.Recovered, id)
		}
	}
	ev.Unreachable = registry.unreachable()
	executors, err := c.operator(ctx, sub, master.Call_GET_EXECUTORS)
	if err != nil {
		return core.Surveyed{}, fmt.Errorf("GET_EXECUTORS at %s: %w", sub.master.Host, err)
	}
	for i := range executors.GetGetExecutors().GetExecutors() {
		e := &executors.GetExecutors.Executors[i]
		if e.ExecutorInfo.ExecutorID.Value == messages.ExecutorID && e.ExecutorInfo.GetFrameworkID().GetValue() == frameworkID {
			ev.Executors[e.AgentID.Value] = &e.ExecutorInfo
		}
	}
	return ev, nil
}

// registry is what of the master's registry is read.
type registry struct {
	Slaves struct {
		Slaves []struct {
			Info struct {
				ID mesos.AgentID `json:"id"`
			} `json:"info"`
		} `json:"slaves"`
	} `json:"slaves"`
	Unreachable struct {
		Slaves []struct {
			ID mesos.AgentID `json:"id"`
		} `json:"slaves"`
	} `json:"unreachable"`
}

func (r registry) admitted() (ids []string) {
	for i := range r.Slaves.Slaves {
		ids = append(ids, r.Slaves.Slaves[i].Info.ID.Value)
	}
	return ids
}

func (r registry) unreachable() (ids []string) {
	for i := range r.Unreachable.Slaves {
		ids = append(ids, r.Unreachable.Slaves[i].ID.Value)
	}
	return ids
}

func (c *Conn) readRegistry(ctx context.Context, sub *subscription) (registry, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	address := url.URL{Scheme: sub.master.Scheme, Host: sub.master.Host, Path: registryPath}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return registry{}, fmt.Errorf("%w: %w", errdefs.ErrInvalid, err)
	}
	c.credentials.sign(request)
	response, err := c.calls.Do(request)
	if err != nil {
		return registry{}, fmt.Errorf("%w: %w", errdefs.ErrUnavailable, err)
	}
	if response.StatusCode != http.StatusOK {
		return registry{}, fmt.Errorf("%w: %s: %s", errdefs.ErrRefused, response.Status, bodyText(response))
	}
	defer response.Body.Close()
	var r registry
	if err := json.NewDecoder(response.Body).Decode(&r); err != nil {
		return registry{}, fmt.Errorf("registry: %w: %w", errdefs.ErrInvalid, err)
	}
	return r, nil
}

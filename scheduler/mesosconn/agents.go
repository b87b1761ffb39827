package mesosconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang/glog"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"golang.org/x/sync/errgroup"

	"github.com/mesopod/mesopod/internal/agentsize"
	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/core"
)

// LookUpAgents asks the leading master about agents, by id, in one call of the operator API however many they are. An
// agent that the master does not know is missing in the answer.
func (c *Conn) LookUpAgents(ctx context.Context, ids []string) (map[string]core.Agent, error) {
	sub, _ := c.current()
	if sub == nil {
		return nil, fmt.Errorf("GET_AGENTS: not subscribed: %w", errdefs.ErrUnavailable)
	}
	answer, err := c.operator(ctx, sub, master.Call_GET_AGENTS)
	if err != nil {
		return nil, fmt.Errorf("GET_AGENTS at %s: %w", sub.master.Host, err)
	}
	agents := answer.GetGetAgents().GetAgents()
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	var mu sync.Mutex // guards found
	found := make(map[string]core.Agent, len(wanted))
	var group errgroup.Group
	group.SetLimit(askAtOnce)
	for i := range agents {
		a := &agents[i]
		if id := a.AgentInfo.ID; id == nil || !wanted[id.Value] {
			continue
		}
		group.Go(func() error {
			agent := agentOf(a, c.cfg.Framework.roles())
			agent.Limits = agent.Limits && c.canLimit(ctx, sub.master.Scheme, a.AgentInfo.Hostname, a.GetPID())
			mu.Lock()
			defer mu.Unlock()
			found[agent.ID] = agent
			return nil
		})
	}
	_ = group.Wait() // none of them fails
	return found, nil
}

// askAtOnce is how many agents are asked at the same time, askTimeout how long each has.
const (
	askAtOnce  = 16
	askTimeout = 3 * time.Second
)

// canLimit asks the agent itself which isolators it runs. The capability only tells that it understands task limits; it
// drops tasks that have them unless it isolates cpus and memory by cgroups. An agent that does not answer is believed.
// Agents are asked as masters are, and by http where they have no https: only masters may stand behind a proxy that has.
func (c *Conn) canLimit(ctx context.Context, scheme, hostname, pid string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	isolation, err := c.isolation(ctx, scheme, hostname, pid)
	if err != nil && scheme == "https" {
		var plain error
		if isolation, plain = c.isolation(ctx, "http", hostname, pid); plain == nil {
			err = nil
		}
	}
	if err != nil {
		glog.V(1).Infof("ask agent=%s reason=%q", pid, explainTransport(err, scheme))
		return true
	}
	isolators := strings.Split(isolation, ",")
	all := slices.Contains(isolators, "cgroups/all")
	return all || slices.Contains(isolators, "cgroups/cpu") && slices.Contains(isolators, "cgroups/mem")
}

// isolation is the agent's flag of that name. pid is process@host:port; over https the agent is known by its host name.
func (c *Conn) isolation(ctx context.Context, scheme, hostname, pid string) (string, error) {
	process, host, found := strings.Cut(pid, "@")
	_, port, err := net.SplitHostPort(host)
	if !found || err != nil {
		return "", fmt.Errorf("agent's pid %q has no address: %w", pid, errdefs.ErrInvalid)
	}
	address := url.URL{Scheme: scheme, Host: host, Path: "/" + process + "/flags"}
	if scheme == "https" && hostname != "" {
		address.Host = net.JoinHostPort(hostname, port)
		ctx = context.WithValue(ctx, dialAt{}, host)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return "", err
	}
	response, err := c.agents.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct {
		Flags struct {
			Isolation *string `json:"isolation"`
		} `json:"flags"`
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%w: %s", errdefs.ErrRefused, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Flags.Isolation == nil {
		return "", fmt.Errorf("it does not tell its isolation: %w", errors.Join(errdefs.ErrInvalid, err))
	}
	return *answer.Flags.Isolation, nil
}

// operator asks the master's operator API a question without arguments.
func (c *Conn) operator(ctx context.Context, sub *subscription, question master.Call_Type) (*master.Response, error) {
	body, err := (&master.Call{Type: question}).Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode: %w: %w", errdefs.ErrInvalid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	request, err := newRequest(ctx, sub.master, operatorPath, body)
	if err != nil {
		return nil, err
	}
	c.credentials.sign(request)
	response, err := c.calls.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errdefs.ErrUnavailable, explainTransport(err, sub.master.Scheme))
	}
	if response.StatusCode != http.StatusOK {
		kind := errdefs.ErrUnavailable
		if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
			kind = errdefs.ErrRefused
		}
		return nil, fmt.Errorf("%w: %s: %s", kind, response.Status, bodyText(response))
	}
	answer, err := readAnswer(response)
	if err != nil {
		return nil, err
	}
	if answer.Type.String() != question.String() {
		return nil, fmt.Errorf("answer of type %s: %w", answer.Type, errdefs.ErrInvalid)
	}
	return answer, nil
}

// readAnswer reads and closes a good answer. A call that asks nothing has an empty one.
func readAnswer(response *http.Response) (*master.Response, error) {
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errdefs.ErrUnavailable, err)
	}
	var answer master.Response
	if len(data) == 0 {
		return &answer, nil
	}
	if err := answer.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("answer of %d bytes: %w: %w", len(data), errdefs.ErrInvalid, err)
	}
	return &answer, nil
}

func agentOf(a *master.Response_GetAgents_Agent, roles []string) core.Agent {
	agent := core.Agent{
		ID:         a.AgentInfo.ID.Value,
		Hostname:   a.AgentInfo.Hostname,
		Attributes: a.AgentInfo.Attributes,
		Domain:     a.AgentInfo.Domain,
		Total:      agentsize.Of(a.TotalResources, roles),
	}
	for _, capability := range a.Capabilities {
		if capability.Type == mesos.AgentInfo_Capability_TASK_RESOURCE_LIMITS {
			agent.Limits = true
		}
	}
	return agent
}

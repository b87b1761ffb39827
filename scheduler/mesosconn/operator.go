package mesosconn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/gogo/protobuf/types"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Operator makes calls of the operator API for people, without a subscription: whichever master leads.
type Operator struct {
	where       locator
	credentials credentials
	client      *http.Client
	timeout     time.Duration
}

// NewOperator takes the masters, and the credentials for those that authenticate operators. Of Config.Framework only the
// principal matters. The error is errdefs.ErrInvalid.
func NewOperator(cfg Config) (*Operator, error) {
	cfg.setDefaults()
	where, err := cfg.locator()
	if err != nil {
		return nil, err
	}
	client, _, err := cfg.TLS.clients()
	if err != nil {
		return nil, err
	}
	who, err := cfg.credentials()
	if err != nil {
		return nil, err
	}
	return &Operator{where: where, credentials: who, client: client(), timeout: cfg.CallTimeout}, nil
}

// Close gives the connections back.
func (o *Operator) Close() { o.client.CloseIdleConnections() }

// Teardown ends a framework with all its tasks and executors, for good.
func (o *Operator) Teardown(ctx context.Context, frameworkID string) error {
	_, err := o.call(ctx, &master.Call{Type: master.Call_TEARDOWN,
		Teardown: &master.Call_Teardown{FrameworkID: mesos.FrameworkID{Value: frameworkID}}})
	return err
}

// Drain takes an agent out of use: no more offers of it are made, and all its tasks are killed, with this grace at most.
func (o *Operator) Drain(ctx context.Context, agentID string, grace time.Duration) error {
	_, err := o.call(ctx, &master.Call{Type: master.Call_DRAIN_AGENT, DrainAgent: &master.Call_DrainAgent{
		AgentID: mesos.AgentID{Value: agentID}, MaxGracePeriod: types.DurationProto(grace)}})
	return err
}

// Reactivate brings an agent back into use that was drained.
func (o *Operator) Reactivate(ctx context.Context, agentID string) error {
	_, err := o.call(ctx, &master.Call{Type: master.Call_REACTIVATE_AGENT,
		ReactivateAgent: &master.Call_ReactivateAgent{AgentID: mesos.AgentID{Value: agentID}}})
	return err
}

// Drained tells whether nothing runs any more on an agent that is being drained. The error is errdefs.ErrNotFound for an
// agent that is not registered, errdefs.ErrConflict for one that is not being drained.
func (o *Operator) Drained(ctx context.Context, agentID string) (bool, error) {
	answer, err := o.call(ctx, &master.Call{Type: master.Call_GET_AGENTS})
	if err != nil {
		return false, err
	}
	agents := answer.GetGetAgents().GetAgents()
	for i := range agents {
		if id := agents[i].AgentInfo.ID; id == nil || id.Value != agentID {
			continue
		}
		if agents[i].DrainInfo == nil {
			return false, fmt.Errorf("agent %s is not being drained: %w", agentID, errdefs.ErrConflict)
		}
		return agents[i].DrainInfo.State == mesos.DrainState_DRAINED, nil
	}
	return false, fmt.Errorf("agent %s is not registered: %w", agentID, errdefs.ErrNotFound)
}

// call asks the masters one after the other until one of them answers, and follows to the leader.
func (o *Operator) call(ctx context.Context, call *master.Call) (*master.Response, error) {
	body, err := call.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w: %w", call.Type, errdefs.ErrInvalid, err)
	}
	masters, err := o.where.every(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call.Type, err)
	}
	var faults []error
	for _, one := range masters {
		answer, err := o.ask(ctx, one, body)
		if err == nil {
			return answer, nil
		}
		faults = append(faults, fmt.Errorf("%s at %s: %w", call.Type, one.Host, err))
		if !errors.Is(err, errdefs.ErrUnavailable) {
			break // the leader has said no
		}
	}
	return nil, errors.Join(faults...)
}

func (o *Operator) ask(ctx context.Context, at *url.URL, body []byte) (*master.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	for range maxRedirects {
		request, err := newRequest(ctx, at, operatorPath, body)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errdefs.ErrInvalid, err)
		}
		o.credentials.sign(request)
		response, err := o.client.Do(request)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errdefs.ErrUnavailable, explainTransport(err, at.Scheme))
		}
		switch code := response.StatusCode; {
		case code == http.StatusTemporaryRedirect:
			location := response.Header.Get("Location")
			_ = response.Body.Close() // nothing of it is read
			if at, err = leaderOf(at, location); err != nil {
				return nil, err
			}
		case code == http.StatusOK:
			return readAnswer(response)
		case code == http.StatusAccepted:
			_ = response.Body.Close() // nothing is in it
			return &master.Response{}, nil
		case code == http.StatusServiceUnavailable:
			return nil, fmt.Errorf("%w: %s: %s", errdefs.ErrUnavailable, response.Status, bodyText(response))
		case code == http.StatusUnauthorized:
			_ = response.Body.Close() // nothing of it is told
			return nil, fmt.Errorf("%w: %s: %s", errdefs.ErrRefused, response.Status, o.credentials.advice())
		default:
			return nil, fmt.Errorf("%w: %s: %s", errdefs.ErrRefused, response.Status, bodyText(response))
		}
	}
	return nil, fmt.Errorf("%w: more than %d redirects", errdefs.ErrUnavailable, maxRedirects)
}

package agentconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/golang/glog"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/recordio"
	"golang.org/x/sync/errgroup"

	"github.com/mesopod/mesopod/executor/core"
	"github.com/mesopod/mesopod/internal/errdefs"
)

const protobufType = "application/x-protobuf"

// subscribe makes one subscription and lives as long as it does. The error is errdefs.ErrRefused when another attempt
// is of no use, else errdefs.ErrUnavailable.
func (c *Conn) subscribe(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.outbox.reset()
	tasks, updates := c.deps.Unacknowledged(ctx)
	response, err := c.post(ctx, c.stream, c.subscribeCall(tasks, updates))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return statusError("SUBSCRIBE", response)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		// The body does not know of the group's context: close it when the sender gives up.
		<-ctx.Done()
		return response.Body.Close()
	})
	subscribed := make(chan struct{})
	group.Go(func() error { return c.send(ctx, subscribed) })
	group.Go(func() error { return c.read(ctx, response.Body, subscribed) })
	return group.Wait()
}

// read hands over events until the stream breaks; it never returns nil.
func (c *Conn) read(ctx context.Context, body io.Reader, subscribed chan<- struct{}) error {
	frames := recordio.NewReader(body)
	for {
		frame, err := frames.ReadFrame()
		if err != nil {
			return fmt.Errorf("read events: %w: %w", errdefs.ErrUnavailable, err)
		}
		var event executor.Event
		if err := event.Unmarshal(frame); err != nil {
			return fmt.Errorf("decode event of %d bytes: %w: %w", len(frame), errdefs.ErrUnavailable, err)
		}
		before := c.connected
		if err := c.deliver(ctx, &event); err != nil {
			return err
		}
		if c.connected && !before {
			close(subscribed)
		}
	}
}

// deliver turns one event of the agent into events of the core. An unknown one is logged and skipped.
func (c *Conn) deliver(ctx context.Context, event *executor.Event) error {
	switch {
	case event.Type == executor.Event_SUBSCRIBED && event.Subscribed != nil:
		if !c.identified {
			c.identified = true
			c.deps.Subscribed(ctx, agentOf(event.Subscribed))
		}
		c.connected = true
		c.deps.Post(ctx, core.Connected{TaskKilling: killsSoftly(event.Subscribed)})
	case event.Type == executor.Event_LAUNCH && event.Launch != nil:
		c.deps.Post(ctx, core.Launch{TaskID: event.Launch.Task.TaskID.Value, Data: event.Launch.Task.Data})
	case event.Type == executor.Event_LAUNCH_GROUP && event.LaunchGroup != nil:
		// Our scheduler launches no groups. A pod is whole by itself, so each member is launched like any other task.
		for _, task := range event.LaunchGroup.TaskGroup.Tasks {
			c.deps.Post(ctx, core.Launch{TaskID: task.TaskID.Value, Data: task.Data})
		}
	case event.Type == executor.Event_KILL && event.Kill != nil:
		c.deps.Post(ctx, core.Kill{TaskID: event.Kill.TaskID.Value, Grace: killGrace(event.Kill)})
	case event.Type == executor.Event_ACKNOWLEDGED && event.Acknowledged != nil:
		c.deps.Post(ctx, core.Acknowledged{TaskID: event.Acknowledged.TaskID.Value, UUID: event.Acknowledged.UUID})
	case event.Type == executor.Event_MESSAGE && event.Message != nil:
		c.deps.Post(ctx, core.Message{Data: event.Message.Data})
	case event.Type == executor.Event_SHUTDOWN:
		c.shutDown = true
		c.deps.Post(ctx, core.Shutdown{Grace: c.config.ShutdownGrace, Why: "the agent asked for it"})
	case event.Type == executor.Event_ERROR && event.Error != nil:
		return fmt.Errorf("agent sent ERROR %q: %w", event.Error.Message, errdefs.ErrUnavailable)
	case event.Type == executor.Event_HEARTBEAT:
	default:
		glog.Warningf("skip event type=%v reason=%q", event.Type, "not known or without its body")
	}
	return nil
}

// send sends statuses one after the other; it returns nil only when the context ends.
func (c *Conn) send(ctx context.Context, subscribed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-subscribed:
	}
	for {
		update, ok, changed := c.outbox.next()
		if !ok {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
			continue
		}
		err := c.sendCall(ctx, c.updateCall(update))
		if errors.Is(err, errdefs.ErrInvalid) {
			// The agent will never take it. Keeping it would send it again with every subscription, for ever.
			glog.Errorf("drop status task=%s state=%v err=%v", update.TaskID, update.State, err)
			c.deps.Post(ctx, core.Acknowledged{TaskID: update.TaskID, UUID: update.UUID})
			err = nil
		}
		if err != nil {
			return err
		}
		c.outbox.sent()
	}
}

// sendCall makes a call that the agent answers at once. errdefs.ErrInvalid means that the call itself is at fault.
func (c *Conn) sendCall(ctx context.Context, call *executor.Call) error {
	response, err := c.post(ctx, c.calls, call)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusAccepted:
		_, err := io.Copy(io.Discard, response.Body)
		if err != nil {
			return fmt.Errorf("read answer to %v: %w: %w", call.Type, errdefs.ErrUnavailable, err)
		}
		return nil
	case http.StatusBadRequest:
		return fmt.Errorf("%v: %s: %w", call.Type, reason(response), errdefs.ErrInvalid)
	}
	// 403 says that we are not subscribed, 503 that the agent recovers: both mend with the next subscription.
	return fmt.Errorf("%v: %s: %w", call.Type, reason(response), errdefs.ErrUnavailable)
}

func (c *Conn) post(ctx context.Context, client *http.Client, call *executor.Call) (*http.Response, error) {
	body, err := call.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %v: %w: %w", call.Type, errdefs.ErrInvalid, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.config.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %w", call.Type, errdefs.ErrInvalid, err)
	}
	request.Header.Set("Content-Type", protobufType)
	request.Header.Set("Accept", protobufType)
	if c.config.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.config.Token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %w", call.Type, errdefs.ErrUnavailable, err)
	}
	return response, nil
}

// statusError is the answer to a SUBSCRIBE that was not taken. An agent that just started has no route yet (404) or is
// recovering (503).
func statusError(what string, response *http.Response) error {
	kind := errdefs.ErrRefused
	if response.StatusCode == http.StatusNotFound || response.StatusCode >= http.StatusInternalServerError {
		kind = errdefs.ErrUnavailable
	}
	return fmt.Errorf("%s: %s: %w", what, reason(response), kind)
}

// reason is the status line and the first words of the body.
func reason(response *http.Response) string {
	const enough = 512
	text, err := io.ReadAll(io.LimitReader(response.Body, enough))
	if err != nil || len(text) == 0 {
		return response.Status
	}
	return response.Status + ": " + strings.TrimSpace(string(text))
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"golang.org/x/sync/errgroup"
)

// client is a scheduler that does nothing but take and acknowledge.
type client struct {
	ctx    context.Context
	url    string
	stream string
	id     *mesos.FrameworkID
	http   *http.Client
	events chan *scheduler.Event
	open   []mesos.Offer // not yet answered
	// executor is the id of the executor of all tasks, taskID that of the n-th task on an offer; launched is told of tasks and their
	// agents before they are.
	executor string
	taskID   func(offer string, n int) string
	launched func(task, agent string)
	mu       sync.Mutex // of taskID and launched
}

// senders make calls side by side.
const senders = 8

func subscribe(ctx context.Context, master string) (*client, error) {
	c := &client{ctx: ctx, url: "http://" + master + "/api/v1/scheduler", events: make(chan *scheduler.Event, 1<<16),
		executor: "e", taskID: func(offer string, n int) string { return fmt.Sprintf("%s.%d", offer, n) }, launched: func(string, string) {},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}}
	response, err := c.post(&scheduler.Call{Type: scheduler.Call_SUBSCRIBE, Subscribe: &scheduler.Call_Subscribe{FrameworkInfo: &mesos.FrameworkInfo{
		User: "root", Name: "bench", Roles: []string{"*"}, Checkpoint: ptr(true), FailoverTimeout: ptr(600.0),
		Capabilities: []mesos.FrameworkInfo_Capability{{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE},
			{Type: mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT}, {Type: mesos.FrameworkInfo_Capability_PARTITION_AWARE}}}}})
	if err != nil {
		return nil, err
	}
	c.stream = response.Header.Get("Mesos-Stream-Id")
	go c.read(response.Body)
	event, err := c.next(scheduler.Event_SUBSCRIBED)
	if err != nil {
		return nil, err
	}
	c.id = event.Subscribed.FrameworkID
	return c, nil
}

func (c *client) read(body io.ReadCloser) {
	defer close(c.events)
	defer func() { _ = body.Close() }() // it was read to its end
	r := bufio.NewReaderSize(body, 1<<20)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		size, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return
		}
		record := make([]byte, size)
		event := &scheduler.Event{}
		if _, err := io.ReadFull(r, record); err != nil || event.Unmarshal(record) != nil {
			return
		}
		c.events <- event
	}
}

func (c *client) post(call *scheduler.Call) (*http.Response, error) {
	call.FrameworkID = c.id
	body, err := call.Marshal()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Accept", "application/x-protobuf")
	if c.stream != "" {
		request.Header.Set("Mesos-Stream-Id", c.stream)
	}
	return c.http.Do(request)
}

func (c *client) call(call *scheduler.Call) error {
	response, err := c.post(call)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("%s: %s: %s", call.Type, response.Status, text)
	}
	return err
}

func (c *client) next(kind scheduler.Event_Type) (*scheduler.Event, error) {
	limit := time.After(5 * time.Minute)
	for {
		select {
		case event, ok := <-c.events:
			if !ok {
				return nil, fmt.Errorf("the stream broke while waiting for %s", kind)
			}
			if event.Type == kind {
				return event, nil
			}
		case <-limit:
			return nil, fmt.Errorf("no %s", kind)
		}
	}
}

// countOffers declines and revives again and again, and ends with an offer of each agent open.
func (c *client) countOffers(window time.Duration, agents int) (perSecond float64, err error) {
	began, count := time.Now(), 0
	for {
		for len(c.open) < agents {
			event, err := c.next(scheduler.Event_OFFERS)
			if err != nil {
				return 0, err
			}
			c.open = append(c.open, event.Offers.Offers...)
			count += len(event.Offers.Offers)
		}
		if time.Since(began) > window {
			return float64(count) / time.Since(began).Seconds(), nil
		}
		decline := &scheduler.Call{Type: scheduler.Call_DECLINE, Decline: &scheduler.Call_Decline{Filters: &mesos.Filters{RefuseSeconds: ptr(3600.0)}}}
		for _, o := range c.open {
			decline.Decline.OfferIDs = append(decline.Decline.OfferIDs, o.ID)
		}
		c.open = nil
		if err := c.call(decline); err != nil {
			return 0, err
		}
		if err := c.call(&scheduler.Call{Type: scheduler.Call_REVIVE, Revive: &scheduler.Call_Revive{}}); err != nil {
			return 0, err
		}
	}
}

// launch starts tasks on all open offers and acknowledges each status, until all tasks run.
func (c *client) launch(agents, tasks int) error {
	group, ctx := errgroup.WithContext(c.ctx)
	offers := make(chan mesos.Offer, len(c.open))
	for _, o := range c.open {
		offers <- o
	}
	close(offers)
	acks := make(chan mesos.TaskStatus, senders)
	for range senders {
		group.Go(func() error {
			for o := range offers {
				if err := c.call(c.accept(o, tasks)); err != nil {
					return err
				}
			}
			return nil
		})
		group.Go(func() error {
			for status := range acks {
				if err := c.call(&scheduler.Call{Type: scheduler.Call_ACKNOWLEDGE, Acknowledge: &scheduler.Call_Acknowledge{
					AgentID: *status.AgentID, TaskID: status.TaskID, UUID: status.UUID}}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(acks)
		for range agents * tasks {
			event, err := c.next(scheduler.Event_UPDATE)
			if err != nil {
				return err
			}
			if state := event.Update.Status.GetState(); state != mesos.TASK_RUNNING {
				return fmt.Errorf("task %s is %s: %s", event.Update.Status.TaskID.Value, state, event.Update.Status.GetMessage())
			}
			select {
			case acks <- event.Update.Status:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return group.Wait()
}

func (c *client) accept(o mesos.Offer, tasks int) *scheduler.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	launch := &mesos.Offer_Operation_Launch{}
	executor := &mesos.ExecutorInfo{Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: c.executor}, FrameworkID: c.id,
		Command: &mesos.CommandInfo{Value: ptr("exec true")}, Resources: []mesos.Resource{scalar("cpus", 0.1), scalar("mem", 64)}}
	for n := range tasks {
		id := c.taskID(o.ID.Value, n)
		c.launched(id, o.AgentID.Value)
		launch.TaskInfos = append(launch.TaskInfos, mesos.TaskInfo{Name: "pod", TaskID: mesos.TaskID{Value: id}, AgentID: o.AgentID, Executor: executor,
			Resources: []mesos.Resource{scalar("cpus", 0.1), scalar("mem", 128)}, Data: make([]byte, 2048)})
	}
	return &scheduler.Call{Type: scheduler.Call_ACCEPT, Accept: &scheduler.Call_Accept{OfferIDs: []mesos.OfferID{o.ID},
		Filters:    &mesos.Filters{RefuseSeconds: ptr(3600.0)},
		Operations: []mesos.Offer_Operation{{Type: mesos.Offer_Operation_LAUNCH, Launch: launch}}}}
}

func scalar(name string, value float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value},
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr("*")}}
}

func ptr[T any](v T) *T { return &v }

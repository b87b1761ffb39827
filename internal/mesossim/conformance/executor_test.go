package conformance

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// scalar is an amount of the role "*".
func scalar(name string, value float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value},
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr("*")}}
}

// noteDir is where executors write their environment.
func (f *fw) noteDir() string {
	return filepath.Join(os.TempDir(), "mesossim-conformance-"+f.info.ID.Value)
}

// executorInfo is a shell that writes its environment down and sleeps; the test plays the executor.
func (f *fw) executorInfo(id string) *mesos.ExecutorInfo {
	dir := f.noteDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	note := filepath.Join(dir, id)
	return &mesos.ExecutorInfo{
		Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: id}, FrameworkID: f.info.ID, Name: ptr("played"),
		Command:   &mesos.CommandInfo{Shell: ptr(true), Value: ptr(fmt.Sprintf("env > %s.new; mv %s.new %s; exec sleep 600", note, note, note))},
		Resources: []mesos.Resource{scalar("cpus", 0.1), scalar("mem", 32)},
	}
}

func (f *fw) task(o mesos.Offer, id string, e *mesos.ExecutorInfo) mesos.TaskInfo {
	return mesos.TaskInfo{Name: id, TaskID: mesos.TaskID{Value: id}, AgentID: o.AgentID, Executor: e, Data: []byte("secret"),
		Resources: []mesos.Resource{scalar("cpus", 0.1), scalar("mem", 32)},
		Labels:    &mesos.Labels{Labels: []mesos.Label{{Key: "k", Value: ptr("v")}}}}
}

func launchCall(o mesos.Offer, tasks ...mesos.TaskInfo) *scheduler.Call {
	zero := 0.0
	return &scheduler.Call{Type: scheduler.Call_ACCEPT, Accept: &scheduler.Call_Accept{
		OfferIDs: []mesos.OfferID{o.ID}, Filters: &mesos.Filters{RefuseSeconds: &zero},
		Operations: []mesos.Offer_Operation{{Type: mesos.Offer_Operation_LAUNCH, Launch: &mesos.Offer_Operation_Launch{TaskInfos: tasks}}},
	}}
}

// ex is an executor, played by the test.
type ex struct {
	f      *fw
	id     string
	env    map[string]string
	cancel context.CancelFunc

	mu     sync.Mutex
	events []*executor.Event
	read   int
	fresh  chan struct{}
	closed chan struct{}
}

// executor waits until the agent has started one.
func (f *fw) executor(id string) *ex {
	f.t.Helper()
	e := &ex{f: f, id: id, env: map[string]string{}}
	note := filepath.Join(f.noteDir(), id)
	eventually(f.t, "executor "+id+" started", func() bool {
		data, err := os.ReadFile(note)
		for line := range strings.Lines(string(data)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			e.env[name] = value
		}
		return err == nil
	})
	return e
}

func (e *ex) url() string {
	process, _, _ := strings.Cut(e.env["MESOS_SLAVE_PID"], "@")
	return "http://" + e.env["MESOS_AGENT_ENDPOINT"] + "/" + process + "/api/v1/executor"
}

func (e *ex) make(kind executor.Call_Type) *executor.Call {
	return &executor.Call{Type: kind, ExecutorID: mesos.ExecutorID{Value: e.id}, FrameworkID: *e.f.info.ID}
}

// trySubscribe makes one attempt; the answer's status tells how it went.
func (e *ex) trySubscribe(tasks []mesos.TaskInfo, updates []mesos.TaskStatus) int {
	e.f.t.Helper()
	call := e.make(executor.Call_SUBSCRIBE)
	call.Subscribe = &executor.Call_Subscribe{UnacknowledgedTasks: tasks}
	for _, status := range updates {
		call.Subscribe.UnacknowledgedUpdates = append(call.Subscribe.UnacknowledgedUpdates, executor.Call_Update{Status: status})
	}
	body, err := call.Marshal()
	if err != nil {
		e.f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url(), strings.NewReader(string(body)))
	if err != nil {
		e.f.t.Fatal(err)
	}
	request.Header.Set("Content-Type", protobuf)
	request.Header.Set("Accept", protobuf)
	response, err := client.Do(request)
	if err != nil {
		cancel()
		return 0
	}
	if response.StatusCode != http.StatusOK {
		cancel()
		_ = response.Body.Close()
		return response.StatusCode
	}
	e.mu.Lock()
	e.cancel, e.fresh, e.closed, e.events, e.read = cancel, make(chan struct{}, 1), make(chan struct{}), nil, 0
	fresh, closed := e.fresh, e.closed
	e.mu.Unlock()
	go func() {
		defer close(closed)
		defer response.Body.Close()
		readEvents(response.Body, func(record []byte) {
			event := &executor.Event{}
			if err := event.Unmarshal(record); err != nil {
				e.f.t.Errorf("executor event %q: %v", record, err)
			}
			e.mu.Lock()
			e.events = append(e.events, event)
			e.mu.Unlock()
			select {
			case fresh <- struct{}{}:
			default:
			}
		})
	}()
	e.f.t.Cleanup(func() {
		cancel()
		<-closed
	})
	return http.StatusOK
}

func (e *ex) subscribe() {
	e.f.t.Helper()
	if code := e.trySubscribe(nil, nil); code != http.StatusOK {
		e.f.t.Fatalf("executor's SUBSCRIBE: %d", code)
	}
}

func (e *ex) look(limit time.Duration, fits func(*executor.Event) bool) *executor.Event {
	end := time.After(limit)
	for {
		e.mu.Lock()
		for e.read < len(e.events) {
			event := e.events[e.read]
			e.read++
			if fits(event) {
				e.mu.Unlock()
				return event
			}
		}
		e.mu.Unlock()
		select {
		case <-e.fresh:
		case <-end:
			return nil
		}
	}
}

func (e *ex) next(kind executor.Event_Type) *executor.Event {
	e.f.t.Helper()
	event := e.look(patience, func(one *executor.Event) bool { return one.Type == kind })
	if event == nil {
		e.f.t.Fatalf("executor %s: no %s; events: %v", e.id, kind, e.events)
	}
	return event
}

var uuids struct {
	sync.Mutex
	last byte
}

// status is one that an executor sends.
func (e *ex) status(task string, state mesos.TaskState) mesos.TaskStatus {
	uuids.Lock()
	defer uuids.Unlock()
	uuids.last++
	uuid := make([]byte, 16)
	copy(uuid, task)
	uuid[15], uuid[6], uuid[8] = uuids.last, 0x40, 0x80 // Mesos looks at the version
	return mesos.TaskStatus{TaskID: mesos.TaskID{Value: task}, State: &state, Source: mesos.SOURCE_EXECUTOR.Enum(), UUID: uuid,
		ExecutorID: &mesos.ExecutorID{Value: e.id}, Message: ptr("from the executor")}
}

func (e *ex) try(call *executor.Call) (int, string) {
	e.f.t.Helper()
	response := send(e.f.t, e.f.t.Context(), e.url(), protobuf, call, nil)
	return response.StatusCode, text(response)
}

func (e *ex) send(status mesos.TaskStatus) {
	e.f.t.Helper()
	call := e.make(executor.Call_UPDATE)
	call.Update = &executor.Call_Update{Status: status}
	if code, text := e.try(call); code != http.StatusAccepted {
		e.f.t.Fatalf("UPDATE: %d: %s", code, text)
	}
}

// say sends a new status and gives it.
func (e *ex) say(task string, state mesos.TaskState) mesos.TaskStatus {
	e.f.t.Helper()
	status := e.status(task, state)
	e.send(status)
	return status
}

// running starts an executor with one running, acknowledged task on an agent.
func (f *fw) running(agent, executorID, task string) (*ex, mesos.Offer) {
	f.t.Helper()
	o := f.offer(agent)
	f.call(launchCall(o, f.task(o, task, f.executorInfo(executorID))))
	e := f.executor(executorID)
	e.subscribe()
	e.next(executor.Event_SUBSCRIBED)
	e.next(executor.Event_LAUNCH)
	e.say(task, mesos.TASK_RUNNING)
	f.ack(f.update(task, mesos.TASK_RUNNING))
	return e, o
}

package conformance

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// launches follows a task from the ACCEPT to its end, with all that is told on the way.
func launches(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	info := f.task(o, "t1", f.executorInfo("e1"))
	for i := range info.Resources {
		info.Resources[i].AllocationInfo = nil // the master fills it in
	}
	f.call(launchCall(o, info))
	e := f.executor("e1")
	for name, want := range map[string]string{
		"MESOS_FRAMEWORK_ID": f.info.ID.Value, "MESOS_EXECUTOR_ID": "e1", "MESOS_SLAVE_ID": o.AgentID.Value, "MESOS_CHECKPOINT": "1",
		"MESOS_AGENT_ENDPOINT": s.agent(first), "MESOS_SLAVE_PID": "slave(1)@" + s.agent(first), "LIBPROCESS_PORT": "0",
	} {
		if e.env[name] != want {
			t.Errorf("%s=%s, want %s", name, e.env[name], want)
		}
	}
	for _, name := range []string{"MESOS_SANDBOX", "MESOS_DIRECTORY", "MESOS_RECOVERY_TIMEOUT", "MESOS_SUBSCRIPTION_BACKOFF_MAX", "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", "PATH"} {
		if e.env[name] == "" {
			t.Errorf("%s is not set", name)
		}
	}
	e.subscribe()
	subscribed := e.next(executor.Event_SUBSCRIBED).Subscribed
	if subscribed.ExecutorInfo.ExecutorID.Value != "e1" || subscribed.FrameworkInfo.ID.GetValue() != f.info.ID.Value ||
		subscribed.AgentInfo.Hostname != "first.test" || subscribed.AgentInfo.ID.GetValue() != o.AgentID.Value || subscribed.ContainerID == nil {
		t.Errorf("SUBSCRIBED %v", subscribed)
	}
	task := e.next(executor.Event_LAUNCH).Launch.Task
	if task.TaskID.Value != "t1" || string(task.Data) != "secret" || task.Resources[0].AllocationInfo.GetRole() != "*" || task.Executor == nil {
		t.Errorf("LAUNCH %v", task)
	}
	running := e.say("t1", mesos.TASK_RUNNING)
	if ack := e.next(executor.Event_ACKNOWLEDGED).Acknowledged; ack.TaskID.Value != "t1" || string(ack.UUID) != string(running.UUID) {
		t.Errorf("ACKNOWLEDGED %v", ack)
	}
	got := f.update("t1", mesos.TASK_RUNNING)
	if string(got.UUID) != string(running.UUID) || got.AgentID.GetValue() != o.AgentID.Value || got.GetSource() != mesos.SOURCE_EXECUTOR ||
		got.GetMessage() != "from the executor" || got.Timestamp == nil || got.ContainerStatus.GetContainerID().GetValue() != subscribed.ContainerID.Value {
		t.Errorf("UPDATE %v", got)
	}
	if ips := got.ContainerStatus.NetworkInfos; len(ips) != 1 || ips[0].IPAddresses[0].GetIPAddress() != "127.0.0.1" {
		t.Errorf("without addresses of its own a task has the agent's: %v", ips)
	}
	f.ack(got)
	stateShows(t, s, f, "TASK_RUNNING")
	e.say("t1", mesos.TASK_FINISHED)
	f.ack(f.update("t1", mesos.TASK_FINISHED))
	eventually(t, "the task among the completed ones", func() bool {
		_, answer := operate(t, s, &master.Call{Type: master.Call_GET_TASKS})
		for _, one := range answer.GetGetTasks().GetCompletedTasks() {
			if one.TaskID.Value == "t1" && one.FrameworkID.Value == f.info.ID.Value && one.GetState() == mesos.TASK_FINISHED {
				return true
			}
		}
		return false
	})
}

// stateShows looks at /master/state as people and the web UI do.
func stateShows(t *testing.T, s system, f *fw, state string) {
	t.Helper()
	response, err := client.Get("http://" + s.master() + "/master/state")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var page struct {
		Slaves []struct {
			ID, Hostname, PID string
			Active            bool
			Attributes        map[string]any
			Resources         map[string]any
		}
		Frameworks []struct {
			ID, Name string
			Active   bool
			Tasks    []struct {
				ID, Name, State, Role string
				ExecutorID            string `json:"executor_id"`
				SlaveID               string `json:"slave_id"`
				Labels                []struct{ Key, Value string }
				Statuses              []struct{ State string }
				Resources             map[string]any
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	for _, one := range page.Slaves {
		if !one.Active || one.Attributes["rack"] == nil || one.Resources["cpus"] != 4.0 || one.Resources["ports"] != "[31000-31100]" {
			t.Errorf("agent %+v", one)
		}
	}
	for _, one := range page.Frameworks {
		if one.ID != f.info.ID.Value {
			continue
		}
		if !one.Active || len(one.Tasks) != 1 {
			t.Fatalf("framework %+v", one)
		}
		task := one.Tasks[0]
		if task.ID != "t1" || task.State != state || task.ExecutorID != "e1" || task.Role != "*" || len(task.Labels) != 1 || task.Labels[0].Value != "v" ||
			len(task.Statuses) == 0 || task.Resources["cpus"] != 0.1 {
			t.Errorf("task %+v", task)
		}
		return
	}
	t.Errorf("framework %s is not in the state", f.info.ID.Value)
}

func malformedExecutorCalls(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	f.call(launchCall(o, f.task(o, "t", f.executorInfo("e"))))
	e := f.executor("e")
	update := func(change func(*mesos.TaskStatus)) *executor.Call {
		call := e.make(executor.Call_UPDATE)
		call.Update = &executor.Call_Update{Status: e.status("t", mesos.TASK_RUNNING)}
		change(&call.Update.Status)
		return call
	}
	right := func(*mesos.TaskStatus) {}
	if code, text := e.try(update(right)); code != http.StatusForbidden {
		t.Errorf("UPDATE before SUBSCRIBE: %d: %s", code, text)
	}
	e.subscribe()
	e.next(executor.Event_LAUNCH)
	stranger, noTask := e.make(executor.Call_UPDATE), e.make(executor.Call_UPDATE)
	stranger.Update = &executor.Call_Update{Status: e.status("t", mesos.TASK_RUNNING)}
	stranger.FrameworkID.Value = "nobody"
	other := e.make(executor.Call_MESSAGE)
	other.Message = &executor.Call_Message{Data: []byte("x")}
	other.ExecutorID.Value = "nobody"
	for name, c := range map[string]struct {
		call *executor.Call
		want int
	}{
		"no member":            {noTask, 400},
		"unknown framework":    {stranger, 400},
		"unknown executor":     {other, 400},
		"no uuid":              {update(func(u *mesos.TaskStatus) { u.UUID = nil }), 400},
		"uuid of 36 bytes":     {update(func(u *mesos.TaskStatus) { u.UUID = make([]byte, 36) }), 400},
		"uuid of no version":   {update(func(u *mesos.TaskStatus) { u.UUID[6] = 0 }), 400},
		"no source":            {update(func(u *mesos.TaskStatus) { u.Source = nil }), 400},
		"source of the master": {update(func(u *mesos.TaskStatus) { u.Source = mesos.SOURCE_MASTER.Enum() }), 400},
		"TASK_STAGING":         {update(func(u *mesos.TaskStatus) { u.State = mesos.TASK_STAGING.Enum() }), 400},
		"another executor":     {update(func(u *mesos.TaskStatus) { u.ExecutorID.Value = "x" }), 400},
		"right":                {update(right), 202},
	} {
		if code, text := e.try(c.call); code != c.want {
			t.Errorf("%s: %d, want %d: %s", name, code, c.want, text)
		}
	}
	for name, c := range map[string]struct {
		method, kind string
		want         int
	}{"GET": {http.MethodGet, protobuf, 405}, "content type": {http.MethodPost, "text/plain", 415}} {
		if r := sendBytes(t, t.Context(), c.method, e.url(), c.kind, nil, nil); r.StatusCode != c.want {
			t.Errorf("%s: %d, want %d: %s", name, r.StatusCode, c.want, text(r))
		} else {
			_ = r.Body.Close()
		}
	}
}

// reusesExecutor: the second task rides on the first one's executor, whose resources are not asked for again.
func reusesExecutor(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, _ := f.running(first, "e", "t1")
	o := f.offer(first)
	if len(o.ExecutorIDs) != 1 || o.ExecutorIDs[0].Value != "e" {
		t.Errorf("the offer tells of the executors %v", o.ExecutorIDs)
	}
	second := f.task(o, "t2", f.executorInfo("e"))
	second.Resources = rest(o)
	f.call(launchCall(o, second))
	if got := e.next(executor.Event_LAUNCH).Launch.Task; got.TaskID.Value != "t2" {
		t.Errorf("LAUNCH %v", got)
	}
	e.say("t2", mesos.TASK_RUNNING)
	f.ack(f.update("t2", mesos.TASK_RUNNING))
	_, answer := operate(t, s, &master.Call{Type: master.Call_GET_EXECUTORS})
	if list := answer.GetGetExecutors().GetExecutors(); len(list) != 1 || list[0].AgentID.Value != o.AgentID.Value ||
		!list[0].ExecutorInfo.Command.Equal(f.executorInfo("e").Command) {
		t.Errorf("executors %v", list)
	}
}

// rest is all of an offer's cpus and memory.
func rest(o mesos.Offer) (list []mesos.Resource) {
	for _, r := range o.Resources {
		if r.Name == "cpus" || r.Name == "mem" {
			list = append(list, r)
		}
	}
	return list
}

// refusesOtherExecutor: which fields of an ExecutorInfo may differ from those of the one that runs. Labels and the grace
// period may, whatever the documentation says.
func refusesOtherExecutor(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	e, _ := f.running(first, "e", "t1")
	for name, c := range map[string]struct {
		change func(*mesos.ExecutorInfo)
		same   bool
	}{
		"name":      {func(i *mesos.ExecutorInfo) { i.Name = ptr("other") }, false},
		"data":      {func(i *mesos.ExecutorInfo) { i.Data = []byte("x") }, false},
		"resources": {func(i *mesos.ExecutorInfo) { i.Resources = i.Resources[:1] }, false},
		"environment": {func(i *mesos.ExecutorInfo) {
			i.Command.Environment = &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "A", Value: ptr("b")}}}
		}, false},
		"uris":   {func(i *mesos.ExecutorInfo) { i.Command.URIs = []mesos.CommandInfo_URI{{Value: "/etc/hostname"}} }, false},
		"order":  {func(i *mesos.ExecutorInfo) { slices.Reverse(i.Resources) }, true},
		"labels": {func(i *mesos.ExecutorInfo) { i.Labels = &mesos.Labels{Labels: []mesos.Label{{Key: "new"}}} }, true},
		"grace":  {func(i *mesos.ExecutorInfo) { i.ShutdownGracePeriod = &mesos.DurationInfo{Nanoseconds: 5e9} }, true},
	} {
		o := f.offer(first)
		other := f.executorInfo("e")
		c.change(other)
		f.call(launchCall(o, f.task(o, name, other)))
		if c.same {
			if task := e.next(executor.Event_LAUNCH).Launch.Task; task.TaskID.Value != name {
				t.Errorf("%s: LAUNCH %v", name, task)
			}
			continue
		}
		if got := f.update(name, mesos.TASK_ERROR); got.GetReason() != mesos.REASON_TASK_INVALID || len(got.UUID) != 0 || got.GetSource() != mesos.SOURCE_MASTER {
			t.Errorf("%s: UPDATE %v", name, got)
		}
	}
}

func refusesTasks(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	f.running(first, "e", "used")
	for name, change := range map[string]func(*mesos.TaskInfo){
		"duplicate id":    func(i *mesos.TaskInfo) { i.TaskID.Value = "used" },
		"wrong agent":     func(i *mesos.TaskInfo) { i.AgentID.Value = "nobody" },
		"no resources":    func(i *mesos.TaskInfo) { i.Resources = nil },
		"too much":        func(i *mesos.TaskInfo) { i.Resources = []mesos.Resource{scalar("cpus", 100)} },
		"no executor":     func(i *mesos.TaskInfo) { i.Executor = nil },
		"both":            func(i *mesos.TaskInfo) { i.Command = &mesos.CommandInfo{Value: ptr("true")} },
		"slash in the id": func(i *mesos.TaskInfo) { i.TaskID.Value = "a/b" },
		"negative grace": func(i *mesos.TaskInfo) {
			i.KillPolicy = &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: -1}}
		},
		"resource of role": func(i *mesos.TaskInfo) { i.Resources[0].AllocationInfo.Role = ptr("other") },
		"other framework":  func(i *mesos.TaskInfo) { i.Executor.FrameworkID = &mesos.FrameworkID{Value: "other"} },
	} {
		o := f.offer(first)
		info := f.task(o, "bad", f.executorInfo("bad"))
		change(&info)
		f.call(launchCall(o, info))
		if got := f.update(info.TaskID.Value, mesos.TASK_ERROR); got.GetReason() != mesos.REASON_TASK_INVALID || len(got.UUID) != 0 {
			t.Errorf("%s: UPDATE %v", name, got)
		}
	}
}

func staleOffers(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	o := f.offer(first)
	f.call(decline(0, o))
	f.call(launchCall(o, f.task(o, "t", f.executorInfo("e"))))
	if got := f.update("t", mesos.TASK_DROPPED); got.GetReason() != mesos.REASON_INVALID_OFFERS || got.GetSource() != mesos.SOURCE_MASTER || len(got.UUID) != 0 {
		t.Errorf("UPDATE %v", got)
	}
}

func twoAgents(t *testing.T, s system) {
	f := newFramework(t, s, nil)
	var offers []mesos.Offer
	for len(offers) < 2 {
		offers = append(offers, f.next(scheduler.Event_OFFERS).Offers.Offers...)
	}
	call := launchCall(offers[0], f.task(offers[0], "t", f.executorInfo("e")))
	call.Accept.OfferIDs = append(call.Accept.OfferIDs, offers[1].ID)
	f.call(call)
	if got := f.update("t", mesos.TASK_DROPPED); got.GetReason() != mesos.REASON_INVALID_OFFERS {
		t.Errorf("UPDATE %v", got)
	}
}

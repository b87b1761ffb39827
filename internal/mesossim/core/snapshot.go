package core

import (
	"encoding/json"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// snapshot is what an agent keeps on its disk. Mesos' messages are in protobuf.
type snapshot struct {
	ID         string              `json:"id"`
	Draining   []byte              `json:"draining,omitempty"`
	Frameworks []frameworkSnapshot `json:"frameworks,omitempty"`
}

type frameworkSnapshot struct {
	Info      []byte             `json:"info"`
	Ending    bool               `json:"ending,omitempty"`
	Executors []executorSnapshot `json:"executors,omitempty"`
	Streams   []streamSnapshot   `json:"streams,omitempty"`
}

type executorSnapshot struct {
	Info      []byte         `json:"info"`
	Custom    bool           `json:"custom"`
	Container string         `json:"container"`
	State     int            `json:"state"`
	Ever      bool           `json:"ever"`
	Tasks     []taskSnapshot `json:"tasks,omitempty"`
}

type taskSnapshot struct {
	Info   []byte          `json:"info"`
	Queued bool            `json:"queued,omitempty"`
	Group  bool            `json:"group,omitempty"`
	State  mesos.TaskState `json:"-"`
	Number int32           `json:"state"`
	Status []byte          `json:"status,omitempty"`
}

type streamSnapshot struct {
	Task    string   `json:"task"`
	Pending [][]byte `json:"pending,omitempty"`
	Seen    [][]byte `json:"seen,omitempty"`
	Done    bool     `json:"done,omitempty"`
}

// coder encodes and decodes, and remembers the first error.
type coder struct{ err error }

func (c *coder) out(m interface{ Marshal() ([]byte, error) }) []byte {
	data, err := m.Marshal()
	if err != nil && c.err == nil {
		c.err = err
	}
	return data
}

func (c *coder) in(data []byte, m interface{ Unmarshal([]byte) error }) {
	if err := m.Unmarshal(data); err != nil && c.err == nil {
		c.err = err
	}
}

// Snapshot is what the agent must find again after a restart.
func (c *Cluster) Snapshot(name string) ([]byte, error) {
	a := c.agents[name]
	if a == nil {
		return nil, fmt.Errorf("no agent %s", name)
	}
	code := &coder{}
	s := snapshot{ID: a.id}
	if a.draining != nil {
		s.Draining = code.out(a.draining)
	}
	for _, f := range a.sortedFrameworks() {
		if f.info.GetCheckpoint() {
			s.Frameworks = append(s.Frameworks, f.snapshot(code))
		}
	}
	data, err := json.Marshal(s)
	if code.err != nil {
		err = code.err
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint agent %s: %w", name, err)
	}
	return data, nil
}

func (f *agentFramework) snapshot(code *coder) frameworkSnapshot {
	s := frameworkSnapshot{Info: code.out(f.info), Ending: f.ending}
	for _, e := range f.sortedExecutors() {
		one := executorSnapshot{Info: code.out(e.info), Custom: e.custom, Container: e.container, State: e.state, Ever: e.ever}
		for _, id := range e.order {
			if t := e.tasks[id]; t != nil {
				task := taskSnapshot{Info: code.out(t.info), Queued: t.queued, Group: t.group, Number: int32(t.state)}
				if t.status != nil {
					task.Status = code.out(t.status)
				}
				one.Tasks = append(one.Tasks, task)
			}
		}
		s.Executors = append(s.Executors, one)
	}
	for id, stream := range f.streams {
		one := streamSnapshot{Task: id, Seen: stream.seen, Done: stream.done}
		for i := range stream.pending {
			one.Pending = append(one.Pending, code.out(&stream.pending[i]))
		}
		s.Streams = append(s.Streams, one)
	}
	return s
}

// RestoreAgent adds an agent with what an earlier process of it has left, and starts it.
func (c *Cluster) RestoreAgent(now time.Time, cfg AgentConfig, data []byte) ([]Effect, error) {
	var s snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("checkpoint of agent %s: %w", cfg.Name, err)
	}
	probe := &agent{c: c, cfg: cfg, frameworks: map[string]*agentFramework{}}
	if err := s.into(probe); err != nil {
		return nil, fmt.Errorf("checkpoint of agent %s: %w", cfg.Name, err)
	}
	return c.do(now, func() {
		was := c.agents[cfg.Name]
		c.newAgent(cfg)
		if was != nil {
			c.agents[cfg.Name].run0 = was.run0
		}
		c.agents[cfg.Name].begin(&s)
	}), nil
}

// into fills an agent that has just begun.
func (s *snapshot) into(a *agent) error {
	code := &coder{}
	a.id = s.ID
	if s.Draining != nil {
		a.draining = &mesos.DrainConfig{}
		code.in(s.Draining, a.draining)
	}
	for _, saved := range s.Frameworks {
		f := &agentFramework{info: &mesos.FrameworkInfo{}, ending: saved.Ending, executors: map[string]*agentExecutor{}, streams: map[string]*updates{}}
		code.in(saved.Info, f.info)
		a.frameworks[f.info.ID.GetValue()] = f
		for _, e := range saved.Executors {
			e.into(code, a, f)
		}
		for _, one := range saved.Streams {
			stream := &updates{a: a, f: f, seen: one.Seen, done: one.Done, pending: make([]mesos.TaskStatus, len(one.Pending))}
			for i := range one.Pending {
				code.in(one.Pending[i], &stream.pending[i])
			}
			f.streams[one.Task] = stream
		}
	}
	return code.err
}

func (s executorSnapshot) into(code *coder, a *agent, f *agentFramework) {
	e := &agentExecutor{a: a, f: f, info: &mesos.ExecutorInfo{}, custom: s.Custom, container: s.Container, state: s.State, ever: s.Ever,
		tasks: map[string]*agentTask{}}
	code.in(s.Info, e.info)
	if e.state == executorRunning || e.state == executorStarting {
		e.state, e.restored = executorStarting, true
	}
	for _, one := range s.Tasks {
		t := &agentTask{info: &mesos.TaskInfo{}, queued: one.Queued, group: one.Group, state: mesos.TaskState(one.Number)}
		code.in(one.Info, t.info)
		if one.Status != nil {
			t.status = &mesos.TaskStatus{}
			code.in(one.Status, t.status)
		}
		e.tasks[t.info.TaskID.Value] = t
		e.order = append(e.order, t.info.TaskID.Value)
	}
	f.executors[e.id()] = e
}

// Containers are the executors of an agent that should be running: who restores one looks after their processes.
func (c *Cluster) Containers(name string) []Container {
	var list []Container
	if a := c.agents[name]; a != nil {
		for _, f := range a.sortedFrameworks() {
			for _, e := range f.sortedExecutors() {
				if e.state != executorEnded && e.container != "" && e.script == nil {
					list = append(list, e.containerOf())
				}
			}
		}
	}
	return list
}

// StopAgent ends the agent's process; its executors live on. The master sees the connection break.
func (c *Cluster) StopAgent(now time.Time, name string) []Effect {
	return c.do(now, func() {
		a := c.agents[name]
		if a == nil || !a.up {
			return
		}
		for _, f := range a.frameworks {
			for _, e := range f.executors {
				if e.stream != "" {
					c.emit(CloseExecutor{e.stream})
				}
			}
		}
		a.up = false
		if c.m != nil && c.m.agents[a.id] != nil {
			c.m.agentGone(c.m.agents[a.id])
		}
	})
}

// CutAgent cuts the link between an agent and the master, or mends it. Nothing tells the master but silence.
func (c *Cluster) CutAgent(now time.Time, name string, cut bool) []Effect {
	return c.do(now, func() {
		a := c.agents[name]
		if a == nil || a.cut == cut {
			return
		}
		a.cut = cut
		n := (*node)(nil)
		if c.m != nil {
			n = c.m.agents[a.id]
		}
		switch {
		case cut && n != nil:
			c.m.silence(n)
		case !cut:
			a.known = false
			a.register()
		}
	})
}

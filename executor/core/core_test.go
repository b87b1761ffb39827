package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mesopod/mesopod/executor/core"
)

// TestNewRefuses: a core without a node or uuids is a mistake of the program.
func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]core.Config{
		"no node":  {NewUUID: names()},
		"no uuids": {Node: node},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("New did not panic")
				}
			}()
			core.New(cfg)
		})
	}
}

// TestMemoryIsBounded: ended tasks are remembered for EX-5 and EX-78, but not all of them for ever.
func TestMemoryIsBounded(t *testing.T) {
	c := core.New(core.Config{Node: node, NewUUID: names()})
	now := time.Unix(0, 0)
	c.Step(now, core.Connected{})
	kill := func(n int) int {
		sent := 0
		for _, e := range c.Step(now, core.Kill{TaskID: fmt.Sprint("t", n)}) {
			if update, ok := e.(core.SendUpdate); ok {
				sent++
				c.Step(now, core.Acknowledged{TaskID: update.Update.TaskID, UUID: update.Update.UUID})
			}
		}
		return sent
	}
	const many = 5000
	for n := range many {
		if kill(n) != 1 {
			t.Fatalf("kill of unknown task %d was not answered (EX-75)", n)
		}
	}
	if left := len(c.Snapshot().Tasks); left != 0 {
		t.Errorf("%d acknowledged tasks are still held", left)
	}
	if kill(many-1) != 0 {
		t.Error("a task that ended just now was answered twice (EX-78)")
	}
	if kill(0) != 1 {
		t.Error("the oldest task is still remembered")
	}
}

// TestUnknownEvent: what the core does not know is noted, never fatal.
func TestUnknownEvent(t *testing.T) {
	c := core.New(core.Config{Node: node, NewUUID: names()})
	effects := c.Step(time.Unix(0, 0), nil)
	if len(effects) != 1 {
		t.Fatalf("effects = %v, want one note", effects)
	}
	if _, ok := effects[0].(core.Note); !ok {
		t.Errorf("effect = %T, want a note", effects[0])
	}
}

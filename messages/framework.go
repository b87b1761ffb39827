package messages

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// FrameworkMessageVersion is the version of framework messages that this build writes.
const FrameworkMessageVersion = 1

// FrameworkMessageKind names what a framework message asks for.
type FrameworkMessageKind string

// The kinds of framework message, from scheduler to executor.
const (
	// TaskLost asks the executor to report a task lost, known or not (EX-84, EX-89).
	TaskLost FrameworkMessageKind = "TaskLost"
	// Suicide asks an idle executor to end now; one with tasks refuses (EX-86, EX-87).
	Suicide FrameworkMessageKind = "Suicide"
)

// FrameworkMessage is the MESSAGE that the scheduler sends to an executor. Mesos delivers it at most once, so each
// has an answer: TaskLost a status update, Suicide the executor's end.
type FrameworkMessage struct {
	Version int                  `json:"version"`
	Kind    FrameworkMessageKind `json:"kind"`
	TaskID  string               `json:"taskID,omitempty"`
}

// k8sm's messages were plain text; they are still understood.
const (
	legacyTaskLost = "task-lost:"
	legacySuicide  = "kamikaze"
)

// EncodeFrameworkMessage checks a message and returns its JSON, with Version filled in. The error is
// errdefs.ErrInvalid.
func EncodeFrameworkMessage(m FrameworkMessage) ([]byte, error) {
	m.Version = FrameworkMessageVersion
	if err := m.check(); err != nil {
		return nil, err
	}
	return json.Marshal(m)
}

// DecodeFrameworkMessage reads a message in today's form or in k8sm's. The error is errdefs.ErrInvalid (EX-85, EX-88).
func DecodeFrameworkMessage(data []byte) (FrameworkMessage, error) {
	text := string(data)
	var m FrameworkMessage
	switch id, lost := strings.CutPrefix(text, legacyTaskLost); {
	case lost:
		m = FrameworkMessage{Version: FrameworkMessageVersion, Kind: TaskLost, TaskID: id}
	case text == legacySuicide:
		m = FrameworkMessage{Version: FrameworkMessageVersion, Kind: Suicide}
	default:
		if err := json.Unmarshal(data, &m); err != nil {
			return FrameworkMessage{}, fmt.Errorf("framework message: %w: %w", errdefs.ErrInvalid, err)
		}
	}
	if err := m.check(); err != nil {
		return FrameworkMessage{}, err
	}
	return m, nil
}

func (m FrameworkMessage) check() error {
	if m.Version != FrameworkMessageVersion {
		return fmt.Errorf("framework message has version %d, this build reads version %d: %w", m.Version, FrameworkMessageVersion, errdefs.ErrInvalid)
	}
	if !utf8.ValidString(m.TaskID) {
		return fmt.Errorf("framework message %s: task id %q is not UTF-8: %w", m.Kind, m.TaskID, errdefs.ErrInvalid)
	}
	switch m.Kind {
	case TaskLost:
		if m.TaskID == "" {
			return fmt.Errorf("framework message %s without a task id: %w", m.Kind, errdefs.ErrInvalid)
		}
	case Suicide:
	default:
		return fmt.Errorf("framework message of unknown kind %q: %w", m.Kind, errdefs.ErrInvalid)
	}
	return nil
}

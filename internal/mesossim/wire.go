package mesossim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"github.com/mesopod/mesopod/internal/mesossim/constraints"
	"github.com/mesopod/mesopod/internal/mesossim/core"
)

const (
	protobufType = "application/x-protobuf"
	jsonType     = "application/json"
	streamHeader = "Mesos-Stream-Id"
	maxBody      = 64 << 20
)

// message is one of mesos-go's.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// codec is one of the two encodings.
type codec string

func (c codec) encode(m message) ([]byte, error) {
	if c == protobufType {
		return m.Marshal()
	}
	return json.Marshal(m)
}

// record frames a message for a stream: its length in decimal, a newline, the message.
func (c codec) record(m message) ([]byte, error) {
	body, err := c.encode(m)
	if err != nil {
		return nil, err
	}
	return append(strconv.AppendInt(make([]byte, 0, len(body)+8), int64(len(body)), 10), append([]byte{'\n'}, body...)...), nil
}

// readCall reads the call of a request.
func readCall(r *http.Request, call message) *core.Refusal {
	_, refused := readBody(r, call)
	return refused
}

// readBody is readCall, and gives the call as it came too. The checks and their order are Mesos'.
func readBody(r *http.Request, call message) ([]byte, *core.Refusal) {
	if r.Method != http.MethodPost {
		return nil, &core.Refusal{Code: http.StatusMethodNotAllowed, Text: "Expecting one of { 'POST' }, but received '" + r.Method + "'"}
	}
	kind := r.Header.Get("Content-Type")
	if kind == "" {
		return nil, &core.Refusal{Code: http.StatusBadRequest, Text: "Expecting 'Content-Type' to be present"}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil, &core.Refusal{Code: http.StatusBadRequest, Text: "Failed to read body: " + err.Error()}
	}
	switch kind {
	case protobufType:
		err = call.Unmarshal(body)
	case jsonType:
		err = json.Unmarshal(body, call)
	default:
		return nil, &core.Refusal{Code: http.StatusUnsupportedMediaType, Text: "Expecting 'Content-Type' of " + jsonType + " or " + protobufType}
	}
	if err != nil {
		return nil, &core.Refusal{Code: http.StatusBadRequest, Text: "Failed to parse body: " + err.Error()}
	}
	return body, nil
}

// readConstraints reads what mesos-go has no types for: offer constraints.
func readConstraints(r *http.Request, kind scheduler.Call_Type, body []byte) (constraints.Set, error) {
	switch {
	case kind != scheduler.Call_SUBSCRIBE && kind != scheduler.Call_UPDATE_FRAMEWORK:
		return nil, nil
	case r.Header.Get("Content-Type") == protobufType:
		return constraints.FromProtobuf(body)
	}
	return constraints.FromJSON(body)
}

// accepted is the encoding of an answer: JSON unless only protobuf is accepted.
func accepted(r *http.Request) (codec, *core.Refusal) {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return jsonType, nil
	}
	best := codec("")
	for part := range strings.SplitSeq(accept, ",") {
		kind, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		switch kind {
		case jsonType, "*/*", "application/*":
			return jsonType, nil
		case protobufType:
			best = protobufType
		}
	}
	if best == "" {
		return "", &core.Refusal{Code: http.StatusNotAcceptable, Text: fmt.Sprintf("Expecting 'Accept' to allow %s or %s", protobufType, jsonType)}
	}
	return best, nil
}

func answerRefusal(w http.ResponseWriter, r *core.Refusal) {
	if r.Code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(r.Code)
	_, _ = io.WriteString(w, r.Text) // who asked may have gone
}

// answerJSON writes a page, in the callback of JSONP where one is asked for.
func answerJSON(w http.ResponseWriter, r *http.Request, page any) {
	data, err := json.Marshal(page)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if callback := r.URL.Query().Get("jsonp"); callback != "" {
		w.Header().Set("Content-Type", "text/javascript")
		data = append(append([]byte(callback+"("), data...), ");"...)
	} else {
		w.Header().Set("Content-Type", jsonType)
	}
	_, _ = w.Write(data) // who asked may have gone
}

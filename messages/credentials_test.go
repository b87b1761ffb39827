package messages_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
)

func sampleCredentialsRequest() messages.CredentialsRequest {
	return messages.CredentialsRequest{Version: 1, Token: "secret-token", AgentID: "S1", ExecutorID: messages.ExecutorID, Node: "a1",
		KubeletCSR: []byte("k"), ExecutorCSR: []byte("e")}
}

func TestCredentialsGoldens(t *testing.T) {
	for file, v := range map[string]any{
		"credentials_request.json": sampleCredentialsRequest(),
		"credentials.json": messages.Credentials{Version: 1, Server: "https://10.0.0.1:6443", CA: []byte("ca"),
			KubeletCertificate: []byte("k"), ExecutorCertificate: []byte("e")},
	} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, file, data)
	}
}

func TestDecodeCredentialsRequest(t *testing.T) {
	for name, change := range map[string]func(*messages.CredentialsRequest){
		"version":    func(r *messages.CredentialsRequest) { r.Version = 2 },
		"no agent":   func(r *messages.CredentialsRequest) { r.AgentID = "" },
		"no node":    func(r *messages.CredentialsRequest) { r.Node = "" },
		"no request": func(r *messages.CredentialsRequest) { r.KubeletCSR = nil },
		"huge":       func(r *messages.CredentialsRequest) { r.ExecutorCSR = make([]byte, messages.MaxCredentialsBytes) },
	} {
		r := sampleCredentialsRequest()
		change(&r)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := messages.DecodeCredentialsRequest(data); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	_, err := messages.DecodeCredentialsRequest([]byte(`{"version":"secret-token"}`))
	if !errors.Is(err, errdefs.ErrInvalid) || strings.Contains(err.Error(), "secret") {
		t.Errorf("broken JSON: %v, want ErrInvalid and nothing of what was sent", err)
	}
}

// FuzzDecodeCredentialsRequest: it never panics, errors are ErrInvalid, what is read is written and read the same.
func FuzzDecodeCredentialsRequest(f *testing.F) {
	good, err := json.Marshal(sampleCredentialsRequest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := messages.DecodeCredentialsRequest(data)
		if err != nil {
			if !errors.Is(err, errdefs.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		again, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := messages.DecodeCredentialsRequest(again)
		if err != nil && len(again) <= messages.MaxCredentialsBytes {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second); err == nil && diff != "" {
			t.Fatal(diff)
		}
	})
}

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestHandler(t *testing.T) {
	exit := make(chan int, 1)
	handler := newHandler("web-0", "hello from", exit)
	for _, test := range []struct {
		path string
		code int
		body string
	}{
		{"/", http.StatusOK, "hello from web-0\n"},
		{"/healthz", http.StatusOK, "ok\n"},
		{"/cluster", http.StatusBadGateway, ""}, // not in a pod
		{"/lookup?name=127.0.0.1", http.StatusOK, "127.0.0.1\n"},
		{"/lookup?name=", http.StatusNotFound, ""},
		{"/caller", http.StatusOK, "192.0.2.1:1234\n"}, // as httptest has it
		{"/other", http.StatusNotFound, ""},
		{"/exit", http.StatusBadRequest, "code: want a number from 0 to 255\n"},
		{"/exit?code=256", http.StatusBadRequest, "code: want a number from 0 to 255\n"},
		{"/exit?code=7", http.StatusOK, "ending with code 7\n"},
		{"/exit?code=8", http.StatusOK, "ending with code 8\n"}, // too late: 7 counts
	} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil))
		if recorder.Code != test.code || (test.body != "" && recorder.Body.String() != test.body) {
			t.Errorf("%s: got %d %q, want %d %q", test.path, recorder.Code, recorder.Body, test.code, test.body)
		}
	}
	if code := <-exit; code != 7 {
		t.Errorf("exit code: got %d, want 7, the first asked for", code)
	}
}

// started runs the server on a free port and returns its address and where its end is told.
func started(t *testing.T, ctx context.Context) (string, <-chan int) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	ended := make(chan int, 1)
	go func() {
		code, err := run(ctx, "127.0.0.1:0", "hi", writer)
		writer.Close()
		if err != nil {
			t.Errorf("run: %v", err)
		}
		ended <- code
	}()
	line := make([]byte, 100)
	n, err := reader.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	address, found := strings.CutPrefix(strings.TrimSpace(string(line[:n])), "serving on ")
	if !found {
		t.Fatalf("first line: %q", line[:n])
	}
	return address, ended
}

func TestRunEndsWithTheCodeAskedFor(t *testing.T) {
	address, ended := started(t, t.Context())
	response, err := http.Get("http://" + address + "/exit?code=3")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if code := <-ended; code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
}

func TestRunEndsWithCodeZeroOnSignal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := started(t, ctx)
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

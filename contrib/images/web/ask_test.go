package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Each question is told with its outcome, and the end with their number.
func TestAsk(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	questions := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch questions++; questions {
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			cancel()
			fallthrough
		default:
			fmt.Fprintln(w, "hello from x")
		}
	}))
	defer server.Close()
	var out strings.Builder
	ask(ctx, server.URL, time.Millisecond, &out)
	const want = "1 ok hello from x\n2 failed status 503 Service Unavailable\n3 ok hello from x\nasked 3, failed 1\n"
	if out.String() != want {
		t.Errorf("said %q, want %q", out.String(), want)
	}
}

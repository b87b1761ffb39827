// Command web is the server of mesopod's demo and tests: a pod that answers, tells who it is, can be seen healthy, and
// ends on demand with any exit code. It lives in the image mesopod.local/web:1.
//
//	GET /             a greeting with the host name (the pod's name)
//	GET /healthz      200 while it serves
//	GET /cluster      the pod's name at the API server, which is asked as programs in pods do
//	GET /lookup?name=N  the addresses of a name, one a line, in order
//	GET /caller       the address that asks, as it is seen here
//	GET /exit?code=N  ends the process with exit code N, 0 to 255
//
// With --ask=URL it serves nothing and asks instead, again and again: see ask.
//
// SIGTERM and SIGINT let requests under way finish, then end it with code 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shutdownGrace is how long requests under way may take after SIGTERM; less than a pod's usual 30 s.
const shutdownGrace = 10 * time.Second

func main() {
	listen := flag.String("listen", ":8080", "the address to serve on")
	greeting := flag.String("greeting", "hello from", "what / says before the host name")
	question := flag.String("ask", "", "a URL to ask again and again, instead of serving")
	every := flag.Duration("every", 50*time.Millisecond, "the pause between two questions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	if *question != "" {
		code := askOnly(ctx, *question, *every)
		stop()
		os.Exit(code)
	}
	code, err := run(ctx, *listen, *greeting, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
	}
	os.Exit(code)
}

// run serves until ctx ends or /exit is asked for; the exit code is the one asked for, 1 with an error.
func run(ctx context.Context, listen, greeting string, out *os.File) (int, error) {
	host, err := os.Hostname()
	if err != nil {
		return 1, fmt.Errorf("read host name: %w", err)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return 1, err
	}
	exit := make(chan int, 1)
	server := &http.Server{Handler: newHandler(host, greeting, exit), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(out, "serving on %s\n", listener.Addr())

	code := 0
	select {
	case err := <-served:
		return 1, err
	case code = <-exit:
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	err = server.Shutdown(grace)
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	fmt.Fprintf(out, "ending with code %d\n", code)
	return code, err
}

// newHandler serves the pages; the code that /exit asks for goes into exit, the first one only.
func newHandler(host, greeting string, exit chan<- int) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s %s\n", greeting, host)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /cluster", func(w http.ResponseWriter, r *http.Request) {
		name, err := askCluster(r.Context(), accountDir, os.Getenv)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintln(w, name)
	})
	mux.HandleFunc("GET /lookup", func(w http.ResponseWriter, r *http.Request) {
		addresses, err := net.DefaultResolver.LookupHost(r.Context(), r.FormValue("name"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		slices.Sort(addresses)
		fmt.Fprintln(w, strings.Join(addresses, "\n"))
	})
	mux.HandleFunc("GET /caller", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.RemoteAddr)
	})
	mux.HandleFunc("GET /exit", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.ParseUint(r.FormValue("code"), 10, 8)
		if err != nil {
			http.Error(w, "code: want a number from 0 to 255", http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "ending with code %d\n", code)
		select {
		case exit <- int(code):
		default: // an earlier request asked already
		}
	})
	return mux
}

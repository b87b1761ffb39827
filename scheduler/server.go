package scheduler

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/credentials"
)

const (
	// listenPause is the time between two tries to listen: the scheduler before us may still have the port.
	listenPause = time.Second
	// headerTimeout and idleTimeout bound what a caller that says nothing costs. Answers may take long: executors wait for
	// news, and keepers fetch programs over slow lines.
	headerTimeout, idleTimeout = 10 * time.Second, 3 * time.Minute
	// serverGrace is how long answers under way may take once the scheduler stops.
	serverGrace = time.Second
)

// server is where executors and keepers reach the scheduler: HTTPS with a key of its own, which launches name by its
// hash, so that callers need no authority. It lets in everybody; a certificate that is shown must be from clientCA, and
// each handler decides for itself whom it answers (credentials.CheckPeer).
//
// Handlers are added by handle before run.
type server struct {
	listen string // host:port
	mux    *http.ServeMux
	tls    *tls.Config
	// keySHA256 is the hash of the server's public key.
	keySHA256 []byte
	// bound is closed when it listens; address is valid then.
	bound   chan struct{}
	address net.Addr
}

func newServer(listen string) *server {
	return &server{listen: listen, mux: http.NewServeMux(), bound: make(chan struct{})}
}

// handle adds a handler for a pattern of http.ServeMux, such as "GET /v1/bundle/{sha256}".
func (s *server) handle(pattern string, handler http.Handler) { s.mux.Handle(pattern, handler) }

// identify tells the server who it is, and who vouches for its callers, in PEM.
func (s *server) identify(serving tls.Certificate, clientCA []byte) error {
	callers := x509.NewCertPool()
	if !callers.AppendCertsFromPEM(clientCA) {
		return fmt.Errorf("authority for clients: no certificate in it: %w", errdefs.ErrInvalid)
	}
	sum := sha256.Sum256(serving.Leaf.RawSubjectPublicKeyInfo)
	s.tls, s.keySHA256 = credentials.TLSConfig(serving, callers), sum[:]
	return nil
}

// run serves until ctx ends. A port that is taken is waited for.
func (s *server) run(ctx context.Context) error {
	listener := s.await(ctx)
	if listener == nil {
		return nil
	}
	s.address = listener.Addr()
	close(s.bound)
	glog.Infof("serve executors address=%s key=%.8x", s.address, s.keySHA256)
	// A request outlives ctx by the grace, but no longer.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	web := &http.Server{
		Handler: s.mux, TLSConfig: s.tls, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog:    glog.NewStandardLogger("WARNING"),
		BaseContext: func(net.Listener) context.Context { return requests },
	}
	web.RegisterOnShutdown(cancel) // who waits for news gets none
	served := make(chan error, 1)
	go func() { served <- web.ServeTLS(listener, "", "") }()
	select {
	case err := <-served:
		return fmt.Errorf("serve executors on %s: %w", s.listen, err)
	case <-ctx.Done():
	}
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), serverGrace)
	defer done()
	if web.Shutdown(grace) != nil {
		_ = web.Close() // who is cut off asks the next scheduler
	}
	<-served // http.ErrServerClosed
	return nil
}

// await listens as soon as it can; it returns nothing when ctx has ended.
func (s *server) await(ctx context.Context) net.Listener {
	for {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
		if err == nil || ctx.Err() != nil {
			return listener
		}
		glog.Warningf("wait to listen for executors reason=%q", err)
		select {
		case <-time.After(listenPause):
		case <-ctx.Done():
			return nil
		}
	}
}

package zpages

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/golang/glog"
)

// requestTimeout bounds reading a request, and the end of the server.
const requestTimeout = 5 * time.Second

// Serve serves handler at address until ctx ends, and returns nil then. An address that cannot be had is no reason to end
// anything: it is told in the log, and tried again.
func Serve(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: requestTimeout, ReadTimeout: requestTimeout, IdleTimeout: time.Minute}
	listener := listen(ctx, address)
	if listener == nil {
		return nil
	}
	glog.Infof("serve status address=%s", listener.Addr())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve status at %s: %w", address, err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		glog.Warningf("end status server err=%v", err)
		_ = server.Close() // who is cut off asks again
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve status at %s: %w", address, err)
	}
	return nil
}

// listen tries until it has the address, or the context ends: then it returns nil. A process that was just killed may hold it
// for a moment.
func listen(ctx context.Context, address string) net.Listener {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			return listener
		}
		glog.Warningf("wait for status address=%s err=%v", address, err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

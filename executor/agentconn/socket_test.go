package agentconn

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mesopod/mesopod/executor/core"
)

// An agent that serves its executors on a unix socket is asked there, with the token, however long the socket's path is; its
// address, where nobody answers, is not asked.
func TestSocket(t *testing.T) {
	for name, folder := range map[string]string{"short": "s", "longer than an address holds": strings.Repeat("d", maxSocketPath+1)} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan struct{})
			a := newAgent(t, func(s *stream) { s.send(subscribed(), launch("t1", "data")); s.until(sent); s.hold() })
			dir, err := os.MkdirTemp("", "agent")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			short, path := filepath.Join(dir, "x"), filepath.Join(dir, folder, "agent.sock")
			listener, err := net.Listen("unix", short)
			if err != nil {
				t.Fatal(err)
			}
			listener.(*net.UnixListener).SetUnlinkOnClose(false)
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			// A path that is too long cannot be bound, but moved to.
			if err := os.Rename(short, path); err != nil {
				t.Fatal(err)
			}
			server := &http.Server{Handler: a.server.Config.Handler}
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			t.Cleanup(func() {
				_ = server.Close()
				<-served
			})
			o := run(t, refusingURL(t), func(c *Config) { c.Socket, c.Token = path, "secret" })
			o.expect(core.Connected{TaskKilling: true}, core.Launch{TaskID: "t1", Data: []byte("data")})
			o.conn.Send(starting("t1"))
			next(t, "update", a.updates)
			close(sent)
			a.mu.Lock()
			defer a.mu.Unlock()
			if len(a.headers) != 2 {
				t.Errorf("%d calls, want SUBSCRIBE and UPDATE", len(a.headers))
			}
			for _, h := range a.headers {
				if h.Get("Authorization") != "Bearer secret" {
					t.Errorf("headers %v", h)
				}
			}
		})
	}
}

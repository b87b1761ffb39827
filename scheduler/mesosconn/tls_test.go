package mesosconn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/test/tlsproxy"
)

func newAuthority(t *testing.T) *tlsproxy.Authority {
	t.Helper()
	a, err := tlsproxy.NewAuthority(t.TempDir())
	must(t, err)
	return a
}

// behind puts https before a fake master.
func behind(t *testing.T, m *fakeMaster, a, clients *tlsproxy.Authority, end time.Time, hosts ...string) *tlsproxy.Proxy {
	t.Helper()
	cert, key, err := a.Issue("server", end, hosts...)
	must(t, err)
	proxy, err := tlsproxy.Start("127.0.0.1:0", m.host(), cert, key, clients)
	must(t, err)
	t.Cleanup(func() { must(t, proxy.Stop()) })
	return proxy
}

// Subscription, calls and the questions to agents go over https, with the client's certificate; agents are known by their
// host names and reached at their addresses, and by http where they have no https.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	m := newFakeMaster(t)
	proxy := behind(t, m, a, a, time.Now().Add(time.Hour), "masters.test", "agent.test")
	cert, key, err := a.Issue("client", time.Now().Add(time.Hour))
	must(t, err)
	limits := []master.Response_GetAgents_Agent{}
	for id, host := range map[string]string{"secure": proxy.Address, "plain": m.host()} {
		pid := "posix@" + host // which cannot hold a task to its limits
		limits = append(limits, master.Response_GetAgents_Agent{
			AgentInfo: mesos.AgentInfo{ID: &mesos.AgentID{Value: id}, Hostname: "agent.test"}, PID: &pid, Active: true,
			Capabilities: []mesos.AgentInfo_Capability{{Type: mesos.AgentInfo_Capability_TASK_RESOURCE_LIMITS}},
		})
	}
	m.agents = limits
	h := startWith(t, Config{Master: proxy.Address, TLS: TLS{CAFile: a.File, CertFile: cert, KeyFile: key, ServerName: "masters.test"}}, "F1")
	stream := subscribed(t, h, m)
	must(t, h.Revive(t.Context(), core.Revive{Roles: []string{"*"}}))
	next(t, m.calls)
	agents, err := h.LookUpAgents(t.Context(), []string{"secure", "plain"})
	if err != nil || len(agents) != 2 || agents["secure"].Limits || agents["plain"].Limits {
		t.Errorf("got %+v, %v, want two agents that cannot limit", agents, err)
	}
	// A certificate that was renewed is shown at the next connection.
	must(t, os.Remove(cert))
	stream.close()
	lost(t, h, errEnded)
	if _, _, err := a.Issue("client", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	subscribed(t, h, m)
}

// What is wrong with a certificate is told with what to do, and is tried again patiently: a server may be mended.
func TestTLSFaults(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	m := newFakeMaster(t)
	hour := time.Now().Add(time.Hour)
	good := behind(t, m, a, nil, hour, "127.0.0.1").Address
	wants := behind(t, m, a, a, hour, "127.0.0.1").Address
	expired := behind(t, m, a, nil, time.Now().Add(-time.Hour), "127.0.0.1").Address
	named := behind(t, m, a, nil, hour, "masters.test").Address
	wrongCert, wrongKey, err := other.Issue("client", hour)
	must(t, err)
	for name, tc := range map[string]struct {
		master string
		tls    TLS
		want   string
	}{
		"wrong authority":       {good, TLS{CAFile: other.File}, "compare masterCAFile"},
		"system's authorities":  {"https://" + good, TLS{}, "compare masterCAFile"},
		"expired":               {expired, TLS{CAFile: a.File}, "renew the server's certificate"},
		"other name":            {named, TLS{CAFile: a.File}, "set masterServerName"},
		"http, not https":       {m.host(), TLS{CAFile: a.File}, "the server speaks http: write http"},
		"https, not http":       {good, TLS{}, "HTTPS server"},
		"no client certificate": {wants, TLS{CAFile: a.File}, "masterCertFile"},
		"another authority's":   {wants, TLS{CAFile: a.File, CertFile: wrongCert, KeyFile: wrongKey}, "masterCertFile"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := NewOperator(Config{Master: tc.master, TLS: tc.tls})
			must(t, err)
			defer o.Close()
			if _, err := o.Drained(t.Context(), "A1"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if name == "https, not http" {
				return
			}
			h := startWith(t, Config{Master: tc.master, TLS: tc.tls}, "F1")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			at, err := h.where.next(ctx)
			must(t, err)
			if _, err := h.attempt(ctx, at); !errors.Is(err, errdefs.ErrUnavailable) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("subscribe: got %v, want %q", err, tc.want)
			}
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.subscribes) > 0 {
		t.Error("a master was subscribed at")
	}
}

// Files that are missing or hold something else are faults of the configuration.
func TestTLSFiles(t *testing.T) {
	a := newAuthority(t)
	cert, key, err := a.Issue("client", time.Now().Add(time.Hour))
	must(t, err)
	empty := filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(empty, nil, 0o600))
	for _, files := range []TLS{{CAFile: empty}, {CAFile: empty + ".none"}, {CertFile: cert}, {KeyFile: key}, {CertFile: cert, KeyFile: empty}, {CertFile: key, KeyFile: cert}} {
		if _, err := New(Config{Master: "m:1", TLS: files, Framework: Framework{User: "root", Name: "x"}}, func(core.Event) {}); !errors.Is(err, errdefs.ErrInvalid) {
			t.Errorf("%+v: got %v, want invalid", files, err)
		}
	}
}

package scheduler

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang/glog"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mesopod/mesopod/internal/zpages"
	"github.com/mesopod/mesopod/scheduler/web"
)

// NoStatus as Config.StatusAddress serves no page, health or metrics.
const NoStatus = "none"

// defaultStatusAddress is for who is on the machine: there is no authentication.
const defaultStatusAddress = "127.0.0.1:10246"

// viewAge is how old a view may be that is shown: many may look at once, and each view costs the loop some milliseconds in a
// large cluster.
const viewAge = 500 * time.Millisecond

func validStatusAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return address == NoStatus || err == nil && port != ""
}

// webUIURL is where Mesos' pages link to: as configured, or the page's address unless only this machine reaches that.
func (c Config) webUIURL() string {
	if c.WebUIURL != "" || c.StatusAddress == NoStatus {
		return c.WebUIURL
	}
	host, port, err := net.SplitHostPort(c.StatusAddress)
	if err != nil {
		return "" // Check has told
	}
	address, err := netip.ParseAddr(host)
	switch {
	case host == "localhost" || err == nil && address.IsLoopback():
		return ""
	case host == "" || err == nil && address.IsUnspecified():
		if host = c.Hostname; host == "" {
			if host, err = os.Hostname(); err != nil {
				return ""
			}
		}
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}

// status shows the scheduler. Other goroutines than the loop's use it.
type status struct {
	address, version, name string
	profiling              bool
	started                time.Time
	standing               atomic.Value // web.Standing
	leader                 atomic.Value // string

	mu   sync.Mutex
	last web.View
}

func newStatus(cfg Config, version string) *status {
	s := &status{address: cfg.StatusAddress, profiling: cfg.Profiling, version: version, name: cfg.FrameworkName, started: time.Now()}
	s.standing.Store(web.Starting)
	s.leader.Store("")
	return s
}

// serveStatus serves pages, health and metrics until the returned function is called, which waits for the end.
func (s *Scheduler) serveStatus(ctx context.Context) (stop func()) {
	if s.status.address == NoStatus {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := zpages.Serve(ctx, s.status.address, web.Handler(web.Deps{View: s.View, Journal: s.loop.chronicle.journal, Procure: s.procure, Plan: s.Plan, Metrics: s.metrics(), Profiling: s.status.profiling})); err != nil {
			glog.Errorf("end status reason=%q", err)
		}
	}()
	return func() { cancel(); <-done }
}

// View is the scheduler as it is now, or was half a second ago.
func (s *Scheduler) View(ctx context.Context) (web.View, error) {
	st := s.status
	st.mu.Lock()
	defer st.mu.Unlock()
	if time.Since(st.last.Time) < viewAge {
		return st.last, nil
	}
	v := web.View{
		Time: time.Now(), Version: st.version, Started: st.started, Name: st.name, Roles: []string{"*"},
		Standing: st.standing.Load().(web.Standing), Elects: s.election != nil, Leader: st.leader.Load().(string),
	}
	if v.Standing == web.Working {
		err := s.loop.ask(ctx, func() {
			snapshot := s.loop.core.Snapshot()
			v.Core, v.Since = &snapshot, s.loop.link.since
			if err := s.loop.link.fault; err != nil {
				v.Fault = err.Error()
			}
		})
		if err != nil {
			return web.View{}, err
		}
		v.Master = s.conn.Master()
	}
	st.last = v
	return v, nil
}

// metrics answers with all series of the process; gauges are set before.
func (s *Scheduler) metrics() http.Handler {
	all := legacyregistry.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), writeTimeout)
		defer cancel()
		view, err := s.View(ctx)
		if err != nil {
			glog.Warningf("show metrics of a loop that does not answer reason=%q", err)
			view = web.View{Standing: web.Starting}
		}
		show(s.status.version, view.Standing == web.Working, view.Core)
		all.ServeHTTP(w, r)
	})
}

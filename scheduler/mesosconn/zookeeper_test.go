package mesosconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler/core"
	"github.com/mesopod/mesopod/test/zookeeper"
)

// freePort is an address of this machine that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func startZooKeeper(t *testing.T) *zookeeper.Server {
	t.Helper()
	server, err := zookeeper.Start(t.TempDir(), freePort(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, server.Stop()) })
	return server
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contend makes the fake master's node.
func contend(t *testing.T, z *zookeeper.Server, path string, m *fakeMaster) (node string) {
	t.Helper()
	node, err := z.Contend(path, m.host(), "")
	must(t, err)
	return node
}

func subscribed(t *testing.T, h *harness, m *fakeMaster) *fakeStream {
	t.Helper()
	stream := next(t, m.streams)
	if got, ok := next(t, h.events).(core.Subscribed); !ok || got.FrameworkID != "F1" {
		t.Fatalf("got %#v, want Subscribed as F1", got)
	}
	return stream
}

func lost(t *testing.T, h *harness, want error) {
	t.Helper()
	if got, ok := next(t, h.events).(core.Disconnected); !ok || want != nil && !errors.Is(got.Err, want) {
		t.Fatalf("got %#v (%v), want Disconnected by %v", got, got.Err, want)
	}
}

// settles waits until the framework is subscribed at a master that takes its calls, whatever comes before.
func settles(t *testing.T, h *harness, m *fakeMaster) {
	t.Helper()
	for {
		if _, is := next(t, h.events).(core.Subscribed); !is {
			continue
		}
		if sub, _ := h.current(); sub != nil && sub.master.Host == m.host() && h.Revive(t.Context(), core.Revive{Roles: []string{"*"}}) == nil {
			return
		}
	}
}

// seesNobody waits until it is known that no master leads.
func seesNobody(t *testing.T, h *harness) {
	t.Helper()
	for {
		leader, changed, _ := h.where.(*zooKeeper).current()
		if leader == nil {
			return
		}
		next(t, changed)
	}
}

// The framework is where the leader is that ZooKeeper names, as the same framework, through all that may happen to either
// (protocol cases 69, 70): one server for all of it, since it takes a second to start.
func TestZooKeeper(t *testing.T) {
	z := startZooKeeper(t)
	first, second := newFakeMaster(t), newFakeMaster(t)
	nobody := freePort(t)
	// One of the servers is down all the time, and there is no node yet.
	h := start(t, "zk://"+nobody+","+z.Address+"/lab/mesos", "F1")
	must(t, z.Make("/lab/mesos", ""))
	must(t, z.Put("/lab/mesos/log_replicas", ""))
	node := contend(t, z, "/lab/mesos", first)
	subscribed(t, h, first)

	// Another one that contends does not lead.
	behind := contend(t, z, "/lab/mesos", second)
	// The leader goes, though its stream lives: it may be cut off from ZooKeeper.
	must(t, z.Withdraw(node))
	lost(t, h, errMoved)
	stream := subscribed(t, h, second)

	// No leader: who is subscribed stays, and waits when it is not any more.
	must(t, z.Withdraw(behind))
	seesNobody(t, h)
	if err := h.Revive(t.Context(), core.Revive{Roles: []string{"*"}}); err != nil {
		t.Errorf("call without a leader in ZooKeeper: %v", err)
	}
	next(t, second.calls)
	stream.close()
	lost(t, h, errEnded)
	node = contend(t, z, "/lab/mesos", first)
	stream = subscribed(t, h, first)

	// ZooKeeper is away: nothing happens, and a stream that breaks is begun anew at the last leader known.
	must(t, z.Kill())
	stream.close()
	lost(t, h, errEnded)
	subscribed(t, h, first)
	must(t, z.Run())
	behind = contend(t, z, "/lab/mesos", second)
	must(t, z.Withdraw(node))
	lost(t, h, errMoved)
	subscribed(t, h, second)

	// Flapping ends where the last leader is.
	masters, nodes := [2]*fakeMaster{first, second}, [2]string{"", behind}
	for i := range 6 {
		nodes[i%2] = contend(t, z, "/lab/mesos", masters[i%2])
		must(t, z.Withdraw(nodes[(i+1)%2]))
	}
	node = contend(t, z, "/lab/mesos", first)
	must(t, z.Withdraw(nodes[1]))
	settles(t, h, first)

	// The dead leader's node stays for a while: it is tried again, patiently, and its successor at once.
	dead := freePort(t)
	leftover, err := z.Contend("/lab/mesos", dead, "")
	must(t, err)
	must(t, z.Withdraw(node))
	contend(t, z, "/lab/mesos", second)
	must(t, z.Withdraw(leftover))
	settles(t, h, second)
}

// People's verbs find the leader too, and say why they do not.
func TestOperatorFindsLeader(t *testing.T) {
	z := startZooKeeper(t) // which ends after the subtests
	m := newFakeMaster(t)
	must(t, z.Make("/empty", ""))
	must(t, z.Make("/guarded", "mesos:s3cret"))
	contend(t, z, "/guarded", m)
	nobody := freePort(t)
	for where, want := range map[string]string{
		"zk://mesos:s3cret@" + z.Address + "/guarded": "",
		"zk://mesos:wrong@" + z.Address + "/guarded":  "this user may not list node /guarded",
		"zk://" + z.Address + "/empty":                "no master leads",
		"zk://" + z.Address + "/nothing":              "there is no node /nothing: compare with the masters' flag --zk",
		"zk://" + nobody + "/empty":                   "ZooKeeper does not answer",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			o, err := NewOperator(Config{Master: where})
			must(t, err)
			defer o.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err = o.Drained(ctx, "A1")
			switch {
			case want == "" && !errors.Is(err, errdefs.ErrNotFound):
				t.Errorf("got %v, want that the agent is not there", err)
			case want != "" && (!errors.Is(err, errdefs.ErrUnavailable) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wrong")):
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

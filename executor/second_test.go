package executor

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// What an agent names is the first framework's: a second one has its own folder and bridge beside it, and no range but its Node's.
func TestSecond(t *testing.T) {
	env := mustEnv(t)
	env.Agent = AgentSettings{StateDir: "/run/mesopod/a1", PodCIDR: "10.1.0.0/24", Bridge: "br9"}
	env.Second = true
	c, err := Config{}.complete(env)
	if err != nil {
		t.Fatal(err)
	}
	own := nickname(env.FrameworkID)
	if c.StateDir != "/run/mesopod/a1-"+own || c.Bridge != "mpod-"+own || c.PodCIDR != "" {
		t.Errorf("folder %s, bridge %s, range %q", c.StateDir, c.Bridge, c.PodCIDR)
	}
}

// A folder that the agent names goes to the next framework once nobody of the first one lives.
func TestPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a1")
	for _, framework := range []string{"one", "one", "another"} {
		e := &Executor{env: mustEnv(t), config: Config{StateDir: dir}}
		e.env.FrameworkID = framework
		if err := e.place(t.Context()); err != nil || e.env.Second || e.config.StateDir != dir {
			t.Errorf("framework %s: second %t in %s, %v", framework, e.env.Second, e.config.StateDir, err)
		}
	}
}

func TestLives(t *testing.T) {
	proc := t.TempDir()
	if _, err := lives(proc, "f1", "S1"); !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("without processes: %v", err)
	}
	write := func(pid, environ string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "environ"), []byte(environ), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1", "PATH=/bin\x00MESOS_FRAMEWORK_ID=f11\x00MESOS_SLAVE_ID=S1\x00")
	write("2", "MESOS_FRAMEWORK_ID=f1\x00MESOS_SLAVE_ID=S2\x00")
	if alive, err := lives(proc, "f1", "S1"); alive || err != nil {
		t.Errorf("on another agent, and another framework: %t, %v", alive, err)
	}
	write("3", "MESOS_SLAVE_ID=S1\x00MESOS_FRAMEWORK_ID=f1\x00")
	if alive, err := lives(proc, "f1", "S1"); !alive || err != nil {
		t.Errorf("here: %t, %v", alive, err)
	}
}

func TestFreePort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, text, _ := net.SplitHostPort(taken.Addr().String())
	first, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	if port, err := freePort("127.0.0.1", first); err != nil || port <= first || port >= first+morePorts {
		t.Errorf("beside port %d: %d, %v", first, port, err)
	}
	if _, err := freePort("192.0.2.1", first); err == nil {
		t.Error("an address that is not ours has a port")
	}
}

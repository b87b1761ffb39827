package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mesopod/mesopod/internal/mesossim"
	"github.com/mesopod/mesopod/internal/mesossim/core"
)

func TestMain(m *testing.M) {
	// glog starts its flusher at import and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// What both systems are told: short times make short tests.
const (
	allocation   = 100 * time.Millisecond
	pingTimeout  = time.Second
	pings        = 3
	registration = 8 * time.Second
	grace        = time.Second
	agentFlags   = "cpus:4;mem:2048;disk:1000;ports:[31000-31100]"
)

// attributes of an agent: of each kind, and one that is there twice.
func attributes(agent string) string { return "rack:" + agent + ";size:4;tag:both;tag:" + agent }

// system is a Mesos under test: a master and two agents, first and second.
type system interface {
	master() string
	agent(name string) string
	stopAgent(t *testing.T, name string)
	startAgent(t *testing.T, name string)
	// cut lets the master lose sight of an agent without a sign.
	cut(t *testing.T, name string, off bool)
}

const first, second = "first", "second"

// simulated is package mesossim.
type simulated struct{ *mesossim.Sim }

func (s simulated) master() string           { return s.Master() }
func (s simulated) agent(name string) string { return s.AgentAddress(name) }
func (s simulated) stopAgent(t *testing.T, name string) {
	t.Helper()
	if err := s.StopAgent(name); err != nil {
		t.Fatal(err)
	}
}
func (s simulated) startAgent(t *testing.T, name string) {
	t.Helper()
	if err := s.StartAgent(name); err != nil {
		t.Fatal(err)
	}
}
func (s simulated) cut(_ *testing.T, name string, off bool) { s.CutAgent(name, off) }

func newSimulated(t *testing.T) system {
	t.Helper()
	cfg := mesossim.Config{Dir: t.TempDir(), Timing: core.Config{
		Allocation: allocation, AgentTimeout: pings * pingTimeout, ExecutorRegistration: registration, ExecutorGrace: grace,
	}}
	for _, name := range []string{first, second} {
		cfg.Agents = append(cfg.Agents, mesossim.Agent{Name: name, Hostname: name + ".test", Address: "127.0.0.1:0",
			Resources: agentFlags, Attributes: attributes(name)})
	}
	sim, err := mesossim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sim.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return simulated{sim}
}

// real is the Mesos of contrib/mesos.
type real struct {
	dir, work   string
	masterAt    string
	agents      map[string]string // name to address
	processes   map[string]*exec.Cmd
	environment map[string][]string
}

func (r *real) master() string           { return r.masterAt }
func (r *real) agent(name string) string { return r.agents[name] }

func (r *real) cut(t *testing.T, name string, off bool) {
	t.Helper()
	signal := syscall.SIGCONT
	if off {
		signal = syscall.SIGSTOP
	}
	if err := r.processes[name].Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func (r *real) stopAgent(t *testing.T, name string) {
	t.Helper()
	p := r.processes[name]
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // killed
	delete(r.processes, name)
}

func (r *real) startAgent(t *testing.T, name string) {
	t.Helper()
	r.run(t, name, "mesos-agent")
}

func (r *real) run(t *testing.T, name, program string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(r.dir, program))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, r.environment[name]...)
	log, err := os.OpenFile(filepath.Join(r.work, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		t.Fatal(err)
	}
	r.processes[name] = cmd
}

// newReal starts a real Mesos on free ports of the loopback. It needs what make mesos installs.
func newReal(t *testing.T) system {
	t.Helper()
	dir := os.Getenv("MESOPOD_MESOS")
	if _, err := os.Stat(filepath.Join(dir, "mesos-agent")); dir == "" || err != nil {
		t.Skip("no real Mesos to hold the simulator against: make mesos installs one, and MESOPOD_MESOS names it, as make does")
	}
	r := &real{dir: dir, work: t.TempDir(), agents: map[string]string{}, processes: map[string]*exec.Cmd{}, environment: map[string][]string{}}
	t.Cleanup(func() {
		for _, p := range r.processes {
			_ = p.Process.Kill() // one that is gone is what was wanted
			_ = p.Wait()
		}
		if t.Failed() {
			keepLogs(t, r.work)
		}
	})
	ports := freePorts(t, 3)
	r.masterAt = fmt.Sprintf("127.0.0.1:%d", ports[0])
	r.environment["master"] = []string{"LIBPROCESS_IP=127.0.0.1", fmt.Sprintf("LIBPROCESS_PORT=%d", ports[0]), "MESOS_HOSTNAME=127.0.0.1",
		"MESOS_WORK_DIR=" + filepath.Join(r.work, "master"), "MESOS_REGISTRY=in_memory", "MESOS_ALLOCATION_INTERVAL=" + stout(allocation),
		"MESOS_AGENT_PING_TIMEOUT=" + stout(pingTimeout), fmt.Sprintf("MESOS_MAX_AGENT_PING_TIMEOUTS=%d", pings)}
	r.run(t, "master", "mesos-master")
	for n, name := range []string{first, second} {
		r.agents[name] = fmt.Sprintf("127.0.0.1:%d", ports[n+1])
		work := filepath.Join(r.work, name)
		r.environment[name] = []string{"LIBPROCESS_IP=127.0.0.1", fmt.Sprintf("LIBPROCESS_PORT=%d", ports[n+1]), "MESOS_HOSTNAME=" + name + ".test",
			"MESOS_MASTER=" + r.masterAt, "MESOS_WORK_DIR=" + work + "/work", "MESOS_RUNTIME_DIR=" + work + "/run", "MESOS_LAUNCHER=posix",
			"MESOS_FETCHER_CACHE_DIR=" + work + "/fetch", "MESOS_APPC_STORE_DIR=" + work + "/appc", "MESOS_DOCKER_STORE_DIR=" + work + "/docker",
			"MESOS_ISOLATION=posix/cpu,posix/mem", "MESOS_SYSTEMD_ENABLE_SUPPORT=false", "MESOS_RESOURCES=" + agentFlags, "MESOS_ATTRIBUTES=" + attributes(name),
			"MESOS_LAUNCHER_DIR=" + dir, "MESOS_EXECUTOR_REGISTRATION_TIMEOUT=" + stout(registration), "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD=" + stout(grace),
			"RES_OPTIONS=timeout:1 attempts:1"}
		r.startAgent(t, name)
	}
	return r
}

// keepLogs shows the ends of the logs.
func keepLogs(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"master", first, second} {
		data, err := os.ReadFile(filepath.Join(dir, name+".log"))
		if err == nil {
			t.Logf("end of %s.log:\n%s", name, data[max(0, len(data)-3000):])
		}
	}
}

func stout(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		defer l.Close()
	}
	return ports
}

// TestConformance runs every test of the suite on both systems.
func TestConformance(t *testing.T) {
	for name, build := range map[string]func(*testing.T) system{"sim": newSimulated, "real": newReal} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := build(t)
			waitForAgents(t, s)
			for _, one := range suite {
				t.Run(one.name, func(t *testing.T) { one.run(t, s) })
			}
		})
	}
}

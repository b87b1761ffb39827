package mesossim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/golang/glog"
	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/mesossim/core"
)

// commandExecutor begins the name of an executor that Mesos would bring itself.
const commandExecutor = "Command Executor"

// process is an executor that runs, or is being started.
type process struct {
	pid     int
	doomed  bool // destroyed before it was started
	started bool
}

func (a *agentShell) sandbox(agentID, framework, executorID, container string) string {
	return filepath.Join(a.work(), "slaves", agentID, "frameworks", framework, "executors", executorID, "runs", container)
}

func (a *agentShell) sandboxOf(c core.Container) string {
	return a.sandbox(c.AgentID, c.Framework.ID.GetValue(), c.Executor.ExecutorID.Value, c.ID)
}

// start fetches and starts an executor, in a goroutine of its own. The Sim's lock is held.
func (a *agentShell) start(c core.Container) {
	p := &process{}
	a.mu.Lock()
	a.running[c.ID] = p
	a.mu.Unlock()
	a.sim.processes.Go(func() {
		cmd, err := a.launch(c, p)
		if err != nil {
			glog.Warningf("launch executor=%s agent=%s err=%v", c.Executor.ExecutorID.Value, a.cfg.Name, err)
			a.forget(c.ID)
			a.ended(c, 256, err.Error())
			return
		}
		// Our own end does not end it: then it is found again by its pid file.
		exited := make(chan struct{})
		go func() {
			_ = cmd.Wait() // the status says all
			close(exited)
		}()
		select {
		case <-exited:
			a.forget(c.ID)
			status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
			a.ended(c, int32(status), "")
		case <-a.ctx.Done():
		}
	})
}

func (a *agentShell) forget(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, id)
}

// ended tells the core. What an executor has left of its session goes with it.
func (a *agentShell) ended(c core.Container, status int32, failed string) {
	if pid, _, err := a.readPid(c.ID); err == nil {
		killSession(pid)
		_ = os.Remove(a.pidFile(c.ID)) // a later run of the container has another id
	}
	a.sim.do(func(now time.Time) []core.Effect {
		return a.sim.core.ContainerEnded(now, a.cfg.Name, c.ID, status, failed)
	})
}

func (a *agentShell) pidFile(container string) string {
	return filepath.Join(a.work(), "meta", container+".pid")
}

// launch makes the sandbox, fetches what the command needs, and starts it.
func (a *agentShell) launch(c core.Container, p *process) (*exec.Cmd, error) {
	sandbox := a.sandboxOf(c)
	if err := os.MkdirAll(sandbox, 0o755); err != nil {
		return nil, fmt.Errorf("make sandbox: %w", err)
	}
	latest := filepath.Join(filepath.Dir(sandbox), "latest")
	_ = os.Remove(latest) // not there at the first run
	if err := os.Symlink(sandbox, latest); err != nil {
		return nil, fmt.Errorf("make sandbox: %w", err)
	}
	out, err := os.OpenFile(filepath.Join(sandbox, "stdout"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the executor has a copy of its own
	fault, err := os.OpenFile(filepath.Join(sandbox, "stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = fault.Close() }()
	for i := range c.Executor.Command.URIs {
		uri := &c.Executor.Command.URIs[i]
		fmt.Fprintf(fault, "fetching %s\n", uri.Value)
		if err := fetch(a.ctx, uri, sandbox); err != nil {
			fmt.Fprintln(fault, err)
			return nil, fmt.Errorf("failed to fetch %s: %w", uri.Value, err)
		}
	}
	if strings.HasPrefix(c.Executor.GetName(), commandExecutor) {
		return nil, errors.New("tasks with a command and no executor are not simulated: Mesos' own command executor is not there")
	}
	cmd, err := a.command(c, sandbox)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = out, fault
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.doomed {
		return nil, errors.New("destroyed while it was fetched")
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.pid, p.started = cmd.Process.Pid, true
	note := fmt.Sprintf("%d %s", p.pid, startTime(p.pid))
	if err := writeWhole(a.pidFile(c.ID), []byte(note)); err != nil {
		killSession(p.pid)
		return nil, errors.Join(err, cmd.Wait())
	}
	return cmd, nil
}

// command is the executor's process, not yet started.
func (a *agentShell) command(c core.Container, sandbox string) (*exec.Cmd, error) {
	command := c.Executor.Command
	var args []string
	if a.cfg.NetNS != "" {
		args = append(args, "nsenter", "--net="+a.cfg.NetNS, "--")
	}
	if command.Shell == nil || *command.Shell {
		args = append(args, "sh", "-c", command.GetValue())
	} else {
		value := command.GetValue()
		if !strings.Contains(value, "/") {
			if _, err := os.Stat(filepath.Join(sandbox, value)); err == nil {
				value = filepath.Join(sandbox, value)
			}
		}
		args = append(args, value)
		if len(command.Arguments) > 1 {
			args = append(args, command.Arguments[1:]...)
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = sandbox, a.environment(c, sandbox)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	name := c.Framework.User
	if command.GetUser() != "" {
		name = command.GetUser()
	}
	credential, err := credentialOf(name)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr.Credential = credential
	if credential != nil {
		if err := os.Chown(sandbox, int(credential.Uid), int(credential.Gid)); err != nil {
			return nil, err
		}
	}
	return cmd, nil
}

// credentialOf is the user to become; nil if that is ourselves, or if we may not.
func credentialOf(name string) (*syscall.Credential, error) {
	if name == "" || os.Geteuid() != 0 || name == "root" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("failed to get user information for '%s': %w", name, err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32) // numbers on Linux
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// environment is the whole environment of an executor: the agent's own is not inherited. Later ones win.
func (a *agentShell) environment(c core.Container, sandbox string) []string {
	timing := a.sim.timing()
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for name, value := range a.cfg.Environment {
		env = append(env, name+"="+value)
	}
	slices.Sort(env[1:])
	grace := timing.ExecutorGrace
	if g := c.Executor.ShutdownGracePeriod; g != nil {
		grace = time.Duration(g.Nanoseconds)
	}
	checkpoint := "0"
	if c.Framework.GetCheckpoint() {
		checkpoint = "1"
		env = append(env, "MESOS_RECOVERY_TIMEOUT="+stout(timing.Recovery), "MESOS_SUBSCRIPTION_BACKOFF_MAX="+stout(timing.ExecutorReregistration))
	}
	env = append(env,
		"MESOS_FRAMEWORK_ID="+c.Framework.ID.GetValue(), "MESOS_EXECUTOR_ID="+c.Executor.ExecutorID.Value, "MESOS_SLAVE_ID="+c.AgentID,
		"MESOS_SLAVE_PID=slave(1)@"+a.address(), "MESOS_AGENT_ENDPOINT="+a.address(), "MESOS_DIRECTORY="+sandbox, "MESOS_SANDBOX="+sandbox,
		"MESOS_CHECKPOINT="+checkpoint, "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD="+stout(grace), "MESOS_HTTP_COMMAND_EXECUTOR=0", "LIBPROCESS_PORT=0",
	)
	if e := c.Executor.Command.Environment; e != nil {
		for _, v := range e.Variables {
			env = append(env, v.Name+"="+v.GetValue())
		}
	}
	return env
}

func (s *Sim) timing() core.Config { return s.core.Timing() }

// stout writes a duration as Mesos does.
func stout(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + "ms"
}

// destroy kills an executor with all its processes. The Sim's lock is held.
func (a *agentShell) destroy(container string) {
	a.mu.Lock()
	p := a.running[container]
	if p != nil && !p.started {
		p.doomed = true
	}
	a.mu.Unlock()
	if p == nil {
		return
	}
	if p.started {
		killSession(p.pid)
	}
}

// adopt looks after an executor that an earlier process of the agent started.
func (a *agentShell) adopt(c core.Container) {
	a.mu.Lock()
	_, known := a.running[c.ID]
	a.mu.Unlock()
	if known {
		return
	}
	pid, started, err := a.readPid(c.ID)
	handle := -1
	if err == nil {
		handle, err = unix.PidfdOpen(pid, 0)
	}
	if err == nil && startTime(pid) != started {
		err = errors.New("its process id is another's by now")
	}
	if err != nil {
		// It ended while nobody looked.
		a.sim.do(func(now time.Time) []core.Effect { return a.sim.core.ContainerEnded(now, a.cfg.Name, c.ID, 9, "") })
		return
	}
	a.mu.Lock()
	a.running[c.ID] = &process{pid: pid, started: true}
	a.mu.Unlock()
	a.sim.processes.Go(func() {
		defer func() { _ = unix.Close(handle) }()
		for a.ctx.Err() == nil {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 500)
			if err == nil && n > 0 {
				a.forget(c.ID)
				a.ended(c, 9, "") // whose child it is not cannot ask for its status
				return
			}
		}
	})
}

func (a *agentShell) readPid(container string) (pid int, started string, err error) {
	data, err := os.ReadFile(a.pidFile(container))
	if err != nil {
		return 0, "", err
	}
	_, err = fmt.Sscan(string(data), &pid, &started)
	return pid, started, err
}

// startTime tells a process from a later one with its id.
func startTime(pid int) string {
	fields := statFields(pid)
	if len(fields) < 20 {
		return "-"
	}
	return fields[19]
}

// statFields are those of /proc/PID/stat from the state on: 0 state, 1 parent, 2 group, 3 session, 19 start time.
func statFields(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	text := string(data)
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
}

// killSession kills a process with its descendants and its whole session, as Mesos' posix launcher does.
func killSession(pid int) {
	for range 10 {
		victims := familyOf(pid)
		for _, one := range victims {
			_ = unix.Kill(one, unix.SIGKILL) // one that is gone is what was wanted
		}
		if len(victims) == 0 {
			return
		}
	}
}

// familyOf are the living processes that descend from one, or are of its session.
func familyOf(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	parents, member := map[int]int{}, map[int]bool{pid: true}
	var living []int
	for _, entry := range entries {
		one, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		fields := statFields(one)
		if len(fields) < 4 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		living = append(living, one)
		parents[one], _ = strconv.Atoi(fields[1])
		if fields[3] == strconv.Itoa(pid) {
			member[one] = true
		}
	}
	for grew := true; grew; {
		grew = false
		for _, one := range living {
			if !member[one] && member[parents[one]] {
				member[one], grew = true, true
			}
		}
	}
	return slices.DeleteFunc(living, func(one int) bool { return !member[one] })
}

package controlplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Names of the environment variables that turn the test binary into a process
// that runs one control plane: a process can run only one in its life.
const (
	childDir     = "CONTROLPLANE_TEST_DIR"
	childAddress = "CONTROLPLANE_TEST_ADDRESS"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir, net.ParseIP(os.Getenv(childAddress))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child runs a control plane until SIGTERM and tells its progress on stdout.
func child(dir string, address net.IP) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	p, err := New(Config{Dir: dir, Address: address, Phase: func(name string, _ time.Duration) { fmt.Println("phase", name) }})
	if err != nil {
		return err
	}
	go func() {
		<-p.Ready()
		fmt.Println("ready", p.Server())
	}()
	return p.Run(ctx)
}

// childProcess is a control plane in a process of its own.
type childProcess struct {
	cmd    *exec.Cmd
	lines  *bufio.Reader
	stderr strings.Builder
	rest   strings.Builder // stdout after the lines that were read
}

func startChild(t *testing.T, dir string, address net.IP) *childProcess {
	t.Helper()
	c := &childProcess{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.cmd.Env = append(os.Environ(), childDir+"="+dir, childAddress+"="+address.String())
	c.cmd.Stderr = &c.stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// mustSay reads stdout until a line begins with prefix.
func (c *childProcess) mustSay(t *testing.T, prefix string) {
	t.Helper()
	began := time.Now()
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			// The pipe is closed, so the process has ended; its error says why.
			t.Fatalf("it ended before it said %q: %v\n%s", prefix, c.cmd.Wait(), c.stderr.String())
		}
		if strings.HasPrefix(line, prefix) {
			t.Logf("said %q after %s", strings.TrimSpace(line), time.Since(began).Round(time.Millisecond))
			return
		}
	}
}

// end sends a signal, unless it is 0, and waits for the process to end.
func (c *childProcess) end(s syscall.Signal) error {
	if s != 0 {
		if err := c.cmd.Process.Signal(s); err != nil {
			return err
		}
	}
	// Wait closes the pipe, so all must be read before.
	if _, err := io.Copy(&c.rest, c.lines); err != nil {
		return err
	}
	return c.cmd.Wait()
}

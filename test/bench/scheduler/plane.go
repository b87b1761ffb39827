package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // profiles of the control plane
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mesopod/mesopod/internal/controlplane"
)

// planeDir turns this program into a control plane, whose folder it names: a process can run one in its life.
const planeDir = "BENCH_SCHEDULER_PLANE"

// planeProfiles is where a control plane serves profiles: the API server's own are off.
const planeProfiles = "127.0.0.1:15052"

// runPlane runs a control plane until SIGTERM, without what would take nodes for dead that have no kubelet.
func runPlane(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	p, err := controlplane.New(controlplane.Config{Dir: dir, Address: net.IPv4(127, 0, 0, 1), Without: []string{"node-lifecycle-controller", "taint-eviction-controller"}})
	if err != nil {
		return err
	}
	scheduler, err := p.SchedulerKubeconfig()
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", planeProfiles)
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		// It ends with the process; net/http/pprof is in the default handler.
		_ = http.Serve(listener, nil)
	}()
	go func() {
		<-p.Ready()
		fmt.Println("ready", p.AdminKubeconfig(), scheduler)
	}()
	return p.Run(ctx)
}

// cluster is a control plane in a process of its own, with what was started beside it.
type cluster struct {
	dir              string
	admin, scheduler string // kubeconfigs
	client           kubernetes.Interface
	plane            *program
	parts            []*program
}

// program is a process that was started.
type program struct {
	name  string
	cmd   *exec.Cmd
	ended chan error
}

// startProgram starts a program whose output goes into a file of the folder.
func startProgram(dir, name string, stdout io.Writer, env []string, args ...string) (*program, error) {
	cmd := exec.Command(args[0], args[1:]...)
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &program{name: name, cmd: cmd, ended: make(chan error, 1)}
	go func() { p.ended <- cmd.Wait() }()
	return p, nil
}

// stop ends the program and waits for it. Its exit code says nothing: the upstream kube-scheduler has 1 for an end that was asked
// for. Who ended without being asked to is told by check.
func (p *program) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

func newCluster(ctx context.Context) (_ *cluster, retErr error) {
	dir, err := os.MkdirTemp("", "mesopod-bench")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir}
	defer func() {
		if retErr != nil {
			retErr = errors.Join(retErr, c.close())
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	defer out.Close()
	if c.plane, err = startProgram(dir, "control-plane", in, []string{planeDir + "=" + filepath.Join(dir, "plane")}, self); err != nil {
		return nil, err
	}
	lines := make(chan string, 1)
	go func() {
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			if strings.HasPrefix(scanner.Text(), "ready ") {
				lines <- scanner.Text()
				return
			}
		}
	}()
	select {
	case line := <-lines:
		fields := strings.Fields(line)
		c.admin, c.scheduler = fields[1], fields[2]
	case err := <-c.plane.ended:
		c.plane.ended <- err
		return nil, fmt.Errorf("control plane ended: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.admin)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	c.client, err = kubernetes.NewForConfig(config)
	return c, err
}

// start starts a part, which ends before the control plane does.
func (c *cluster) start(name string, args ...string) error {
	p, err := startProgram(c.dir, name, nil, nil, args...)
	if err == nil {
		c.parts = append(c.parts, p)
	}
	return err
}

// check tells of a part that has ended by itself.
func (c *cluster) check() error {
	for _, p := range append(c.parts, c.plane) {
		select {
		case err := <-p.ended:
			p.ended <- err
			text, _ := os.ReadFile(filepath.Join(c.dir, p.name+".log")) // for the message only
			return fmt.Errorf("%s ended: %w: %s", p.name, err, text[max(0, len(text)-2000):])
		default:
		}
	}
	return nil
}

// close ends all parts and removes their folder.
func (c *cluster) close() error {
	var errs []error
	for i := len(c.parts) - 1; i >= 0; i-- {
		errs = append(errs, c.parts[i].stop())
	}
	if c.plane != nil {
		errs = append(errs, c.plane.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}

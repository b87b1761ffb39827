package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golang/glog"
	"golang.org/x/sync/errgroup"

	"github.com/mesopod/mesopod/internal/controlplane"
)

// Limits of a start and of a stop. They are generous: a busy machine is slow, and a fault shows by itself.
const (
	controlPlaneLimit = 5 * time.Minute
	registerLimit     = 2 * time.Minute  // all Mesos agents with their master
	nodeLimit         = time.Minute      // nodes of all agents
	drainLimit        = 40 * time.Second // pods and executor, after the framework was torn down
	childGrace        = 10 * time.Second
)

// cluster is one run of a local cluster.
type cluster struct {
	layout
	addresses addresses
	api       net.IP // of the API server
	tell      *progress
	parts     *parts
	up        chan struct{} // closed when all parts have started
	plane     *controlplane.Plane
	master    mesosMaster
	admin     *admin
}

// Run runs a local cluster until ctx ends, or until a part of it fails for good. Once now is closed it does not wait
// for pods to end in their grace. Whatever it returns, nothing of the cluster is left then, or the error says what is.
// Faults of cfg are errdefs.ErrInvalid; all faults are told together, before anything is started.
func Run(ctx context.Context, now <-chan struct{}, cfg Config) (retErr error) {
	began := time.Now()
	c, held, err := prepare(cfg)
	if err != nil {
		return err
	}
	c.tell.began = began
	defer func() { retErr = errors.Join(retErr, held.release()) }()
	if err := c.begin(); err != nil {
		return err
	}
	defer func() {
		c.tell.say("stopping")
		stopped := time.Now()
		if err := c.stop(now); err != nil {
			retErr = errors.Join(retErr, err)
			return
		}
		c.tell.say("stopped in %.1f s, nothing left behind; logs are in %s", time.Since(stopped).Seconds(), c.logs())
	}()
	if err := c.start(ctx); err != nil {
		// An end that was asked for during the start is no fault.
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("start local cluster: %w", err)
	}
	close(c.up)
	c.tell.say("%s", c.welcome())
	select {
	case <-ctx.Done():
		return nil
	case one := <-c.parts.ended:
		return endedEarly(one)
	}
}

// Reset removes what a run that was killed has left, and the cluster's state with its logs.
func Reset(cfg Config) (retErr error) {
	l := layout{cfg}
	abs, err := filepath.Abs(l.StateDir)
	if err != nil {
		return err
	}
	l.StateDir = abs
	if os.Geteuid() != 0 {
		return errors.New("local reset needs root")
	}
	held, err := acquire(l)
	if err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, held.release()) }()
	if err := sweep(l); err != nil {
		return err
	}
	return errors.Join(wipe(l), wipeLogs(l), os.Remove(l.lock()), removeIfEmpty(l.StateDir))
}

// prepare checks everything that can be checked without a change, and takes the machine.
func prepare(cfg Config) (*cluster, *instance, error) {
	complete, err := cfg.complete()
	if complete.Out == nil {
		complete.Out = io.Discard
	}
	l := layout{complete}
	a, planErr := plan(complete)
	if planErr != nil {
		return nil, nil, err // complete has told about the subnet
	}
	err = errors.Join(err, checkMachine(l, a))
	var held *instance
	if os.Geteuid() == 0 {
		var lockErr error
		held, lockErr = acquire(l)
		err = errors.Join(err, lockErr)
	}
	if err != nil {
		if held != nil {
			err = errors.Join(err, held.release())
		}
		return nil, nil, err
	}
	c := &cluster{
		layout: l, addresses: a, parts: newParts(), up: make(chan struct{}),
		tell: &progress{out: l.Out, terminal: l.Terminal},
	}
	return c, held, nil
}

// begin removes what an earlier run has left, and records what the machine is like.
func (c *cluster) begin() error {
	if err := sweep(c.layout); err != nil {
		return err
	}
	if !c.external() {
		ports := map[string]int{"the API server": apiPort, "the scheduler": schedulerPort, "its page": statusPort, "the Mesos master": masterPort}
		if err := checkPorts(ports, c.addresses.bridge.Addr()); err != nil {
			return err
		}
	}
	if err := errors.Join(wipe(c.layout), wipeLogs(c.layout)); err != nil {
		return err
	}
	if err := os.MkdirAll(c.logs(), 0o700); err != nil {
		return err
	}
	return saveHost(c.layout)
}

// start starts all parts and returns when the cluster is ready.
func (c *cluster) start(ctx context.Context) error {
	var err error
	if c.external() {
		err = c.findMesos(ctx)
	} else {
		c.master = mesosMaster{net.JoinHostPort(c.addresses.bridge.Addr().String(), fmt.Sprint(masterPort))}
		c.api = c.addresses.bridge.Addr().AsSlice()
		err = c.tell.step("network", func() error {
			if err := buildNetwork(c.layout, c.addresses); err != nil {
				return err
			}
			if err := openOutside(ctx, c.addresses); err != nil {
				c.tell.say("pods reach no address outside of this machine, so no image registry: %v", err)
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	plane := controlplane.Config{Dir: c.control(), Address: c.api, Port: apiPort, Phase: c.tell.phase,
		FeatureGates: c.FeatureGates, RuntimeConfig: c.RuntimeConfig}
	if c.AllocateNodeCIDRs {
		plane.PodCIDR = c.addresses.allocated().String()
	}
	if c.DNS {
		plane.Manifests = append(plane.Manifests, dnsManifest())
	}
	if c.plane, err = controlplane.New(plane); err != nil {
		return err
	}
	// Control plane and Mesos know nothing of each other, so they start side by side.
	both, bothCtx := errgroup.WithContext(ctx)
	c.parts.start(ctx, "control plane", c.plane.Run)
	both.Go(func() error { return c.waitControlPlane(bothCtx) })
	if !c.external() {
		both.Go(func() error { return c.startMesos(bothCtx) })
	}
	if err := both.Wait(); err != nil {
		return err
	}
	if c.external() {
		if err := c.tellAgents(); err != nil {
			return err
		}
	}
	return c.tell.step("scheduler", func() error { return c.startScheduler(ctx) })
}

// waitControlPlane waits until pods can be created, and puts the kubeconfig where people look for it.
func (c *cluster) waitControlPlane(ctx context.Context) error {
	if err := c.parts.until(ctx, controlPlaneLimit, func(context.Context) error {
		select {
		case <-c.plane.Ready():
			return nil
		default:
			return errors.New("control plane is still starting")
		}
	}); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(c.plane.AdminKubeconfig())
	if err != nil {
		return err
	}
	if err := writeFile(c.layout.kubeconfig(), kubeconfig); err != nil {
		return err
	}
	c.admin, err = newAdmin(c.layout.kubeconfig())
	return err
}

// startMesos runs master and agents.
func (c *cluster) startMesos(ctx context.Context) error {
	if c.simulated() {
		return c.tell.step(c.simulatedTitle(), func() error { return c.startSimulated(ctx) })
	}
	if err := os.MkdirAll(c.layout.master(), 0o700); err != nil {
		return err
	}
	if err := c.tell.step("mesos-master", func() error {
		c.startChild(ctx, masterChild(c.layout, c.addresses))
		return c.parts.until(ctx, registerLimit, func(ctx context.Context) error {
			_, err := c.master.state(ctx)
			return err
		})
	}); err != nil {
		return err
	}
	return c.tell.step(fmt.Sprintf("mesos-agent x %d", len(c.addresses.agents)), func() error { return c.startAgents(ctx) })
}

// startAgents runs all agents side by side.
func (c *cluster) startAgents(ctx context.Context) error {
	for _, one := range c.addresses.agents {
		if err := os.MkdirAll(c.work(one), 0o700); err != nil {
			return err
		}
		child, err := agentChild(c.layout, c.addresses, one)
		if err != nil {
			return err
		}
		c.startChild(ctx, child)
	}
	return c.parts.until(ctx, registerLimit, func(ctx context.Context) error { return c.master.hasAgents(ctx, c.addresses.agents) })
}

// startScheduler runs the scheduler and waits until it has made the agents' nodes ready.
func (c *cluster) startScheduler(ctx context.Context) error {
	kubeconfig, err := c.plane.SchedulerKubeconfig()
	if err == nil {
		err = writeExecutorConfig(c.layout)
	}
	if err != nil {
		return err
	}
	c.startChild(ctx, schedulerChild(c.layout, kubeconfig, c.master.address, c.api))
	if c.external() {
		return c.parts.until(ctx, nodeLimit, c.admin.frameworkStored)
	}
	return c.parts.until(ctx, nodeLimit, func(ctx context.Context) error { return c.admin.nodesReady(ctx, c.addresses.agents) })
}

// schedulerChild is the scheduler. Executors reach it where they reach the API server, on another port.
func schedulerChild(l layout, kubeconfig, master string, api net.IP) child {
	args := []string{l.bundle("mesopod"), "scheduler",
		"--kubeconfig=" + kubeconfig,
		"--master=" + master,
		"--bundle-dir=" + l.BundleDir,
		fmt.Sprintf("--executor-listen=%s:%d", api, schedulerPort),
		"--executor-config=" + l.executorConfig(),
		fmt.Sprintf("--status-address=%s:%d", api, statusPort),
	}
	if len(l.FeatureGates) > 0 {
		args = append(args, "--feature-gates="+strings.Join(l.FeatureGates, ","))
	}
	for _, flag := range l.SchedulerFlags {
		args = append(args, "--"+flag)
	}
	return child{name: "scheduler", args: append(args, l.ChildArgs...), env: systemEnv(), log: l.log("scheduler"), grace: childGrace}
}

func (c *cluster) startChild(ctx context.Context, one child) {
	glog.V(1).Infof("start child name=%s log=%s", one.name, one.log)
	c.parts.start(ctx, one.name, func(ctx context.Context) error { return one.run(ctx, c.StateDir, c.up) })
}

// stop ends all parts, the last first, and removes what they leave. Between scheduler and agent the pods get their
// grace, unless now is closed.
func (c *cluster) stop(now <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	go func() {
		select {
		case <-now:
			cancel()
		case <-ctx.Done():
		}
	}()
	var framework string
	if c.admin != nil {
		framework = c.admin.frameworkID(ctx)
	}
	var errs []error
	for len(c.parts.running) > 0 {
		last := c.parts.running[len(c.parts.running)-1].name
		errs = append(errs, c.parts.stop())
		if last == "scheduler" && framework != "" {
			c.drain(ctx, framework)
		}
	}
	return errors.Join(append(errs, sweep(c.layout), wipe(c.layout))...)
}

// drain ends the framework's pods and executors, and waits until either are gone: an executor whose last statuses
// nobody acknowledges any more would stay for its whole grace. What does not end in time is killed by sweep, so a failure
// is only told. Where Mesos runs elsewhere its agents see to that.
func (c *cluster) drain(ctx context.Context, framework string) {
	if err := c.master.teardown(ctx, framework); err != nil {
		glog.Warningf("tear down framework id=%s reason=%q", framework, err)
		return
	}
	if c.external() {
		return
	}
	own, err := ownGroups([]string{c.StateDir})
	if err != nil {
		glog.Warningf("list cgroups reason=%q", err)
		return
	}
	if err := (&parts{ended: make(chan *part)}).until(ctx, drainLimit, func(ctx context.Context) error {
		if idle, err := podsGone(own); err != nil || idle {
			return err
		}
		for _, one := range c.addresses.agents {
			if err := agentIdle(ctx, one); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		glog.Warningf("kill pods framework=%s reason=%q", framework, err)
	}
}

// welcome tells how to use the cluster.
func (c *cluster) welcome() string {
	kubectl := "mesopod kubectl"
	if c.layout.kubeconfig() != DefaultKubeconfig {
		kubectl += " --kubeconfig " + c.layout.kubeconfig()
	}
	return fmt.Sprintf(`ready in %.1f s

  API server   %s
  kubeconfig   %s
  Mesos        http://%s
  page         http://%s:%d
  logs         %s

  %s get nodes
  pods run on Mesos with spec.schedulerName: mesos

Ctrl-C ends it and removes everything but the logs.`,
		time.Since(c.tell.began).Seconds(), c.plane.Server(), c.layout.kubeconfig(), c.master.address, c.api, statusPort, c.logs(), kubectl)
}

// wipe removes the state of a cluster that has ended, but not its logs and sandboxes: they may be asked for.
func wipe(l layout) error {
	var errs []error
	for _, path := range []string{l.control(), l.kubeconfig(), l.master(), l.executorConfig(), l.namespaces()} {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(append(errs, removeMatches(l.executors()))...)
}

// wipeLogs removes the logs and sandboxes of an earlier run.
func wipeLogs(l layout) error {
	return errors.Join(os.RemoveAll(l.logs()), removeMatches(l.works()))
}

// removeMatches removes all that a pattern matches, with what is in it.
func removeMatches(pattern string) error {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range matches {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/drain"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/messages"
	"github.com/mesopod/mesopod/scheduler"
	"github.com/mesopod/mesopod/scheduler/mesosconn"
)

// operatorSettings are how people's verbs reach API server and Mesos: some of the scheduler's settings, which may come from
// its file.
func operatorSettings(cmd *cobra.Command) *layers {
	return newLayers(cmd.Flags(), (*scheduler.Config).MesosSettings)
}

// operator reads the settings and connects to Mesos.
func operator(l *layers) (scheduler.Config, *mesosconn.Operator, error) {
	cfg, err := l.read(scheduler.Config.MesosFaults)
	if err != nil {
		return cfg, nil, err
	}
	master, err := cfg.Operator()
	return cfg, master, err
}

// evictPause is the time between two tries to evict a pod that a PodDisruptionBudget holds.
const evictPause = 2 * time.Second

// drainFlags are what drain and undrain share.
type drainFlags struct {
	settings         *layers
	timeout          time.Duration
	grace            time.Duration
	force, emptyDirs bool
}

func newDrainCommand() *cobra.Command {
	var f drainFlags
	c := &cobra.Command{
		Use:   "drain NODE --master=HOST:PORT[,HOST:PORT...]",
		Short: "Empty an agent: evict its pods, then drain it in Mesos",
		Long: `Empty an agent: evict its pods, then drain it in Mesos.

The node is cordoned, its pods are evicted as by kubectl drain, with respect to PodDisruptionBudgets, and only when they are gone Mesos
is asked to drain the agent (DRAIN_AGENT), which ends what is left, DaemonSets' pods and other frameworks' tasks included. It returns when
Mesos says that the agent is drained. mesopod undrain brings the agent back.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return coded(f.with(cmd, args[0], func(ctx context.Context, d *drainer) error { return d.drain(ctx, f) }))
		},
	}
	f.add(c)
	set := c.Flags()
	set.DurationVar(&f.grace, "max-grace-period", 5*time.Minute, "the most that Mesos leaves to tasks that are not pods of ours, or were not evicted")
	set.BoolVar(&f.force, "force", false, "evict pods without a controller too; nobody makes them anew")
	set.BoolVar(&f.emptyDirs, "delete-emptydir-data", false, "evict pods with emptyDir volumes, whose data is lost")
	return c
}

func newUndrainCommand() *cobra.Command {
	var f drainFlags
	c := &cobra.Command{
		Use:   "undrain NODE --master=HOST:PORT[,HOST:PORT...]",
		Short: "Bring a drained agent back: reactivate it in Mesos and uncordon its node",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return coded(f.with(cmd, args[0], func(ctx context.Context, d *drainer) error { return d.undrain(ctx) }))
		},
	}
	f.add(c)
	return c
}

func (f *drainFlags) add(c *cobra.Command) {
	f.settings = operatorSettings(c)
	set := c.Flags()
	set.DurationVar(&f.timeout, "timeout", 15*time.Minute, "how long it may take in all")
}

// drainer is one node and its agent, and where to say what happens.
type drainer struct {
	client  kubernetes.Interface
	master  *mesosconn.Operator
	node    *corev1.Node
	agentID string
	out     io.Writer
}

func (f *drainFlags) with(cmd *cobra.Command, name string, do func(context.Context, *drainer) error) error {
	ctx, cancel := context.WithTimeout(untilSignal(cmd.Context()), f.timeout)
	defer cancel()
	cfg, master, err := operator(f.settings)
	if err != nil {
		return err
	}
	defer master.Close()
	config, err := clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %q: %w: %w", cfg.Kubeconfig, errdefs.ErrInvalid, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("kubeconfig %q: %w: %w", cfg.Kubeconfig, errdefs.ErrInvalid, err)
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", name, err)
	}
	id := node.Annotations[messages.AnnotationAgentID]
	if id == "" {
		return fmt.Errorf("node %s is no Mesos agent: it has no annotation %s", name, messages.AnnotationAgentID)
	}
	return do(ctx, &drainer{client: client, master: master, node: node, agentID: id, out: cmd.OutOrStdout()})
}

func (d *drainer) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

func (d *drainer) drain(ctx context.Context, f drainFlags) error {
	left := 0
	helper := &drain.Helper{
		Ctx: ctx, Client: d.client, Force: f.force, DeleteEmptyDirData: f.emptyDirs, GracePeriodSeconds: -1, IgnoreAllDaemonSets: true,
		Timeout: f.timeout, EvictErrorRetryDelay: evictPause, Out: d.out, ErrOut: d.out,
		OnPodDeletionOrEvictionFinished: func(pod *corev1.Pod, _ bool, err error) {
			if err == nil {
				left--
				d.say("pod %s/%s is gone, %d to go", pod.Namespace, pod.Name, left)
			}
		},
	}
	if err := drain.RunCordonOrUncordon(helper, d.node, true); err != nil {
		return fmt.Errorf("cordon node %s: %w", d.node.Name, err)
	}
	d.say("node %s is cordoned", d.node.Name)
	pods, faults := helper.GetPodsForDeletion(d.node.Name)
	if len(faults) > 0 {
		return fmt.Errorf("pods on node %s, which stays cordoned: %w", d.node.Name, errors.Join(faults...))
	}
	left = len(pods.Pods())
	d.say("%d pods to evict", left)
	if err := helper.DeleteOrEvictPods(pods.Pods()); err != nil {
		return fmt.Errorf("evict pods of node %s, which stays cordoned: %w", d.node.Name, err)
	}
	if err := d.master.Drain(ctx, d.agentID, f.grace); err != nil {
		return fmt.Errorf("drain agent %s: %w", d.agentID, err)
	}
	d.say("agent %s drains in Mesos", d.agentID)
	for {
		drained, err := d.master.Drained(ctx, d.agentID)
		switch {
		case err != nil:
			return fmt.Errorf("look at agent %s: %w", d.agentID, err)
		case drained:
			d.say("agent %s is drained", d.agentID)
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("agent %s is not drained within %s; Mesos goes on with it: %w", d.agentID, f.timeout, ctx.Err())
		}
	}
}

func (d *drainer) undrain(ctx context.Context) error {
	if err := d.master.Reactivate(ctx, d.agentID); err != nil {
		return fmt.Errorf("reactivate agent %s: %w", d.agentID, err)
	}
	d.say("agent %s is active", d.agentID)
	helper := &drain.Helper{Ctx: ctx, Client: d.client, Out: d.out, ErrOut: d.out}
	if err := drain.RunCordonOrUncordon(helper, d.node, false); err != nil {
		return fmt.Errorf("uncordon node %s: %w", d.node.Name, err)
	}
	d.say("node %s is uncordoned", d.node.Name)
	return nil
}

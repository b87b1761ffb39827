package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mesopod/mesopod/internal/errdefs"
	"github.com/mesopod/mesopod/scheduler"
)

// admin asks the API server how the scheduler is doing.
type admin struct{ client kubernetes.Interface }

func newAdmin(kubeconfig string) (*admin, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	cfg.Timeout = 10 * time.Second
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &admin{client: client}, nil
}

// nodesReady is nil once the nodes of all the agents exist and are ready.
func (a *admin) nodesReady(ctx context.Context, agents []agent) error {
	nodes, err := a.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := map[string]bool{}
	for _, n := range nodes.Items {
		ready[n.Name] = slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	}
	for _, one := range agents {
		if !ready[one.hostname] {
			return fmt.Errorf("node %s is not ready", one.hostname)
		}
	}
	return nil
}

// frameworkStored is nil once the scheduler has subscribed, and so has an id.
func (a *admin) frameworkStored(ctx context.Context) error {
	stored, err := a.client.CoreV1().ConfigMaps(scheduler.Namespace).Get(ctx, scheduler.ConfigMapName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if stored.Data[scheduler.FrameworkIDKey] == "" {
		return errors.New("the scheduler has no framework id")
	}
	return nil
}

// frameworkID is the scheduler's framework id; empty if it has none or nobody can tell.
func (a *admin) frameworkID(ctx context.Context) string {
	stored, err := a.client.CoreV1().ConfigMaps(scheduler.Namespace).Get(ctx, scheduler.ConfigMapName, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return stored.Data[scheduler.FrameworkIDKey]
}

// findMesos asks a Mesos that others run for its agents, and finds the address where they reach our API server: unless
// it is given, the one from which this machine reaches the master.
func (c *cluster) findMesos(ctx context.Context) error {
	c.master = mesosMaster{c.masterAddress()}
	s, err := c.master.state(ctx)
	if err != nil {
		return fmt.Errorf("ask the Mesos master of --mesos=%s for its agents: %w; does it run, and is it the right address?", c.Mesos, err)
	}
	if c.addresses.agents, err = outsideAgents(s, c.addresses); err != nil {
		return err
	}
	c.api = c.Address
	if c.api == nil {
		// Connecting a UDP socket sends nothing.
		conn, err := net.Dial("udp", c.master.address)
		if err != nil {
			return fmt.Errorf("find the way to master %s: %w", c.master.address, err)
		}
		c.api = conn.LocalAddr().(*net.UDPAddr).IP
		if err := conn.Close(); err != nil {
			return err
		}
	}
	address, ok := netip.AddrFromSlice(c.api)
	if !ok || !address.Unmap().Is4() {
		return newFault(errdefs.ErrInvalid, "API server address %s: want an IPv4 address, see --address", c.api)
	}
	return checkPorts(map[string]int{"the API server": apiPort, "the scheduler": schedulerPort, "its page": statusPort}, address.Unmap())
}

// outsideAgents are the active agents of a master, with a range of the subnet for the pods of each.
func outsideAgents(s masterState, a addresses) ([]agent, error) {
	var agents []agent
	for _, one := range s.Agents {
		if !one.Active {
			continue
		}
		_, hostPort, _ := strings.Cut(one.PID, "@")
		endpoint, err := netip.ParseAddrPort(hostPort)
		if err != nil {
			return nil, fmt.Errorf("agent %s has pid %q, which names no address: %w", one.Hostname, one.PID, err)
		}
		if slices.ContainsFunc(agents, func(other agent) bool { return other.hostname == one.Hostname }) {
			return nil, newFault(errdefs.ErrConflict, "two agents of the master have the host name %s: nodes need names of their own, see the agent's --hostname", one.Hostname)
		}
		n := len(agents) + 1
		if n > maxOutsideAgents {
			return nil, newFault(errdefs.ErrInvalid, "the master has more than %d agents: too many for --subnet=%s", maxOutsideAgents, a.subnet)
		}
		agents = append(agents, agent{number: n, hostname: one.Hostname, endpoint: endpoint, pods: a.podRange(n)})
	}
	if len(agents) == 0 {
		return nil, newFault(errdefs.ErrNotFound, "the master has no agents: start them first, since each gets an executor configuration now")
	}
	return agents, nil
}

// maxOutsideAgents is how many pod ranges a subnet has.
const maxOutsideAgents = 255

// tellAgents says how the operator of a Mesos that others run starts the agents for our executors.
func (c *cluster) tellAgents() error {
	for _, one := range c.addresses.agents {
		variables, err := json.Marshal(c.executorVariables(one))
		if err != nil {
			return err
		}
		c.tell.say("agent %s: start it with --executor_environment_variables='%s', and PATH in it if its executors have none", one.hostname, variables)
	}
	return nil
}

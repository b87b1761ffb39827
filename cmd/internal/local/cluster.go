package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Where the scheduler keeps its framework id.
const (
	frameworkNamespace = "mesopod-system"
	frameworkConfigMap = "mesopod-scheduler"
	frameworkKey       = "frameworkID"
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

// nodeReady is nil once the node exists and is ready.
func (a *admin) nodeReady(ctx context.Context, name string) error {
	n, err := a.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", name)
}

// frameworkStored is nil once the scheduler has subscribed, and so has an id.
func (a *admin) frameworkStored(ctx context.Context) error {
	stored, err := a.client.CoreV1().ConfigMaps(frameworkNamespace).Get(ctx, frameworkConfigMap, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if stored.Data[frameworkKey] == "" {
		return errors.New("the scheduler has no framework id")
	}
	return nil
}

// frameworkID is the scheduler's framework id; empty if it has none or nobody can tell.
func (a *admin) frameworkID(ctx context.Context) string {
	stored, err := a.client.CoreV1().ConfigMaps(frameworkNamespace).Get(ctx, frameworkConfigMap, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return stored.Data[frameworkKey]
}

// externalAddress is the address for the API server where Mesos runs elsewhere: the one from which this machine
// reaches the master, since its agents must reach us.
func (c *cluster) externalAddress() (net.IP, error) {
	if c.Address != nil {
		return c.Address, nil
	}
	// Connecting a UDP socket sends nothing.
	conn, err := net.Dial("udp", c.master.address)
	if err != nil {
		return nil, fmt.Errorf("find the way to master %s: %w", c.master.address, err)
	}
	return conn.LocalAddr().(*net.UDPAddr).IP, conn.Close()
}

// configureAgents writes the executor configuration for each agent of a Mesos that others run, and says how its
// operator brings it there.
func (c *cluster) configureAgents(ctx context.Context) error {
	s, err := c.master.state(ctx)
	if err != nil {
		return fmt.Errorf("ask master %s for its agents: %w", c.master.address, err)
	}
	base := c.addresses.subnet.Addr().As4()
	for i, agent := range s.Agents {
		_, hostPort, _ := strings.Cut(agent.PID, "@")
		at, err := netip.ParseAddrPort(hostPort)
		if err != nil {
			return fmt.Errorf("agent %s has pid %q, which names no address: %w", agent.Hostname, agent.PID, err)
		}
		pods := netip.PrefixFrom(netip.AddrFrom4([4]byte{base[0], base[1], byte(1 + i%255), 0}), 24)
		if err := writeExecutorConfig(c.layout, c.plane, agent.Hostname, at.Addr(), pods); err != nil {
			return err
		}
		variables, err := json.Marshal(map[string]string{"MESOPOD_EXECUTOR_CONFIG": c.executorConfig(agent.Hostname)})
		if err != nil {
			return err
		}
		c.tell.say("agent %s: copy %s and the files it names to the same places there, and start it with --executor_environment_variables='%s'",
			agent.Hostname, c.executorConfig(agent.Hostname), variables)
	}
	return nil
}

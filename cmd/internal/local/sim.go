package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mesopod/mesopod/internal/mesossim"
)

// actedAttributes mark the agents that act pods out. What must run for true, such as the DNS server, keeps away from the node
// label that becomes of it; see contrib/manifests/dns.yaml. Zones and racks are there for pods to choose from: each zone has two racks.
const actedAttributes = "simulated:true;zone:z1|z2;rack:r1|r2|r3|r4"

// simulatedConfig is what the simulated Mesos of a local cluster is told: the same addresses, network namespaces and
// folders as the real one.
func simulatedConfig(l layout, a addresses) mesossim.Config {
	cfg := mesossim.Config{Masters: []string{net.JoinHostPort(a.bridge.Addr().String(), strconv.Itoa(masterPort))},
		Scripted: l.acted(), ScriptedAttributes: actedAttributes, ScriptedResources: l.actedResources}
	for _, one := range a.agents {
		cfg.Agents = append(cfg.Agents, mesossim.Agent{
			Name: one.name(), Hostname: one.hostname, Address: one.endpoint.String(), NetNS: l.netns(one), Dir: l.work(one),
			Resources: l.AgentResources, Attributes: one.attributes(), Environment: l.agentVariables(one),
		})
	}
	return cfg
}

// startSimulated runs master and agents in one child, which is mesopod itself.
func (c *cluster) startSimulated(ctx context.Context) error {
	if err := os.MkdirAll(c.layout.master(), 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(simulatedConfig(c.layout, c.addresses))
	if err != nil {
		return fmt.Errorf("configure simulated mesos: %w", err)
	}
	path := filepath.Join(c.layout.master(), "sim.json")
	if err := writeFile(path, data); err != nil {
		return fmt.Errorf("configure simulated mesos: %w", err)
	}
	args := []string{c.bundle("mesopod"), "sim", "--config=" + path, "--executor-registration-timeout=5m", "--executor-reregistration-timeout=15s"}
	if c.acted() > 0 {
		args = append(args, "--kubeconfig="+c.layout.kubeconfig())
	}
	c.startChild(ctx, child{
		name:  "mesos-sim",
		args:  append(args, c.ChildArgs...),
		env:   systemEnv(),
		log:   c.log("mesos-sim"),
		grace: 5 * time.Second,
	})
	return c.parts.until(ctx, registerLimit, func(ctx context.Context) error { return c.master.hasAgents(ctx, c.addresses.agents) })
}

// simulatedTitle names the step for people.
func (c *cluster) simulatedTitle() string {
	title := fmt.Sprintf("simulated mesos, %d agents", len(c.addresses.agents))
	if n := c.acted(); n > 0 {
		title += fmt.Sprintf(" and %d that act pods out", n)
	}
	return title
}

package executor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	mesostime "github.com/mesos/mesos-go/api/v1/lib/time"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// CgroupVariable is the variable in which the keeper tells the cgroup that it prepared, as a path in each hierarchy.
const CgroupVariable = "MESOPOD_CGROUP"

// StateFileVariable is the variable in which the keeper names the file for the path of the state folder.
const StateFileVariable = "MESOPOD_STATE_FILE"

// The variables in which the keeper tells of the programs: their folder, the SHA-256 of their archive, and the file for an
// order of another one.
const (
	BundleDirVariable = "MESOPOD_BUNDLE_DIR"
	BundleVariable    = "MESOPOD_BUNDLE"
	OrderFileVariable = "MESOPOD_BUNDLE_ORDER"
)

// tokenVariable holds the secret for an agent with executor authentication.
const tokenVariable = "MESOS_EXECUTOR_AUTHENTICATION_TOKEN"

// Env is what the agent and the keeper tell the executor by environment variables.
type Env struct {
	// AgentURL is the executor API; AgentAddress is the agent's address without port.
	AgentURL, AgentAddress string
	// AgentSocket is the path of the unix socket where an agent with --http_executor_domain_sockets serves the executor API;
	// empty: it serves none.
	AgentSocket string
	// FrameworkID, ExecutorID and AgentID say who we are.
	FrameworkID, ExecutorID, AgentID string
	// Container is the id of our Mesos container.
	Container string
	// StateFile is where the keeper wants to read the state folder's path, for its watchdog; empty for nowhere.
	StateFile string
	// BundleDir is where the keeper has the programs; empty: where the configuration says. Bundle is the SHA-256 of their
	// archive, if they came in one.
	BundleDir, Bundle string
	// OrderFile is where the keeper reads for which bundle it is asked; empty for nowhere.
	OrderFile string
	// Sandbox is the folder for logs.
	Sandbox string
	// Cgroup is the one that the keeper prepared.
	Cgroup string
	// Checkpoint tells that the agent may restart while we live; RecoveryTimeout is how long it may be away.
	Checkpoint      bool
	RecoveryTimeout time.Duration
	// ShutdownGrace is how long the agent waits after SHUTDOWN.
	ShutdownGrace time.Duration
	// Agent is what the operator gave to this agent alone, by --executor_environment_variables.
	Agent AgentSettings
	// Second: another framework's executor has what Agent names. Run finds out.
	Second bool
	// Version is the program's, for people to see; the program sets it.
	Version string
	// Token authenticates us, may be empty, and is never logged.
	Token string
}

// AgentSettings are what differs from agent to agent; each may be empty. See the fields of Config of the same names.
type AgentSettings struct{ StateDir, PodCIDR, Bridge, NodeIP string }

// ReadEnv reads the process's environment and takes the secret out of it, so that no child inherits it.
func ReadEnv() (Env, error) {
	env, err := envFrom(os.LookupEnv)
	if unset := os.Unsetenv(tokenVariable); unset != nil {
		err = errors.Join(err, fmt.Errorf("unset %s: %w", tokenVariable, unset))
	}
	return env, err
}

func envFrom(lookup func(string) (string, bool)) (Env, error) {
	var faults []error
	need := func(name string) string {
		value, _ := lookup(name)
		if value == "" {
			faults = append(faults, fmt.Errorf("%s is not set", name))
		}
		return value
	}
	duration := func(name string) time.Duration {
		text := need(name)
		if text == "" {
			return 0
		}
		value, err := mesostime.ParseDuration(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
		return value
	}
	env := Env{
		FrameworkID: need("MESOS_FRAMEWORK_ID"), ExecutorID: need("MESOS_EXECUTOR_ID"), AgentID: need("MESOS_SLAVE_ID"),
		Cgroup: need(CgroupVariable), ShutdownGrace: duration("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD"),
	}
	directory := need("MESOS_DIRECTORY")
	// The sandbox's path on the host ends with the id of the container.
	env.Container = filepath.Base(directory)
	if env.Sandbox, _ = lookup("MESOS_SANDBOX"); env.Sandbox == "" {
		env.Sandbox = directory
	}
	env.StateFile, _ = lookup(StateFileVariable)
	env.BundleDir, _ = lookup(BundleDirVariable)
	env.Bundle, _ = lookup(BundleVariable)
	env.OrderFile, _ = lookup(OrderFileVariable)
	checkpoint, _ := lookup("MESOS_CHECKPOINT")
	if env.Checkpoint = checkpoint == "1"; env.Checkpoint {
		env.RecoveryTimeout = duration("MESOS_RECOVERY_TIMEOUT")
	}
	env.Token, _ = lookup(tokenVariable)
	for name, field := range map[string]*string{
		"MESOPOD_STATE_DIR": &env.Agent.StateDir, "MESOPOD_POD_CIDR": &env.Agent.PodCIDR,
		"MESOPOD_BRIDGE": &env.Agent.Bridge, "MESOPOD_NODE_IP": &env.Agent.NodeIP,
	} {
		*field, _ = lookup(name)
	}
	endpoint, pid := need("MESOS_AGENT_ENDPOINT"), need("MESOS_SLAVE_PID")
	if endpoint != "" && pid != "" {
		host, _, err := net.SplitHostPort(endpoint)
		if err != nil {
			faults = append(faults, fmt.Errorf("MESOS_AGENT_ENDPOINT: %w", err))
		}
		env.AgentAddress = host
		// The agent's process id, "slave(1)@address", is told nowhere else; the path without it is not always served.
		process, _, _ := strings.Cut(pid, "@")
		scheme := "http"
		env.AgentSocket, _ = lookup("MESOS_DOMAIN_SOCKET")
		if tls, _ := lookup("LIBPROCESS_SSL_ENABLED"); env.AgentSocket == "" && (tls == "1" || tls == "true") {
			scheme = "https"
		}
		env.AgentURL = scheme + "://" + endpoint + "/" + process + "/api/v1/executor"
	}
	if len(faults) > 0 {
		return Env{}, fmt.Errorf("environment of the executor (start it by a Mesos agent, through mesopod-keeper): %w: %w",
			errdefs.ErrInvalid, errors.Join(faults...))
	}
	return env, nil
}

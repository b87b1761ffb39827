package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// masterChild is the Mesos master. Its registry is in memory: a local cluster starts from nothing each time.
func masterChild(l layout, a addresses) child {
	return child{
		name: "mesos-master",
		args: []string{l.mesos("mesos-master")},
		env: append(systemEnv(),
			"LIBPROCESS_IP="+a.bridge.Addr().String(),
			"LIBPROCESS_PORT="+strconv.Itoa(masterPort),
			"MESOS_HOSTNAME="+a.bridge.Addr().String(),
			"MESOS_WORK_DIR="+l.master(),
			"MESOS_REGISTRY=in_memory",
		),
		log:   l.log("mesos-master"),
		grace: 5 * time.Second,
	}
}

// agentVariables are those with which an agent starts executors, and no others of its own.
func (l layout) agentVariables(one agent) map[string]string {
	variables := l.executorVariables(one)
	maps.Copy(variables, map[string]string{
		// What this machine keeps for a real cluster is not for ours.
		"MESOPOD_EXECUTOR_CONFIG": os.DevNull,
		"PATH":                    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"RES_OPTIONS":             resolverOptions,
		mark:                      l.StateDir,
	})
	return variables
}

// agentChild is a Mesos agent, in its own network namespace.
func agentChild(l layout, a addresses, one agent) (child, error) {
	work := l.work(one)
	executor, err := json.Marshal(l.agentVariables(one))
	if err != nil {
		return child{}, err
	}
	isolation := "cgroups/cpu,cgroups/mem"
	if l.Launcher == "posix" {
		isolation = "posix/cpu,posix/mem"
	}
	attributes := one.attributes()
	var further []string
	for _, text := range l.AgentFlags {
		variable, err := agentFlag(text)
		if err != nil {
			return child{}, err
		}
		if more, is := strings.CutPrefix(variable, "MESOS_ATTRIBUTES="); is {
			attributes += ";" + more
			continue
		}
		further = append(further, variable)
	}
	return child{
		name:  one.name(),
		args:  []string{l.mesos("mesos-agent")},
		netns: l.netns(one),
		// Of a variable that is there twice the last one counts.
		env: append(append(systemEnv(),
			"LIBPROCESS_IP="+one.endpoint.Addr().String(),
			"LIBPROCESS_PORT="+strconv.Itoa(agentPort),
			"RES_OPTIONS="+resolverOptions,
			"MESOS_HOSTNAME="+one.hostname,
			"MESOS_MASTER="+net.JoinHostPort(a.bridge.Addr().String(), strconv.Itoa(masterPort)),
			"MESOS_WORK_DIR="+filepath.Join(work, "work"),
			"MESOS_RUNTIME_DIR="+filepath.Join(work, "run"),
			"MESOS_FETCHER_CACHE_DIR="+filepath.Join(work, "fetch"),
			"MESOS_APPC_STORE_DIR="+filepath.Join(work, "appc"),
			"MESOS_DOCKER_STORE_DIR="+filepath.Join(work, "docker"),
			"MESOS_LAUNCHER_DIR="+l.MesosDir,
			"MESOS_LAUNCHER="+l.Launcher,
			"MESOS_ISOLATION="+isolation,
			"MESOS_CGROUPS_ROOT="+one.cgroup(),
			"MESOS_SYSTEMD_ENABLE_SUPPORT=false",
			"MESOS_RESOURCES="+l.AgentResources,
			"MESOS_ATTRIBUTES="+attributes,
			"MESOS_EXECUTOR_ENVIRONMENT_VARIABLES="+string(executor),
			// A busy laptop may take longer than the minute that is the default.
			"MESOS_EXECUTOR_REGISTRATION_TIMEOUT=5mins",
			// An executor that crashed while the agent was away may still be in the keeper's pause.
			"MESOS_EXECUTOR_REREGISTRATION_TIMEOUT=15secs",
		), further...),
		log:   l.log(one.name()),
		grace: 5 * time.Second,
	}, nil
}

// resolverOptions keep look-ups short where no name server can be reached: each start of an agent makes one.
const resolverOptions = "timeout:1 attempts:1"

// mesosMaster talks to the operator API of a master.
type mesosMaster struct{ address string }

// masterState is the part of /master/state that is used here.
type masterState struct {
	Agents     []masterAgent `json:"slaves"`
	Frameworks []struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Active bool   `json:"active"`
	} `json:"frameworks"`
}

type masterAgent struct {
	Hostname string `json:"hostname"`
	PID      string `json:"pid"` // slave(1)@address:port
	Active   bool   `json:"active"`
}

// client asks master and agents. They are near: a proxy for the world outside must not be asked for them.
var client = newClient()

func newClient() *http.Client {
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, IdleConnTimeout: time.Minute}
	return &http.Client{Transport: transport}
}

// call does one request and reads its answer into result, unless that is nil.
func call(ctx context.Context, method, url string, body, result any) (retErr error) {
	var send io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		send = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, send)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { retErr = errors.Join(retErr, answer.Body.Close()) }()
	if answer.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 500)) // the status alone says enough
		return fmt.Errorf("%s %s: %s: %s", method, url, answer.Status, bytes.TrimSpace(text))
	}
	if result == nil {
		return nil
	}
	if err := json.NewDecoder(answer.Body).Decode(result); err != nil {
		return fmt.Errorf("%s %s: %w", method, url, err)
	}
	return nil
}

func (m mesosMaster) state(ctx context.Context) (masterState, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var s masterState
	err := call(ctx, http.MethodGet, "http://"+m.address+"/master/state", nil, &s)
	return s, err
}

// hasAgents is nil once all of the agents are registered.
func (m mesosMaster) hasAgents(ctx context.Context, agents []agent) error {
	s, err := m.state(ctx)
	if err != nil {
		return err
	}
	for _, want := range agents {
		if !slices.ContainsFunc(s.Agents, func(a masterAgent) bool { return a.Hostname == want.hostname && a.Active }) {
			return fmt.Errorf("agent %s is not registered with the master", want.hostname)
		}
	}
	return nil
}

// teardown ends a framework with all its tasks and executors.
func (m mesosMaster) teardown(ctx context.Context, framework string) error {
	return call(ctx, http.MethodPost, "http://"+m.address+"/api/v1", map[string]any{
		"type":     "TEARDOWN",
		"teardown": map[string]any{"framework_id": map[string]string{"value": framework}},
	}, nil)
}

// agentIdle is nil once no executor runs on the agent.
func agentIdle(ctx context.Context, a agent) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var s struct {
		Frameworks []struct {
			Executors []struct {
				ID string `json:"id"`
			} `json:"executors"`
		} `json:"frameworks"`
	}
	if err := call(ctx, http.MethodGet, "http://"+a.endpoint.String()+"/state", nil, &s); err != nil {
		return err
	}
	for _, f := range s.Frameworks {
		if len(f.Executors) > 0 {
			return fmt.Errorf("executor %s still runs on agent %s", f.Executors[0].ID, a.hostname)
		}
	}
	return nil
}

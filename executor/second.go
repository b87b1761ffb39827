package executor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/golang/glog"

	"github.com/mesopod/mesopod/executor/statedir"
	"github.com/mesopod/mesopod/internal/errdefs"
)

// nickname tells frameworks of one agent apart: it stands in names of folders and devices.
func nickname(frameworkID string) string {
	sum := sha256.Sum256([]byte(frameworkID))
	return fmt.Sprintf("%x", sum[:4])
}

// place finds out whether another framework's executor has the folder that the agent names. Then ours lives beside it
// (ADR 048).
func (e *Executor) place(ctx context.Context) error {
	base := e.config.StateDir
	if base == filepath.Join(DefaultStateParent, nickname(e.env.FrameworkID)) {
		return nil // it is named after the framework
	}
	ctx, cancel := context.WithTimeout(ctx, placeTimeout)
	defer cancel()
	own := beside(base, e.env.FrameworkID)
	second, err := statedir.Claim(ctx, base, own, e.env.FrameworkID, e.env.Container, func(framework string) (bool, error) {
		return lives("/proc", framework, e.env.AgentID)
	})
	if err != nil || !second {
		return err
	}
	glog.Infof("live beside another framework dir=%s reason=%q", own, "its executor has "+base)
	e.env.Second = true
	e.config, err = e.config.complete(e.env)
	return err
}

// beside is the folder of a second framework's executor.
func beside(base, frameworkID string) string { return base + "-" + nickname(frameworkID) }

// lives tells whether an executor of a framework runs on an agent: the agent gives it these variables, and it hands them on
// to what it starts.
func lives(proc, frameworkID, agentID string) (bool, error) {
	processes, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "environ"))
	if err != nil || len(processes) == 0 {
		return false, fmt.Errorf("list processes of %s: %w: %w", proc, errdefs.ErrUnavailable, err)
	}
	for _, path := range processes {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		variables := bytes.Split(text, []byte{0})
		has := func(variable string) bool {
			return slices.ContainsFunc(variables, func(v []byte) bool { return string(v) == variable })
		}
		if has("MESOS_FRAMEWORK_ID="+frameworkID) && has("MESOS_SLAVE_ID="+agentID) {
			return true, nil
		}
	}
	return false, nil
}

// morePorts is how many ports above the kubelet's are tried when another kubelet has that.
const morePorts = 16

// freePort is the first port from a given one that nobody listens at. The Node tells the API server which it is.
func freePort(address string, first int) (int, error) {
	for port := first; port < first+morePorts; port++ {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("port of the kubelet: %w", err)
		}
		if port != first {
			glog.Warningf("use another port for the kubelet port=%d reason=%q", port, fmt.Sprintf("%d is taken, most likely by another framework's", first))
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("ports %d to %d of %s are all taken: name another kubeletPort: %w", first, first+morePorts-1, address, errdefs.ErrConflict)
}

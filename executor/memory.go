package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/golang/glog"
)

// memoryInterval is the pace at which the pods' common memory limit follows Mesos'. Mesos raises its limit before it
// delivers a LAUNCH, and no container runs within that time.
const memoryInterval = 200 * time.Millisecond

// leastPodsMemory keeps a node without pods from a limit that its first sandbox could not start in.
const leastPodsMemory = 16 << 20

// memoryRoot is the memory hierarchy; podsCgroup is the kubelet's cgroup for all pods, below ours.
const (
	memoryRoot  = "/sys/fs/cgroup/memory"
	podsCgroup  = "kubepods"
	memoryLimit = "memory.limit_in_bytes"
)

// guardMemory keeps the limit of all pods below the limit that Mesos set on our container, less our own share. When a
// pod outgrows the pods' limit the kernel ends a process of a pod, and Mesos sees nothing. When one outgrows Mesos' own
// limit, Mesos destroys the whole container with every pod in it.
func guardMemory(ctx context.Context, cgroup string, capacity, share int64) {
	own := filepath.Join(memoryRoot, cgroup)
	pods := filepath.Join(own, podsCgroup)
	ticker := time.NewTicker(memoryInterval)
	defer ticker.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// Said once: the next look, a moment later, most often finds the same.
		if err := adjustMemory(own, pods, capacity, share); err != nil && err.Error() != last {
			last = err.Error()
			glog.Warningf("leave memory limit of pods err=%v", err)
		}
	}
}

func adjustMemory(own, pods string, capacity, share int64) error {
	limit, err := readBytes(filepath.Join(own, memoryLimit))
	if err != nil {
		return err
	}
	now, err := readBytes(filepath.Join(pods, memoryLimit))
	if errors.Is(err, os.ErrNotExist) {
		return nil // the kubelet has not made it yet
	}
	if err != nil {
		return err
	}
	want := podsMemory(limit, capacity, share)
	if want == now {
		return nil
	}
	glog.Infof("set memory limit of pods bytes=%d reason=%q", want, fmt.Sprintf("our container may use %d", limit))
	if err := os.WriteFile(filepath.Join(pods, memoryLimit), []byte(strconv.FormatInt(want, 10)), 0); err != nil {
		return fmt.Errorf("set memory limit of pods to %d: %w", want, err)
	}
	return nil
}

// podsMemory is the limit of all pods in bytes: the node's size, but no more than our container may use beside us. The
// kernel's number for no limit is far above any node.
func podsMemory(limit, capacity, share int64) int64 {
	const page = 4096 // the kernel rounds limits down to pages
	return max(min(capacity, limit-share), leastPodsMemory) / page * page
}

func readBytes(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read memory limit: %w", err)
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read memory limit %s: %w", path, err)
	}
	return value, nil
}

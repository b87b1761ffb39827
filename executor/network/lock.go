package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/golang/glog"
)

// lockPoll is the pause between two tries for a lock.
const lockPoll = time.Second

// Lock waits until this process alone keeps what name stands for in this network namespace. It is an abstract Unix socket,
// which the kernel frees with the process, however that ends. waiting is called once when another process has it. Lock returns
// nil when ctx ends.
func Lock(ctx context.Context, name string, waiting func()) (net.Listener, error) {
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for told := false; ; {
		lock, err := TryLock(ctx, name)
		if lock != nil || err != nil || ctx.Err() != nil {
			return lock, err
		}
		if !told {
			told = true
			glog.Infof("wait for lock name=%s reason=%q", name, "another executor in this network namespace has it")
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-ticker.C:
		}
	}
}

// TryLock is Lock for who does not wait: nil when another process keeps it.
func TryLock(ctx context.Context, name string) (net.Listener, error) {
	lock, err := (&net.ListenConfig{}).Listen(ctx, "unix", "@"+name)
	switch {
	case err == nil:
		return lock, nil
	case ctx.Err() != nil || errors.Is(err, syscall.EADDRINUSE):
		return nil, nil
	}
	return nil, fmt.Errorf("take %s of this network namespace: %w", name, err)
}

package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/bundle"
)

// lockPoll is the pause between two looks at a lock that another keeper holds.
const lockPoll = 100 * time.Millisecond

// lock takes the bundle's lock, shared or exclusive, and waits for it until ctx ends. An exclusive one is nil once the
// bundle is there: then those who use it have the lock, for as long as they live. Closing the file gives the lock back, and
// so does the end of the process.
func (c *Cache) lock(ctx context.Context, digest bundle.Digest, how int) (*os.File, error) {
	told := false
	for {
		file, err := c.tryLock(digest, how)
		if file != nil || err != nil {
			return file, err
		}
		if how == unix.LOCK_EX && c.has(digest) {
			return nil, nil
		}
		if !told {
			c.say("wait for another keeper that brings bundle %s", digest.Short())
			told = true
		}
		if err := pause(ctx, lockPoll); err != nil {
			return nil, fmt.Errorf("wait for another keeper that brings bundle %s: %w", digest.Short(), err)
		}
	}
}

// tryLock is nil if others hold the lock.
func (c *Cache) tryLock(digest bundle.Digest, how int) (*os.File, error) {
	path := c.path(digest, lockSuffix)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of bundle: %w", err)
	}
	err = unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
	if err == nil && same(file, path) {
		return file, nil
	}
	closed := file.Close()
	// Whoever collects removes the file with the bundle: then ours is a lock of nothing.
	if err == nil || errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return nil, closed
	}
	return nil, errors.Join(fmt.Errorf("lock bundle %s: %w", path, err), closed)
}

// same tells whether the file is still the one at the path.
func same(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(opened, now)
}

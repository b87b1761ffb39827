package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/bundle"
)

// DefaultDir is where all keepers of a host keep their bundles.
const DefaultDir = "/var/lib/mesopod/bundles"

// DefaultLimit is how many bytes of bundles that nobody uses are kept: a few, for a way back.
const DefaultLimit = 2 << 30

// Cache is a host's cache of bundles.
type Cache struct {
	// Dir is the folder; nothing else may lie in it.
	Dir string
	// Limit is how many bytes of bundles that nobody uses are kept.
	Limit int64
	// Log takes lines for people: what is waited for, and how far it is.
	Log io.Writer
	// pause waits between tries; tests hurry.
	pause func(context.Context, time.Duration) error
}

// New is a cache that logs to a writer.
func New(dir string, limit int64, log io.Writer) *Cache {
	return &Cache{Dir: dir, Limit: limit, Log: log, pause: pause}
}

// Held is a bundle that nobody removes before Release.
type Held struct {
	// Digest names the bundle.
	Digest bundle.Digest
	// Dir is the folder with its programs.
	Dir  string
	lock *os.File
}

// Release lets others remove the bundle.
func (h *Held) Release() error { return h.lock.Close() }

// Acquire returns the bundle, from the sources in their order where the host does not have it: folders and URLs of
// folders, in which it has its digest for a name. It goes on trying until ctx ends, unless the disk is full or no source
// has it; another keeper that brings the same bundle is waited for.
func (c *Cache) Acquire(ctx context.Context, digest bundle.Digest, sources []string) (*Held, error) {
	if err := os.MkdirAll(c.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("host cache of bundles: %w", err)
	}
	for {
		held, err := c.use(ctx, digest)
		if err != nil || held != nil {
			return held, err
		}
		// Between two locks another keeper may remove it again; then once more.
		if err := c.bring(ctx, digest, sources); err != nil {
			return nil, err
		}
	}
}

func (c *Cache) path(digest bundle.Digest, suffix string) string {
	return filepath.Join(c.Dir, string(digest)+suffix)
}

// use holds the bundle if it is there, and else is nil.
func (c *Cache) use(ctx context.Context, digest bundle.Digest) (*Held, error) {
	lock, err := c.lock(ctx, digest, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	if !c.has(digest) {
		return nil, lock.Close()
	}
	// The lock's time is that of the last use.
	now := time.Now()
	if err := os.Chtimes(lock.Name(), now, now); err != nil {
		return nil, errors.Join(fmt.Errorf("host cache of bundles: %w", err), lock.Close())
	}
	return &Held{Digest: digest, Dir: c.path(digest, ""), lock: lock}, nil
}

// has tells whether the bundle is there. Only who has its lock can rely on that.
func (c *Cache) has(digest bundle.Digest) bool {
	_, err := os.Stat(c.path(digest, ""))
	return err == nil
}

// bring puts the bundle into its place, unless another did it while we waited.
func (c *Cache) bring(ctx context.Context, digest bundle.Digest, sources []string) (err error) {
	lock, err := c.lock(ctx, digest, unix.LOCK_EX)
	if err != nil || lock == nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if c.has(digest) {
		return nil
	}
	began := time.Now()
	c.collect(digest, c.Limit)
	if err := c.fetch(ctx, digest, sources); err != nil {
		return c.explain(digest, err)
	}
	fetched := time.Now()
	err = c.unpack(digest)
	if errors.Is(err, unix.ENOSPC) && c.collect(digest, 0) > 0 {
		err = c.unpack(digest)
	}
	if err != nil {
		return c.explain(digest, err)
	}
	c.say("bundle %s is there: fetched in %.1f s, unpacked in %.1f s", digest.Short(), fetched.Sub(began).Seconds(), time.Since(fetched).Seconds())
	return nil
}

// unpack turns the checked archive into the bundle.
func (c *Cache) unpack(digest bundle.Digest) error {
	part, err := os.Open(c.path(digest, partSuffix))
	if err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	defer part.Close()
	dir := c.path(digest, unpackSuffix)
	// Of a keeper that was killed.
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	err = bundle.Unpack(part, dir)
	if err == nil {
		// The name says that the bundle is complete, so its bytes must be on the disk before the name is.
		err = syncAll(dir)
	}
	if err == nil {
		err = os.Rename(dir, c.path(digest, ""))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return ignoreMissing(os.Remove(part.Name()))
}

func syncAll(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(file.Fd())), file.Close())
}

// explain tells what to do about a full disk, and leaves no archive on it.
func (c *Cache) explain(digest bundle.Digest, err error) error {
	if errors.Is(err, unix.ENOSPC) {
		err = errors.Join(err, ignoreMissing(os.Remove(c.path(digest, partSuffix))))
		return fmt.Errorf("host cache %s has no room for bundle %s (%d MB are free; 400 MB should be): make room there, or choose another folder with the scheduler's --bundle-cache: %w",
			c.Dir, digest.Short(), c.free()>>20, err)
	}
	return fmt.Errorf("bring bundle %s into %s: %w", digest.Short(), c.Dir, err)
}

// free is the room on the disk, in bytes; 0 if it cannot be told.
func (c *Cache) free() int64 {
	var disk unix.Statfs_t
	if err := unix.Statfs(c.Dir, &disk); err != nil {
		return 0
	}
	return int64(disk.Bavail) * disk.Bsize //nolint:unconvert // the type differs between machines
}

func (c *Cache) say(format string, arguments ...any) {
	fmt.Fprintf(c.Log, "mesopod-keeper: "+format+"\n", arguments...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mesopod/mesopod/internal/bundle"
)

const (
	partSuffix   = ".part"
	unpackSuffix = ".unpack"
	lockSuffix   = ".lock"
)

// unused is a bundle, or a part of one, whose lock we have.
type unused struct {
	digest bundle.Digest
	lock   *os.File
	bytes  int64
	last   time.Time
}

// collect removes bundles that nobody uses, but the one named, until at most limit bytes of them are left; those used
// longest ago go first. It returns how many bytes it removed.
func (c *Cache) collect(but bundle.Digest, limit int64) (removed int64) {
	var kept int64
	free := c.unused(but)
	slices.SortFunc(free, func(a, b unused) int { return b.last.Compare(a.last) })
	for _, u := range free {
		if u.bytes > 0 && kept+u.bytes <= limit {
			kept += u.bytes
		} else if err := c.remove(u); err != nil {
			c.say("cannot remove unused bundle %s: %v", u.digest.Short(), err)
		} else if removed += u.bytes; u.bytes > 0 {
			c.say("removed unused bundle %s, %d MB", u.digest.Short(), u.bytes>>20)
		}
		if err := u.lock.Close(); err != nil {
			c.say("lock of bundle %s: %v", u.digest.Short(), err)
		}
	}
	return removed
}

// unused lists what nobody else has locked, and locks it.
func (c *Cache) unused(but bundle.Digest) []unused {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		c.say("list bundles: %v", err)
		return nil
	}
	var found []unused
	seen := map[bundle.Digest]bool{but: true}
	for _, entry := range entries {
		name, _, _ := strings.Cut(entry.Name(), ".")
		digest, err := bundle.ParseDigest(name)
		if err != nil || seen[digest] {
			continue
		}
		seen[digest] = true
		last := time.Time{}
		if info, err := os.Stat(c.path(digest, lockSuffix)); err == nil {
			last = info.ModTime()
		}
		lock, err := c.tryLock(digest, unix.LOCK_EX)
		if err != nil || lock == nil {
			continue // in use; or the disk refuses, which who brings something tells
		}
		u := unused{digest: digest, lock: lock, last: last}
		for _, suffix := range []string{"", partSuffix, unpackSuffix} {
			u.bytes += size(c.path(digest, suffix))
		}
		found = append(found, u)
	}
	return found
}

// remove removes all of a bundle, its name first: half a bundle never looks like a whole one.
func (c *Cache) remove(u unused) error {
	dir := c.path(u.digest, unpackSuffix)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return errors.Join(
		ignoreMissing(os.Rename(c.path(u.digest, ""), dir)), os.RemoveAll(dir),
		ignoreMissing(os.Remove(c.path(u.digest, partSuffix))),
		// The last: who has it open finds out that it is gone.
		ignoreMissing(os.Remove(u.lock.Name())))
}

// size is the sum of the files at and below a path.
func size(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // it is not there, or vanished
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

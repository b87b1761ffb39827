// Package statedir is the agreement about an executor's state folder, between the executor that lives in it, the next
// one, and the keeper's watchdog that clears away what a dead one left.
//
// Order of calls: Lock, then Owner, SetOwner, RemoveShimSockets and Unmount in any order, then Unlock. Whoever sweeps does so with the lock
// and looks at the owner first: a Mesos container that has taken the folder over must not lose its mounts to the
// sweeper of the one before. The package has no goroutines.
//
//	STATE/lock       locked while somebody sweeps, or takes the folder over
//	STATE/container  the id of the Mesos container whose executor lives here
//	STATE/s          the sockets of its shims
package statedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is the pause between two attempts to get the lock.
const lockPoll = 50 * time.Millisecond

// Dir is a state folder, locked.
type Dir struct {
	path string
	lock *os.File
}

// Lock waits for the folder's lock until the context ends. The folder is made when it is missing.
func Lock(ctx context.Context, path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o711); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		// A lock of its own descriptor: the kernel takes it back when the process ends, however it does.
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &Dir{path: path, lock: lock}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock state folder %s: %w", path, err), lock.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock state folder %s, which another process sweeps or enters: %w", path, ctx.Err()), lock.Close())
		case <-ticker.C:
		}
	}
}

// Unlock gives the lock back.
func (d *Dir) Unlock() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("unlock state folder %s: %w", d.path, err)
	}
	return nil
}

func (d *Dir) marker() string { return filepath.Join(d.path, "container") }

// Owner is the id of the Mesos container whose executor lives here or did so last, "" for none.
func (d *Dir) Owner() (string, error) {
	text, err := os.ReadFile(d.marker())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("owner of state folder: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// SetOwner makes a Mesos container the owner.
func (d *Dir) SetOwner(container string) error {
	next := d.marker() + ".new"
	err := os.WriteFile(next, []byte(container+"\n"), 0o600)
	if err == nil {
		err = os.Rename(next, d.marker())
	}
	if err != nil {
		return fmt.Errorf("owner of state folder: %w", err)
	}
	return nil
}

// Unmount takes away all mounts below the folder, deepest first; who still uses one keeps it until its end. It goes
// on after an error.
func (d *Dir) Unmount() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	var faults []error
	for _, point := range mountsBelow(string(mounts), d.path) {
		// EINVAL: it went meanwhile.
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			faults = append(faults, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(faults...)
}

// ShimSockets is the folder of the sockets of a state folder's shims. It is theirs alone, where containerd's default,
// /run/containerd/s, is everybody's: names there tell nobody whose they are, and containerd's notes, which do, may be
// gone before the socket of a shim that was killed is.
func ShimSockets(path string) string { return filepath.Join(path, "s") }

// RemoveShimSockets removes the sockets of the folder's shims, which must have ended: one that is killed leaves its own.
func (d *Dir) RemoveShimSockets() error {
	if err := os.RemoveAll(ShimSockets(d.path)); err != nil {
		return fmt.Errorf("sockets of shims: %w", err)
	}
	return nil
}

// mountsBelow are the mount points below the folder (itself left out), deepest first, as /proc/self/mountinfo tells them.
func mountsBelow(mountinfo, folder string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if strings.HasPrefix(point, folder+"/") {
			points = append(points, point)
		}
	}
	// A mount over another one comes later in the list and must go first.
	slices.Reverse(points)
	slices.SortStableFunc(points, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return points
}

// unescape undoes the octal escapes of mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

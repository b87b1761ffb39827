package statedir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func lock(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Who sweeps keeps others out, and the folder's owner is remembered.
func TestLockAndOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "state")
	d := lock(t, path)
	if owner, err := d.Owner(); owner != "" || err != nil {
		t.Errorf("owner of a new folder is %q, error %v", owner, err)
	}
	for _, id := range []string{"c1", "c2"} {
		if err := d.SetOwner(id); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	if _, err := Lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second lock: %v", err)
	}
	if err := d.Unlock(); err != nil {
		t.Fatal(err)
	}
	d = lock(t, path)
	defer d.Unlock()
	if owner, err := d.Owner(); owner != "c2" || err != nil {
		t.Errorf("owner is %q, error %v", owner, err)
	}
}

// The sockets of killed shims go, whatever containerd still knows of them; others' stay.
func TestRemoveShimSockets(t *testing.T) {
	root := t.TempDir()
	mine, other := ShimSockets(filepath.Join(root, "a1")), ShimSockets(filepath.Join(root, "a10"))
	for _, folder := range []string{mine, other} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		// What a process that is killed leaves.
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(folder, "5a5a")}), unix.Close(fd)); err != nil {
			t.Fatal(err)
		}
	}
	d := lock(t, filepath.Join(root, "a1"))
	defer d.Unlock()
	for range 2 {
		if err := d.RemoveShimSockets(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(mine); err == nil {
		t.Error("our sockets are still there")
	}
	if _, err := os.Stat(filepath.Join(other, "5a5a")); err != nil {
		t.Errorf("another's socket: %v", err)
	}
}

// Mounts below the folder go, those beside it stay.
func TestUnmount(t *testing.T) {
	root := t.TempDir()
	mine, other := filepath.Join(root, "a1", "x y"), filepath.Join(root, "a10", "x")
	for _, point := range []string{mine, other} {
		if err := os.MkdirAll(point, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", point, "tmpfs", 0, "size=4k"); err != nil {
			t.Fatalf("mount (this test needs root): %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) }) // gone already, if all is well
	}
	d := lock(t, filepath.Join(root, "a1"))
	defer d.Unlock()
	if err := d.Unmount(); err != nil {
		t.Fatal(err)
	}
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if got := mountsBelow(string(info), root); !cmp.Equal(got, []string{other}) {
		t.Errorf("mounts left: %v", got)
	}
}

func TestMountsBelow(t *testing.T) {
	const info = `1 0 8:1 / / rw - ext4 /dev/root rw
2 1 0:5 / /run/mesopod/a1 rw - tmpfs tmpfs rw
3 2 0:6 / /run/mesopod/a1/kubelet rw shared:1 - tmpfs tmpfs rw
4 2 0:7 / /run/mesopod/a1/kubelet rw - tmpfs tmpfs rw
5 2 0:8 / /run/mesopod/a1/state/x/rootfs rw - overlay overlay rw
6 2 0:9 / /run/mesopod/a1/with\040space rw - tmpfs tmpfs rw
7 1 0:9 / /run/mesopod/a10/other rw - tmpfs tmpfs rw
short line
`
	want := []string{"/run/mesopod/a1/state/x/rootfs", "/run/mesopod/a1/with space", "/run/mesopod/a1/kubelet", "/run/mesopod/a1/kubelet"}
	if diff := cmp.Diff(want, mountsBelow(info, "/run/mesopod/a1")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

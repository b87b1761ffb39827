package agentconn

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxSocketPath is how many bytes of a path the address of a unix socket holds on Linux, but for its end (unix(7)).
const maxSocketPath = 107

// dialSocket connects to a unix socket. One whose path is too long for an address, as those below an agent's work folder may
// be, is reached by way of its folder.
func dialSocket(ctx context.Context, dialer *net.Dialer, path string) (net.Conn, error) {
	if len(path) > maxSocketPath {
		folder, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, fmt.Errorf("connect to the agent's socket: %w", err)
		}
		defer folder.Close()
		path = fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(path))
	}
	return dialer.DialContext(ctx, "unix", path)
}
